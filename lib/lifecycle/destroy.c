/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a comm: wait for ranks that still read, then leave.
 *
 * Teardown is deferred. A destroyed comm keeps its control block, peers, slices in flight, network and control-plane
 * updates until every other rank has left or died: until then a peer may read them. Each creation and destruction of a
 * comm frees the comms that no peer reads any more.
 */
#include "life.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/status.h"
#include "call/call.h"
#include "comm/doorbells.h"
#include "comm/port.h"
#include "engine/model.h"
#include "engine/prog.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "operation/operation.h"
#include "p2p/message.h"
#include "progress/detector.h"
#include "progress/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_PATIENCE 2.0 /* seconds; destroy waits so long, after a failure, for processes that have not noticed it */

/* ---- Deferred teardown ---------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_comm *deferred; /* deferred: only control block, peers, slices in flight and network are left */

/* Free the rest of a comm that no peer reads. */
static void release(struct plait_comm *comm)
{
    plait_remote_destroy(comm->remote);
    for (uint32_t r = 0; comm->peers != NULL && r < comm->nrank; r++) {
        plait_process_put(comm->peers[r].process);
        plait_replica_destroy(comm->peers[r].replica);
    }
    free(comm->peers);
    plait_port_close(comm->port);
    plait_slices_destroy(comm->slices);
    plait_messages_destroy(comm);
    if (comm->own != NULL)
        plait_arena_hide(&comm->own->shown);
    plait_arena_free(comm->shown);
    plait_arena_free(comm->own);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

/* An exit handler: afterwards the network's own libraries end. */
static void close_networks(void)
{
    pthread_mutex_lock(&lock);
    for (struct plait_comm *c = deferred; c != NULL; c = c->next_torn_down)
        plait_port_close(c->port);
    pthread_mutex_unlock(&lock);
}

/* A peer may read this rank's block until that peer has left or died, or until no update from its host can come. */
static bool nobody_reads(const struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_control *c = comm->peers[r].control;
        if (r != comm->rank && c != NULL && atomic_load_explicit(&c->id, memory_order_relaxed) == comm->id &&
            !atomic_load_explicit(&c->departed, memory_order_acquire) && !plait_peer_died(&comm->peers[r]) &&
            !(comm->peers[r].replica != NULL && plait_remote_is_over(comm->remote)))
            return false;
    }
    return true;
}

/* This rank's block is about to be freed and reused: stop other comms of this process from reading it. */
static void forget(const struct plait_comm *comm)
{
    for (struct plait_comm *c = deferred; c != NULL; c = c->next_torn_down)
        if (c->id == comm->id)
            c->peers[comm->rank].control = NULL;
}

/* Under the lock, as ranks of one process clear each other's pointers: see forget(). */
void plait_teardown(struct plait_comm *comm)
{
    static bool watched;
    struct plait_comm **link, *c;

    pthread_mutex_lock(&lock);
    if (comm != NULL) {
        atomic_store_explicit(&comm->own->departed, 1, memory_order_release);
        plait_ring(comm);
        /*
         * A network stays open, like the control block, until the other ranks have left too. To them a closed network
         * looks like a death, and UCX 1.13 aborts a process that is connecting to one that closes.
         */
        if (comm->port != NULL && !watched)
            watched = atexit(close_networks) == 0;
        comm->next_torn_down = deferred;
        deferred = comm;
    }
    for (link = &deferred; (c = *link) != NULL;) {
        if (!nobody_reads(c)) {
            link = &c->next_torn_down;
            continue;
        }
        *link = c->next_torn_down;
        forget(c);
        release(c);
    }
    pthread_mutex_unlock(&lock);
}

static void forget_parent(void)
{
    deferred = NULL; /* leaked: a thread of the parent may have been changing these comms */
}

const struct plait_fork_module plait_comms_fork = { .lock = &lock, .forget = forget_parent };

/* Free what no other rank reads: plans, requests, messages, the slices' lists. */
static void free_private(struct plait_comm *comm)
{
    for (uint32_t i = 0; comm->peers != NULL && i < comm->nrank * PLAIT_NCHANNEL; i++) {
        struct plait_link *link = comm->peers[i / PLAIT_NCHANNEL].link[i % PLAIT_NCHANNEL];
        if (link != NULL)
            link->transport->disconnect(link);
    }
    if (comm->port != NULL && !plait_port_is_quiet(comm->port))
        plait_port_close(comm->port);
    for (unsigned i = 0; plait_spaces[i] != NULL; i++)
        plait_spaces[i]->close(comm);
    plait_requests_forget(comm);
    for (uint32_t i = 0; i < PLAIT_NOP_PLAN; i++)
        plait_op_plan_free(comm->op_plans[i]);
    while (comm->progs != NULL) {
        struct plait_prog *next = comm->progs->next;
        plait_prog_destroy(comm->progs);
        comm->progs = next;
    }
    while (comm->tallies != NULL) {
        struct plait_tally *next = comm->tallies->next;
        free(comm->tallies);
        comm->tallies = next;
    }
    free(comm->slots);
    free(comm->run);
    plait_arena_free(comm->scaled.memory);
    free(comm->algorithms);
    plait_model_destroy(comm->model);
    plait_model_destroy(comm->team_model);
    free(comm->node);
    free(comm->level);
    plait_nodes_finish(&comm->nodes);
    free(comm->processes);
    free(comm->members);
    if (comm->progress)
        plait_progress_thread_stop();
}

/* Other ranks of this host may read the control block once the id is known: see meet() in life.c. */
void plait_comm_discard(struct plait_comm *comm)
{
    free_private(comm);
    if (comm->id != 0 && comm->remote == NULL)
        plait_teardown(comm);
    else
        release(comm);
}

/* ---- Leaving -------------------------------------------------------------------------------------------------- */

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

static const struct plait_wait_kind for_readers = { unfinished };

/* Wait until all ranks have finished the operations that this rank has finished: then nobody reads its memory. */
static enum plait_status wait_for_readers(struct plait_comm *comm)
{
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;
    uint32_t rank;

    plait_wait_init(&w, &for_readers, comm);
    comm->limit = 0;
    while (status == PLAIT_OK && unfinished(comm, &rank, 1) > 0) {
        plait_network_turn(comm);
        status = plait_wait_turn(comm, &w);
    }
    plait_wait_progress(comm, &w);
    if (status == PLAIT_OK)
        status = plait_probe_past_calls(comm);
    return status == PLAIT_OK ? plait_probe_failures(comm) : status;
}

static void settle_spaces(struct plait_comm *comm)
{
    for (unsigned i = 0; plait_spaces[i] != NULL; i++)
        plait_spaces[i]->settle(comm);
}

enum plait_status plait_comm_settle(struct plait_comm *comm)
{
    plait_requests_finish(comm);
    settle_spaces(comm);
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

    if (comm == NULL || plait_comm_inherited(comm)) /* a forked child leaves its parent's comm alone */
        return PLAIT_OK;
    if (comm->async_creation != NULL && plait_async_creation_end(comm) != PLAIT_OK) {
        plait_comm_discard(comm); /* plait_comm_status() reports that error */
        return PLAIT_OK;
    }
    enum plait_status status = plait_comm_is_inside(comm, "plait_comm_destroy");
    if (status != PLAIT_OK)
        return status;
    status = plait_comm_settle(comm);
    bool some = status != PLAIT_OK;
    if (some)
        plait_comm_tell_failure(comm, comm->own->failure, comm->own->culprit);
    for (unsigned i = 0; status == PLAIT_OK && plait_spaces[i] != NULL; i++)
        some |= plait_spaces[i]->leaves_some(comm);
    if (some) {
        settle_spaces(comm); /* again: the comm may have failed since plait_comm_settle() */
        wait_for_insiders(comm);
    }
    if (status != PLAIT_OK)
        plait_fail(status, "%s", comm->own->failure);
    plait_comm_log(comm, PLAIT_LOG_INFO, "left after operation #%llu",
                   (unsigned long long)atomic_load_explicit(&comm->own->done, memory_order_relaxed));
    free_private(comm);
    plait_remote_depart(comm->remote);
    plait_teardown(comm);
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
    const bool locked = plait_comm_lock_counters(comm);
    *out = comm->stats;
    out->wakes = atomic_load_explicit(&comm->wakes, memory_order_relaxed);
    out->plan_hash = comm->last != NULL ? comm->last->selection.plan_hash : 0;
    plait_comm_unlock_counters(comm, locked);
}
