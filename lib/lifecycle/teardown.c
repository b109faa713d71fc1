/* SPDX-License-Identifier: BSD-3-Clause */
#include "teardown.h"

#include "base/fork.h"
#include "comm/doorbells.h"
#include "comm/port.h"
#include "failure/remote/remote.h"
#include "operation/slices.h"
#include "p2p/message.h"
#include "progress/look.h"
#include "progress/wait.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_comm *retired; /* only control block, peers, flights and network are left */

void plait_comm_release(struct plait_comm *comm)
{
    plait_remote_destroy(comm->remote);
    for (uint32_t r = 0; comm->peers != NULL && r < comm->nrank; r++) {
        plait_process_put(comm->peers[r].process);
        plait_replica_destroy(comm->peers[r].replica);
    }
    free(comm->peers);
    plait_port_close(comm->port);
    plait_flights_destroy(comm->flights);
    plait_messages_destroy(comm);
    if (comm->own != NULL)
        plait_arena_hide(&comm->own->shown);
    plait_arena_free(comm->shown);
    plait_arena_free(comm->own);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

/* Before the process ends, or the library is unloaded: the libraries behind a network may be gone in unload(). */
static void close_networks(void)
{
    pthread_mutex_lock(&lock);
    for (struct plait_comm *c = retired; c != NULL; c = c->next_torn_down)
        plait_port_close(c->port);
    pthread_mutex_unlock(&lock);
}

/*
 * A network stays open, as its comm's block does, until the others have left too: to them, closing it looks like a
 * death, and UCX 1.13 aborts a process that is just connecting to one that closes.
 */
static void keep_network(const struct plait_comm *comm)
{
    static bool watched;

    if (comm->port != NULL && !watched)
        watched = atexit(close_networks) == 0;
}

/* A peer no longer reads this rank's block when it has left too, or died; or nobody would tell that. */
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

/* This rank's block is about to be given back, and used for anything: ranks of this process look at it no more. */
static void forget(const struct plait_comm *comm)
{
    for (struct plait_comm *c = retired; c != NULL; c = c->next_torn_down)
        if (c->id == comm->id)
            c->peers[comm->rank].control = NULL;
}

/* Ranks of one process leave under the lock: see forget(). */
void plait_teardown(struct plait_comm *comm)
{
    struct plait_comm **link, *c;

    pthread_mutex_lock(&lock);
    if (comm != NULL) {
        atomic_store_explicit(&comm->own->departed, 1, memory_order_release);
        plait_ring(comm);
        keep_network(comm);
        comm->next_torn_down = retired;
        retired = comm;
    }
    for (link = &retired; (c = *link) != NULL;) {
        if (!nobody_reads(c)) {
            link = &c->next_torn_down;
            continue;
        }
        *link = c->next_torn_down;
        forget(c);
        plait_comm_release(c);
    }
    pthread_mutex_unlock(&lock);
}

/*
 * The library is unloaded, or the process ends. With no comm alive, or being made, no thread is inside it. Blocks
 * that others still read go on in their mappings.
 */
atomic_uint plait_comms_alive;

__attribute__((destructor)) static void unload(void)
{
    if (plait_comms_alive > 0)
        return;
    /* its thread reads what is unmapped next */
    for (struct plait_comm *c = retired; c != NULL; c = c->next_torn_down) {
        plait_remote_destroy(c->remote);
        c->remote = NULL;
    }
    const bool gone = plait_arena_unload();
    for (struct plait_comm *c; (c = retired) != NULL;) {
        retired = c->next_torn_down;
        /* the caller has memory there: then the block stays too, as it is, for those who are slower to leave */
        if (!gone)
            c->own = NULL;
        plait_comm_release(c);
    }
}

void plait_comms_fork(enum plait_fork when)
{
    if (when == PLAIT_FORK_BEFORE) {
        pthread_mutex_lock(&lock);
        return;
    }
    if (when == PLAIT_FORK_CHILD) { /* their memory is lost: a thread may have been in the middle of changing it */
        retired = NULL;
        plait_comms_alive = 0;
    }
    pthread_mutex_unlock(&lock);
}
