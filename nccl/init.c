/* SPDX-License-Identifier: BSD-3-Clause */
/* The version, unique ids, and comms created without a parent. */
#include "config.h"
#include "environment.h"
#include "error.h"
#include "group.h"
#include "job.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct plait_unique_id), "an id is Plait's");

ncclResult_t ncclGetVersion(int *version)
{
    unsigned part[3] = { NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH };
    char text[256];
    int end = 0;

    if (version == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclGetVersion: version is NULL");
    nccl_setting("PLAIT_NCCL_VERSION", text, sizeof text);
    if (sscanf(text, "%2u.%2u.%2u%n", &part[0], &part[1], &part[2], &end) != 3 || text[end] != '\0')
        return nccl_fail(ncclInvalidUsage, NULL, "ncclGetVersion: PLAIT_NCCL_VERSION is '%s', not of the form 2.32.3",
                         text);
    *version = (int)NCCL_VERSION(part[0], part[1], part[2]);
    return ncclSuccess;
}

/* ---- Ids ---------------------------------------------------------------------------------------------------- */

static bool names_interfaces(void)
{
    char text[256];

    nccl_setting("PLAIT_IFNAME", text, sizeof text);
    return text[0] != '\0';
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    struct plait_unique_id id;

    nccl_environment_use();
    if (uniqueId == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclGetUniqueId: uniqueId is NULL");
    if (nccl_environment("NCCL_COMM_ID") != NULL) /* ids contain a secret, addresses do not */
        return nccl_fail(ncclInvalidUsage, NULL,
                         "ncclGetUniqueId: NCCL_COMM_ID=%s: ids are not made from an address; unset it, call "
                         "ncclGetUniqueId() in one process and give its id to all ranks",
                         nccl_environment("NCCL_COMM_ID"));
    enum plait_status status = plait_unique_id_create_tcp(NULL, &id);
    /* A build without TCP, or a machine without a network, can use this host only. */
    if (status == PLAIT_ERR_UNSUPPORTED || (status == PLAIT_ERR_CONFIG && !names_interfaces()))
        status = plait_unique_id_create(&id);
    if (status == PLAIT_OK)
        memcpy(uniqueId->internal, id.bytes, sizeof uniqueId->internal);
    return nccl_result(status, NULL, "ncclGetUniqueId");
}

/* ---- Comms -------------------------------------------------------------------------------------------------- */

static ncclResult_t create(ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank, int device, bool gpu,
                           const struct nccl_config *config, const char *call)
{
    struct nccl_job *j = nccl_job_new(NCCL_JOB_CREATE, call, NULL, config->blocking, config->name);

    if (j != NULL)
        j->child = nccl_comm_new(nranks, rank, device, gpu, config->blocking);
    if (j == NULL || j->child == NULL) {
        nccl_jobs_free(j);
        return nccl_fail(ncclSystemError, NULL, "%s: out of memory", call);
    }
    memcpy(j->id.bytes, id->internal, sizeof j->id.bytes);
    j->options.nrank = (uint32_t)nranks;
    j->options.rank = (uint32_t)rank;
    j->options.id = &j->id;
    j->out = comm;
    *comm = j->child;
    return nccl_job_do(j);
}

static ncclResult_t init_rank(ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *config, const char *call)
{
    struct nccl_config c = { true, "nccl" };

    nccl_environment_use();
    if (comm == NULL)
        return nccl_group_refuse(nccl_fail(ncclInvalidArgument, NULL, "%s: comm is NULL", call));
    if (nranks < 1 || nranks > PLAIT_MAX_RANKS)
        return nccl_group_refuse(
            nccl_fail(ncclInvalidArgument, NULL, "%s: nranks is %d; it is 1 to %d", call, nranks, PLAIT_MAX_RANKS));
    if (rank < 0 || rank >= nranks)
        return nccl_group_refuse(
            nccl_fail(ncclInvalidArgument, NULL, "%s: rank is %d; it is 0 to %d", call, rank, nranks - 1));
    bool gpu = false;
    int device = 0;
    ncclResult_t result = nccl_config_read(config, call, &c);
    if (result == ncclSuccess)
        result = nccl_device_now(call, &device, &gpu);
    if (result == ncclSuccess)
        result = nccl_device_check(device, gpu, call);
    if (result == ncclSuccess)
        result = create(comm, nranks, id, rank, device, gpu, &c, call);
    return nccl_group_refuse(result);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    return init_rank(comm, nranks, &commId, rank, NULL, "ncclCommInitRank");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config)
{
    return init_rank(comm, nranks, &commId, rank, config, "ncclCommInitRankConfig");
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
                                      ncclConfig_t *config)
{
    if (commIds == NULL)
        return nccl_group_refuse(nccl_fail(ncclInvalidArgument, NULL, "ncclCommInitRankScalable: commIds is NULL"));
    if (nId < 1)
        return nccl_group_refuse(
            nccl_fail(ncclInvalidArgument, NULL, "ncclCommInitRankScalable: nId is %d; it is 1 at least", nId));
    return init_rank(newcomm, nranks, commIds, myrank, config, "ncclCommInitRankScalable");
}

/* ---- All ranks in this thread --------------------------------------------------------------------------------- */

static ncclResult_t check_devices(int ndev, const int *devlist, bool *gpu)
{
    int now;
    ncclResult_t result = nccl_device_now("ncclCommInitAll", &now, gpu);

    for (int i = 0; i < ndev && result == ncclSuccess; i++)
        result = nccl_device_check(devlist != NULL ? devlist[i] : i, *gpu, "ncclCommInitAll");
    return result;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
    const struct nccl_config config = { true, "nccl" };
    struct plait_unique_id id;
    ncclUniqueId as_theirs;

    nccl_environment_use();
    if (comm == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclCommInitAll: comm is NULL");
    if (ndev < 1 || ndev > PLAIT_MAX_RANKS)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclCommInitAll: ndev is %d; it is 1 to %d", ndev,
                         PLAIT_MAX_RANKS);
    bool gpu = false;
    ncclResult_t result = check_devices(ndev, devlist, &gpu);
    if (result == ncclSuccess)
        result = nccl_result(plait_unique_id_create(&id), NULL, "ncclCommInitAll");
    if (result == ncclSuccess)
        result = ncclGroupStart();
    if (result != ncclSuccess)
        return result;
    memcpy(as_theirs.internal, id.bytes, sizeof as_theirs.internal);
    for (int i = 0; i < ndev; i++)
        nccl_group_refuse(
            create(&comm[i], ndev, &as_theirs, i, devlist != NULL ? devlist[i] : i, gpu, &config, "ncclCommInitAll"));
    return ncclGroupEnd();
}

NCCL_TWIN(GetVersion);
NCCL_TWIN(GetUniqueId);
NCCL_TWIN(CommInitRank);
NCCL_TWIN(CommInitRankConfig);
NCCL_TWIN(CommInitRankScalable);
NCCL_TWIN(CommInitAll);
