/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a comm: wait for ranks that still read, then leave. teardown.c frees the memory that they may read. */
#include "life.h"

#include "base/status.h"
#include "comm/port.h"
#include "device/device_comm.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "failure/report.h"
#include "p2p/message.h"
#include "progress/look.h"
#include "teardown.h"

#include <errno.h>
#include <unistd.h>

#define MOST_PATIENCE 2.0 /* seconds; destroy waits so long, after a failure, for processes that have not noticed it */

/*
 * Would the network lose anything for `rank` if this rank left now: a message that it has not acknowledged, or this
 * rank's acknowledgement of its messages? A rank that has left needs neither.
 */
static bool has_mail(const struct plait_comm *comm, uint32_t rank)
{
    return comm->port != NULL &&
           !(plait_port_is_taken(comm->port, rank, PLAIT_CHANNEL_MESSAGES) &&
             plait_port_is_taken(comm->port, rank, PLAIT_CHANNEL_DEVICE_MESSAGES) &&
             !plait_port_owes(comm->port, rank)) &&
           !atomic_load_explicit(&comm->peers[rank].control->departed, memory_order_acquire);
}

static uint32_t unfinished(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_comm *comm = context;
    uint32_t n = 0;

    for (uint32_t r = 0; r < comm->nrank && n < most; r++)
        if (atomic_load_explicit(&comm->peers[r].control->done, memory_order_acquire) < comm->sequence ||
            has_mail(comm, r))
            ranks[n++] = r;
    return n;
}

/* Wait until all ranks have finished the operations that this rank has finished: then nobody reads its memory. */
static enum plait_status wait_for_readers(struct plait_comm *comm)
{
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;
    uint32_t rank;

    plait_wait_init(&w, NULL, unfinished, comm);
    comm->limit = 0;
    while (status == PLAIT_OK && unfinished(comm, &rank, 1) > 0) {
        plait_network_turn(comm);
        status = plait_wait_turn(comm, &w);
    }
    plait_wait_progress(comm, &w);
    if (status == PLAIT_OK)
        status = plait_look_at_past_calls(comm);
    return status == PLAIT_OK ? plait_look_for_failures(comm) : status;
}

enum plait_status plait_comm_settle(struct plait_comm *comm)
{
    plait_requests_finish(comm);
    plait_device_settle(comm);
    plait_remote_tell(comm->remote); /* send `done` to other hosts, whose ranks wait for it too */
    const enum plait_status status = (enum plait_status)atomic_load(&comm->own->failed);
    return status == PLAIT_OK ? wait_for_readers(comm) : status;
}

/*
 * Is the rank in an operation that may still read this rank's buffers? Its comm's failure does not answer that: another
 * thread of its process may have called abort.
 */
static bool is_inside(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_control *c = comm->peers[rank].control;
    const uint64_t next = atomic_load(&c->done) + 1;

    return ((uint32_t)atomic_load(&plait_ring_record(&c->ring, next)->word) == (uint32_t)next ||
            atomic_load(&c->receiving)) &&
           !atomic_load(&c->noticed) && !atomic_load(&c->departed) && atomic_load(&c->id) == comm->id;
}

/*
 * After a failure, wait until the ranks inside an operation have noticed it: milliseconds, or one copy or reduction.
 *
 * Ranks in threads of this process read the caller's memory directly. No thread dies alone, so there is no time limit.
 * Ranks of another process read the arena, which stays mapped, and the caller's memory by process_vm_readv(), which
 * returns an error for unmapped memory. Their reads land in buffers of a failed operation, and they check for failures
 * before they report success. So giving up on a stopped process after MOST_PATIENCE risks no fault and no wrong sum.
 */
static void wait_for_insiders(struct plait_comm *comm)
{
    const double until = plait_clock() + MOST_PATIENCE;

    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_process *p = comm->peers[r].process;
        while (r != comm->rank && p != NULL && is_inside(comm, r) &&
               (p->base == NULL || (!plait_process_dead(p) && plait_clock() < until)))
            if (!plait_progress()) /* the rank may belong to this thread */
                usleep(200);
    }
}

enum plait_status plait_comm_destroy(struct plait_comm *comm)
{
    const int saved = errno;
    enum plait_status status;

    if (comm != NULL && comm->async_creation != NULL && !plait_comm_inherited(comm)) {
        if (plait_async_creation_end(comm) != PLAIT_OK) { /* plait_comm_status() reports that error */
            plait_comm_discard(comm);
            return PLAIT_OK;
        }
    }
    if (comm == NULL || plait_comm_inherited(comm)) /* a forked child leaves its parent's comm alone */
        return PLAIT_OK;
    status = plait_comm_is_inside(comm, "plait_comm_destroy");
    if (status != PLAIT_OK)
        return status;
    status = plait_comm_settle(comm);
    if (status != PLAIT_OK)
        plait_comm_tell_failure(comm, comm->own->failure, comm->own->culprit);
    if (status != PLAIT_OK || plait_device_leaves_some(comm)) {
        plait_device_settle(comm); /* again: the comm may have failed since plait_comm_settle() */
        wait_for_insiders(comm);
    }
    if (status != PLAIT_OK)
        plait_fail(status, "%s", comm->own->failure);
    plait_comm_log(comm, PLAIT_LOG_INFO, "left after %llu operations",
                   (unsigned long long)atomic_load_explicit(&comm->own->done, memory_order_relaxed));
    plait_comm_free_private(comm);
    plait_remote_depart(comm->remote);
    plait_teardown(comm);
    plait_comms_alive--;
    errno = saved;
    return status;
}

enum plait_status plait_comm_abort(struct plait_comm *comm, const char *reason)
{
    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_abort: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_abort");
    if (!plait_comm_uncreated(comm) || !plait_async_creation_abort(comm))
        plait_comm_announce_abort(comm, reason, false);
    return PLAIT_OK;
}

void plait_comm_stats(const struct plait_comm *comm, struct plait_comm_stats *out)
{
    if (out == NULL)
        return;
    memset(out, 0, sizeof *out);
    if (comm == NULL)
        return;
    const bool locked = plait_comm_look(comm);
    *out = comm->stats;
    out->wakes = atomic_load_explicit(&comm->wakes, memory_order_relaxed);
    out->plan_hash = comm->last != NULL ? comm->last->selection.plan_hash : 0;
    plait_comm_looked(comm, locked);
}
