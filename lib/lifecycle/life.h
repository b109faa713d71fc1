/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room lifecycle: creation, division and end of communicators.
 *
 * life.c creates, destroy.c destroys and frees when nobody reads. connect.c runs the rendezvous and maps the ranks'
 * arenas; cards.c compares their options and settings. split.c makes communicators from others (split, duplicate,
 * shrink), manage.c suspends, finalizes and revokes.
 *
 * The room promises: creation is collective. All ranks get the communicator, or all that are still there get one error
 * that names the culprit. Destroying waits for ranks that still read, never for dead ones.
 *
 * It is above all rooms that a communicator is made of, so it may know each of them.
 */
#ifndef PLAIT_LIB_LIFECYCLE_LIFE_H
#define PLAIT_LIB_LIFECYCLE_LIFE_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/frame.h"
#include "comm/comm.h"

#include <sched.h>

/* plait_comm_create() that ignores an open group. `own` and `watch`: see plait_comm_connect(). */
enum plait_status plait_comm_make(const struct plait_comm_options *options, enum plait_status own,
                                  const struct plait_watch *watch, struct plait_comm **out);

/* Wait until nothing is pending and nobody reads this rank's memory for an operation that has ended. */
enum plait_status plait_comm_settle(struct plait_comm *comm);

/* Free a comm whose creation failed. */
void plait_comm_discard(struct plait_comm *comm);

/*
 * The rendezvous of a comm's ranks: compare options and settings, map each other's arenas.
 *
 * o      their id, rank, nrank and timeout
 * watch  polled while the rank waits, to end the rendezvous from outside; or NULL
 * own    this rank's status so far. A rank that has failed takes part too, to tell the others; comm may be NULL then.
 * Returns `own` if it is an error; else the first error of any rank, the same on all ranks that can be told.
 */
enum plait_status plait_comm_connect(struct plait_comm *comm, const struct plait_comm_options *o, enum plait_status own,
                                     const struct plait_watch *watch);

/*
 * Asynchronous creation. abort: end it with an error, or, if it has just succeeded, make the comm fail; false: the comm
 * was complete before the call; any thread. end: cancel it if it still runs, and join its thread; PLAIT_OK: the comm is
 * complete.
 */
bool plait_async_creation_abort(struct plait_comm *comm);
enum plait_status plait_async_creation_end(struct plait_comm *comm);

/* ---- Deferred teardown: see destroy.c ---- */

/* Leave `comm` (NULL: none), then free every comm that no peer reads any more. */
void plait_teardown(struct plait_comm *comm);

/* plait_comm_revoke() without the checks of its argument. */
void plait_comm_stop(struct plait_comm *comm);

/* ---- Cards: each rank's description of itself, exchanged when a comm is created; what follows from them --------- */

/* Where a rank's processors lie on its host: package, memory node, shared cache; PLAIT_NOWHERE: unknown. */
#define PLAIT_NPLACE 3

struct plait_card {
    struct plait_token process;
    uint64_t control; /* offset in the arena */
    uint64_t arena_size, id, slice, nccl_fusion, cache, last_level, node_hash, algorithms;
    struct plait_pace pace;
    int32_t pid, reproducible, round;
    bool has_pidfd; /* given[1] is a pidfd, by which peers detect the process's death */
    char version[16];
    char algo[64];
    uint8_t hosts;  /* PLAIT_HOSTS */
    bool copies;    /* its process has timed its copies, or must not (PLAIT_CALIBRATE=0) */
    cpu_set_t cpus; /* on which this rank may run */
    uint64_t host;  /* hash, one per host over all its containers; 0: unknown */
    uint64_t rack;  /* hash of PLAIT_RACK; 0: unknown */
    uint32_t place[PLAIT_NPLACE];

    /* Of a comm that spans hosts; else zeroes. */
    char network[56];  /* and its version */
    char hostname[64]; /* name of the host */
    uint64_t address;  /* bytes of the address in the network */
};

/* The card of this rank, but for has_pidfd, place and the network. */
enum plait_status plait_card_fill(const struct plait_comm *comm, const struct plait_arena *arena,
                                  struct plait_card *out);

/*
 * Cards come from other programs: check them before any use. Options and settings must be equal on all ranks; the error
 * names the first difference.
 */
enum plait_status plait_cards_check(const struct plait_card *all, uint32_t nrank);

/*
 * Which ranks are near each other. Set the comm's levels, equal on all ranks. None if they would say no more
 * than its nodes.
 *
 * node  [nrank] ranks of a node share memory
 */
enum plait_status plait_levels_find(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node);

/*
 * speeds.c: the speeds of a new comm's hosts, timed, agreed on, and made into the model that picks algorithms.
 *
 * time: if the process of the node's lowest rank, `first`, has timed no copies yet, it does so now, with the node's
 * next rank of another process. Returns memory that the caller frees after the next agreement, or NULL.
 *
 * agree: the last agreement of a creation. Each rank shows the speeds that it knows: the lowest rank of each node
 * decides on the node's copy modes, and rank 0 on the algorithms of all.
 */
void *plait_speeds_time(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node, uint32_t first);
enum plait_status plait_speeds_agree(struct plait_comm *comm, struct plait_bootstrap *boot, uint32_t first,
                                     enum plait_status own);

#endif
