/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until one of several ranks has written something new. A rank's doorbell is a futex word in its control
 * block, which every process maps. To ring, the rank increments its doorbell and wakes the sleepers.
 *
 * The sleeper announces itself and reads the doorbells, polls once more, then sleeps. A rank that writes after that
 * poll sees the announcement and rings: the doorbell has changed, so the sleep ends at once. No fence orders the
 * announcement before the poll, so a ring can be missed. That costs one sleep: the first ones last at most 1 ms.
 *
 * A rank that awaits another over a network sleeps on the network's descriptor instead and does not hear doorbells.
 */
#ifndef PLAIT_LIB_COMM_DOORBELLS_H
#define PLAIT_LIB_COMM_DOORBELLS_H

#include "comm.h"

#define PLAIT_DOORBELLS          16 /* doorbells of one sleep */
#define PLAIT_DOORBELLS_NETWORKS 4

struct plait_doorbells {
    uint32_t n, nnetwork;
    struct pollfd network[PLAIT_DOORBELLS_NETWORKS];
    bool awake; /* do not sleep: a network has work already, or no descriptor */
    struct {    /* the kernel's struct futex_waitv, which older headers lack */
        uint64_t value, address;
        uint32_t flags, reserved;
    } at[PLAIT_DOORBELLS];
};

/* Add a doorbell of this process or another. More than PLAIT_DOORBELLS are ignored. */
void plait_doorbells_add(struct plait_doorbells *doorbells, const _Atomic uint32_t *doorbell);

/* Announce that this rank sleeps, and add the doorbells of these ranks, or their network's descriptor. */
void plait_doorbells_announce(struct plait_doorbells *doorbells, struct plait_comm *comm, const uint32_t *ranks,
                              uint32_t n);

/* Sleep until a doorbell changes or `ns` nanoseconds (below a second) have passed. Without doorbells: yield. Keeps
 * errno. */
void plait_doorbells_sleep(struct plait_doorbells *doorbells, long ns);

/* Does every doorbell end such a sleep? Not if there are too many, beside a network, or without futex_waitv(). */
bool plait_doorbells_hear(const struct plait_doorbells *doorbells);

/* Change a doorbell and wake the threads that sleep on it. */
void plait_doorbells_ring(_Atomic uint32_t *doorbell);

/* Ring this rank's doorbell. */
void plait_ring(struct plait_comm *comm);

/* Wake `peer` if it sleeps. Called after data for it was written. */
static inline void plait_wake(struct plait_comm *comm, uint32_t peer)
{
    if (__builtin_expect(atomic_load_explicit(&comm->peers[peer].control->asleep, memory_order_relaxed), 0))
        plait_ring(comm);
}

/* Withdraw the announcement. */
static inline void plait_awake(struct plait_comm *comm)
{
    atomic_store_explicit(&comm->own->asleep, 0, memory_order_relaxed);
}

#endif
