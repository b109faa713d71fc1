/* SPDX-License-Identifier: BSD-3-Clause */
#include "teardown.h"

#include "base/fork.h"
#include "comm/doorbells.h"
#include "comm/port.h"
#include "failure/remote/remote.h"
#include "operation/slices.h"
#include "p2p/message.h"
#include "progress/detector.h"
#include "progress/wait.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_comm *retired; /* deferred: only control block, peers, slices in flight and network are left */

void plait_comm_release(struct plait_comm *comm)
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

/* An exit handler: runs before unload(), when the network's own libraries may already be unloaded. */
static void close_networks(void)
{
    pthread_mutex_lock(&lock);
    for (struct plait_comm *c = retired; c != NULL; c = c->next_torn_down)
        plait_port_close(c->port);
    pthread_mutex_unlock(&lock);
}

/*
 * A network stays open, like the comm's control block, until the other ranks have left too. To them a closed network
 * looks like a death, and UCX 1.13 aborts a process that is connecting to one that closes.
 */
static void keep_network(const struct plait_comm *comm)
{
    static bool watched;

    if (comm->port != NULL && !watched)
        watched = atexit(close_networks) == 0;
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
    for (struct plait_comm *c = retired; c != NULL; c = c->next_torn_down)
        if (c->id == comm->id)
            c->peers[comm->rank].control = NULL;
}

/* Under the lock, as ranks of one process clear each other's pointers: see forget(). */
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
 * The library is unloaded, or the process ends. No thread is inside the library if no comm is alive or being created.
 * Peers that still read a control block have their own mapping of it.
 */
atomic_uint plait_comms_alive;

__attribute__((destructor)) static void unload(void)
{
    if (plait_comms_alive > 0)
        return;
    /* stops the threads that read the arena, which is unmapped next */
    for (struct plait_comm *c = retired; c != NULL; c = c->next_torn_down) {
        plait_remote_destroy(c->remote);
        c->remote = NULL;
    }
    const bool gone = plait_arena_unload();
    for (struct plait_comm *c; (c = retired) != NULL;) {
        retired = c->next_torn_down;
        /* the arena stays, as the caller has memory in it: keep the block for peers that leave later */
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
    if (when == PLAIT_FORK_CHILD) { /* leaked: a thread of the parent may have been changing these comms */
        retired = NULL;
        plait_comms_alive = 0;
    }
    pthread_mutex_unlock(&lock);
}
