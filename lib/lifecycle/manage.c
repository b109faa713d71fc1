/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on a living comm: finalize, revoke, suspend, resume, and queries. */
#include "base/status.h"
#include "call/call.h"
#include "comm/port.h"
#include "life.h"
#include "operation/operation.h"
#include "p2p/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void suspend(struct plait_comm *comm)
{
    plait_slices_empty(comm);
    plait_messages_empty(comm);
    plait_arena_free(comm->scaled.memory);
    comm->scaled = (struct plait_room){ 0 };
    comm->suspended = true;
}

/* Suspend or end the comm, once nothing is pending. */
static enum plait_status close_comm(struct plait_comm *comm, const char *call, bool suspends)
{
    const int saved = errno;
    enum plait_status status = plait_not_in_group(plait_enter(comm, call, PLAIT_SUM, NULL), call);

    if (status == PLAIT_OK && comm->owner != NULL)
        status = plait_fail(PLAIT_ERR_ARG, "%s: the comm is %s", call, comm->owner->whose);
    if (status == PLAIT_OK)
        status = plait_comm_settle(comm);
    if (status == PLAIT_OK) {
        if (suspends)
            suspend(comm);
        comm->finalized = !suspends;
        comm->open = 0;
    }
    errno = saved;
    return status;
}

enum plait_status plait_comm_finalize(struct plait_comm *comm)
{
    return close_comm(comm, "plait_comm_finalize", false);
}

enum plait_status plait_comm_suspend(struct plait_comm *comm)
{
    return close_comm(comm, "plait_comm_suspend", true);
}

void plait_comm_stop(struct plait_comm *comm)
{
    plait_comm_announce_abort(comm, "revoked", true);
    plait_requests_finish(comm);
}

enum plait_status plait_comm_revoke(struct plait_comm *comm)
{
    static const char call[] = "plait_comm_revoke";
    const int saved = errno;
    enum plait_status status = PLAIT_OK; /* no plait_enter(): the comm may have failed, or another thread may use it */

    if (comm == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "%s: comm is NULL", call);
    else if (plait_comm_closed(comm))
        status = plait_comm_is_closed(comm, call);
    status = plait_not_in_group(status, call);
    if (status == PLAIT_OK)
        plait_comm_stop(comm);
    errno = saved;
    return status;
}

enum plait_status plait_comm_resume(struct plait_comm *comm)
{
    if (comm != NULL && plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_resume");
    if (comm == NULL || !comm->suspended)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_resume: the comm is %s", comm == NULL ? "NULL" : "not suspended");
    comm->suspended = false; /* operations allocate the memory again when they need it */
    comm->open = plait_generation;
    return PLAIT_OK;
}

const char *plait_comm_name(const struct plait_comm *comm)
{
    return comm != NULL ? comm->name : "";
}

double plait_comm_waited(const struct plait_comm *comm, uint32_t peer)
{
    if (comm == NULL || peer >= comm->nrank || plait_comm_inherited(comm) || plait_comm_uncreated(comm))
        return 0;
    const bool locked = plait_comm_lock_counters(comm);
    const double waited = comm->peers[peer].waited;
    plait_comm_unlock_counters(comm, locked);
    return waited;
}

enum plait_status plait_comm_peer(struct plait_comm *comm, uint32_t rank, struct plait_peer_info *out)
{
    const enum plait_status status = plait_enter(comm, "plait_comm_peer", PLAIT_SUM, NULL);
    struct plait_peer_info info = { 0 };

    if (status != PLAIT_OK)
        return status;
    if (rank >= comm->nrank || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_peer: rank is %" PRIu32 " and out %s; ranks are 0 to %" PRIu32,
                          rank, out == NULL ? "NULL" : "given", comm->nrank - 1);
    snprintf(info.transport, sizeof info.transport, "%s",
             rank == comm->rank                                         ? "self"
             : comm->port != NULL && plait_port_leads(comm->port, rank) ? plait_port_network(comm->port)
                                                                        : "shm");
    if (comm->port != NULL && rank != comm->rank) {
        pthread_mutex_lock(&comm->lock);
        plait_port_describe(comm->port, rank, info.device, sizeof info.device);
        pthread_mutex_unlock(&comm->lock);
    }
    const bool remote = comm->peers[rank].process == NULL;
    snprintf(info.gpu, sizeof info.gpu, "%s",
             !remote                                ? "mapped"
             : plait_port_takes_devices(comm->port) ? "direct"
                                                    : "pinned");
    info.node = comm->node != NULL ? comm->node[rank] : 0;
    for (uint32_t l = comm->nlevel; l-- > 0;)
        if (comm->level[l * comm->nrank + rank] == comm->level[l * comm->nrank + comm->rank])
            snprintf(info.shares, sizeof info.shares, "%s", comm->level_names[l]);
    *out = info;
    return PLAIT_OK;
}

void plait_comm_memory(const struct plait_comm *comm, struct plait_comm_memory *out)
{
    if (out == NULL)
        return;
    memset(out, 0, sizeof *out);
    if (comm == NULL || plait_comm_inherited(comm) || plait_comm_uncreated(comm))
        return;
    const bool locked = plait_comm_lock_counters(comm);
    out->control = plait_control_bytes(comm->nrank);
    out->staging = plait_slices_bytes(comm->slices) + plait_messages_bytes(comm) + comm->scaled.bytes;
    for (unsigned i = 0; plait_spaces[i] != NULL; i++)
        out->device += plait_spaces[i]->bytes(comm);
    plait_comm_unlock_counters(comm, locked);
}
