/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until one of several ranks has news. A rank that has some for a sleeper rings: it adds to its bell, a word
 * in its control block that every process maps, and wakes who sleeps on it.
 *
 * Announce and read the bells; poll once more; sleep. A rank that has news after that poll sees the announcement and
 * rings, which changes its bell, so the sleep ends at once. A ring that is missed, as no fence keeps that poll and the
 * announcement in order, costs a sleep; so the first ones are at most a millisecond long.
 *
 * Who awaits a rank that is reached over a network sleeps on that network's descriptor instead, and misses the bells.
 */
#ifndef PLAIT_LIB_COMM_BELLS_H
#define PLAIT_LIB_COMM_BELLS_H

#include "comm.h"

#define PLAIT_BELLS          16 /* that a sleeper waits on */
#define PLAIT_BELLS_NETWORKS 4

struct plait_bells {
    uint32_t n, nnetwork;
    int network[PLAIT_BELLS_NETWORKS]; /* descriptors */
    bool awake;                        /* a network has something to do already */
    struct {
        const _Atomic uint32_t *bell;
        uint32_t value;
    } at[PLAIT_BELLS];
};

/* Nothing. */
static inline void plait_bells_init(struct plait_bells *bells)
{
    bells->n = bells->nnetwork = 0;
    bells->awake = false;
}

/* What a sleeper waits on: a word of this process or of another. What does not fit is left out. */
void plait_bells_add(struct plait_bells *bells, const _Atomic uint32_t *bell);

/* Say that this rank sleeps until one of these ranks rings. */
void plait_bells_announce(struct plait_bells *bells, struct plait_comm *comm, const uint32_t *ranks, uint32_t n);

/* Until one of them has changed, or `ns` nanoseconds (below a second) have passed. With none: let others run. Keeps
 * errno. */
void plait_bells_sleep(const struct plait_bells *bells, long ns);

/* Does each of them end such a sleep? Not if there are too many, beside a network, or on a kernel that waits for one. */
bool plait_bells_hear(const struct plait_bells *bells);

/* Change a bell and wake who sleeps on it. */
void plait_bells_ring(_Atomic uint32_t *bell);

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
