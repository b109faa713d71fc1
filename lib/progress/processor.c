/* SPDX-License-Identifier: BSD-3-Clause */
#include "processor.h"

void plait_tell_processor(struct plait_comm *comm)
{
    const uint32_t here = (uint32_t)(sched_getcpu() + 1);

    if (atomic_load_explicit(&comm->own->processor, memory_order_relaxed) != here)
        atomic_store_explicit(&comm->own->processor, here, memory_order_relaxed);
}

bool plait_neighbour_waits(const struct plait_comm *comm)
{
    bool away = false;

    for (uint32_t r = 0; r < comm->nrank && !away; r++) {
        const struct plait_peer *peer = &comm->peers[r];
        away = r != comm->rank && peer->process != NULL && !plait_is_apart(comm, r) &&
               atomic_load_explicit(&peer->control->away, memory_order_relaxed) != 0;
    }
    return away;
}
