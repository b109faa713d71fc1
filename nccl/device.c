/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's device API on the host: questions about ranks. */
#include "device.h"

#include "error.h"

#include <string.h>

static ncclTeam_t whole_comm(ncclComm_t comm, const char *call)
{
    ncclTeam_t team = { 0, 0, 0 };

    if (nccl_enter(comm, call) == ncclSuccess) {
        team = (ncclTeam_t){ comm->nrank, comm->rank, 1 };
        nccl_leave(comm);
    }
    return team;
}

static const ncclTeam_t alone = { 1, 0, 1 }, nobody = { 0, 0, 0 };

ncclTeam_t ncclTeamWorld(ncclComm_t comm)
{
    return whole_comm(comm, "ncclTeamWorld");
}

ncclTeam_t ncclTeamRail(ncclComm_t comm)
{
    return whole_comm(comm, "ncclTeamRail");
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
    (void)comm;
    return alone;
}

ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode)
{
    (void)comm;
    (void)mode;
    return alone;
}

ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm)
{
    (void)comm;
    return nobody;
}

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
    return whole_comm(comm, "ncclTeamRankToWorld").rank + (rank - team.rank) * team.stride;
}

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
    (void)comm;
    return (rank - team.rank) * team.stride;
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props)
{
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommQueryProperties");

    if (result != ncclSuccess)
        return result;
    if (props == NULL || props->magic != NCCL_API_MAGIC ||
        props->size < offsetof(ncclCommProperties_t, deviceApiSupport)) {
        result = nccl_fail(ncclInvalidArgument, comm,
                           "ncclCommQueryProperties: props does not begin with NCCL_COMM_PROPERTIES_INITIALIZER");
    } else {
        ncclCommProperties_t all = { .size = props->size, .magic = props->magic, .version = props->version };
        all.rank = comm->rank;
        all.nRanks = comm->nrank;
        all.cudaDev = all.nvmlDev = comm->device;
        all.nLsaTeams = comm->nrank;
        all.ginMinStride = 1;
        memcpy(props, &all, props->size < sizeof all ? props->size : sizeof all);
    }
    nccl_leave(comm);
    return result;
}

NCCL_TWIN(TeamWorld);
NCCL_TWIN(TeamRail);
NCCL_TWIN(TeamLsa);
NCCL_TWIN(TeamCft);
NCCL_TWIN(TeamCftMultimem);
NCCL_TWIN(TeamRankToWorld);
NCCL_TWIN(TeamRankToLsa);
NCCL_TWIN(CommQueryProperties);
