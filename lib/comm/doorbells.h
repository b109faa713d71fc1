/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until one of several ranks has news. A rank that has some for a sleeper rings: it adds to its doorbell, a
 * word in its control block that every process maps, and wakes who sleeps on it.
 *
 * Announce and read the doorbells; poll once more; sleep. A rank that has news after that poll sees the announcement
 * and rings, which changes its doorbell, so the sleep ends at once. A ring that is missed, as no fence keeps that poll
 * and the announcement in order, costs a sleep; so the first ones are at most a millisecond long.
 *
 * Who awaits a rank that is reached over a network sleeps on that network's descriptor instead, and misses the
 * doorbells.
 */
#ifndef PLAIT_LIB_COMM_DOORBELLS_H
#define PLAIT_LIB_COMM_DOORBELLS_H

#include "comm.h"

#define PLAIT_DOORBELLS          16 /* that a sleeper waits on */
#define PLAIT_DOORBELLS_NETWORKS 4

struct plait_doorbells {
    uint32_t n, nnetwork;
    int network[PLAIT_DOORBELLS_NETWORKS]; /* descriptors */
    bool awake;                            /* a network has something to do already */
    struct {
        const _Atomic uint32_t *doorbell;
        uint32_t value;
    } at[PLAIT_DOORBELLS];
};

/* Nothing. */
static inline void plait_doorbells_init(struct plait_doorbells *doorbells)
{
    doorbells->n = doorbells->nnetwork = 0;
    doorbells->awake = false;
}

/* What a sleeper waits on: a word of this process or of another. What does not fit is left out. */
void plait_doorbells_add(struct plait_doorbells *doorbells, const _Atomic uint32_t *doorbell);

/* Say that this rank sleeps until one of these ranks rings. */
void plait_doorbells_announce(struct plait_doorbells *doorbells, struct plait_comm *comm, const uint32_t *ranks,
                              uint32_t n);

/* Until one of them has changed, or `ns` nanoseconds (below a second) have passed. With none: let others run. Keeps
 * errno. */
void plait_doorbells_sleep(const struct plait_doorbells *doorbells, long ns);

/*
 * Does each of them end such a sleep? Not if there are too many, beside a network, or on a kernel that waits for one.
 */
bool plait_doorbells_hear(const struct plait_doorbells *doorbells);

/* Change a doorbell and wake who sleeps on it. */
void plait_doorbells_ring(_Atomic uint32_t *doorbell);

/* This rank's. */
void plait_ring(struct plait_comm *comm);

/* Wake `peer` if it sleeps; after news for it was written. */
static inline void plait_wake(struct plait_comm *comm, uint32_t peer)
{
    if (__builtin_expect(atomic_load_explicit(&comm->peers[peer].control->asleep, memory_order_relaxed), 0))
        plait_ring(comm);
}

/* This rank is awake. */
static inline void plait_awake(struct plait_comm *comm)
{
    atomic_store_explicit(&comm->own->asleep, 0, memory_order_relaxed);
}

#endif
