/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share a processor, where a processor has two ranks and none has more (comm->apart > 0). Each rank
 * publishes its processor when an operation begins, and whether it has yielded it.
 */
#ifndef PLAIT_LIB_PROGRESS_PROCESSOR_H
#define PLAIT_LIB_PROGRESS_PROCESSOR_H

#include "comm/comm.h"

#include <sched.h>

/* At the start of an operation: publish this rank's processor. */
void plait_tell_processor(struct plait_comm *comm);

/* Does `rank` run on this host, on another processor than this rank, by their last published values? */
static inline bool plait_is_apart(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_peer *peer = &comm->peers[rank];
    const uint32_t there =
        peer->process != NULL ? atomic_load_explicit(&peer->control->processor, memory_order_relaxed) : 0;

    return there != 0 && there != atomic_load_explicit(&comm->own->processor, memory_order_relaxed);
}

/* Has another rank of this processor yielded? Its data may be there already. Waits for requests do not publish this. */
bool plait_neighbour_waits(const struct plait_comm *comm);

/* Yield. Ranks on the same processor see `away` until plait_is_back(). */
static inline void plait_give_way(struct plait_comm *comm)
{
    if (comm->apart > 0)
        atomic_store_explicit(&comm->own->away, 1, memory_order_relaxed);
    sched_yield();
}

static inline void plait_is_back(struct plait_comm *comm)
{
    if (comm->apart > 0)
        atomic_store_explicit(&comm->own->away, 0, memory_order_relaxed);
}

#endif
