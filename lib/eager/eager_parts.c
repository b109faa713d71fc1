/* SPDX-License-Identifier: BSD-3-Clause */
/* Eager operations with variable block sizes; see eager.c. */
#include "eager_slots.h"
#include "failure/failure.h"

#include <string.h>

void plait_eager_put_parts(const struct plait_run *run, size_t slot)
{
    const struct plait_eager_plan *t = &run->o->eager;
    struct plait_comm *comm = run->comm;
    uint8_t *to = plait_eager_data_at(comm->own, t, slot);

    for (uint32_t i = 0, r = t->to.first; i < (t->parts ? t->to.n : 1); i++, r = plait_eager_next(comm, r)) {
        const char *at;
        const uint64_t bytes = plait_eager_part_in(run, r, &at);
        if (bytes > 0 && bytes <= t->room)
            plait_copy(comm->kernels, to + i * t->part + t->head, at, bytes);
        memcpy(plait_eager_head_at(comm->own, t, slot, i), &bytes, sizeof bytes);
    }
}

void plait_eager_count_parts(const struct plait_run *run)
{
    const struct plait_ranks *to = &run->o->eager.to;
    struct plait_comm *comm = run->comm;
    const char *at;

    for (uint32_t i = 0, r = to->first; i < to->n; i++, r = plait_eager_next(comm, r)) {
        const size_t bytes = plait_eager_part_in(run, r, &at);
        comm->stats.messages += bytes <= run->o->eager.room;
        comm->stats.bytes_sent += bytes <= run->o->eager.room ? bytes : 0;
    }
}

enum plait_status plait_eager_take_part(const struct plait_run *run, uint32_t rank, const void *from)
{
    const struct plait_eager_plan *t = &run->o->eager;
    struct plait_comm *comm = run->comm;
    char *to;
    const size_t expected = plait_eager_part_out(run, rank, &to);
    uint64_t bytes;

    memcpy(&bytes,
           plait_eager_head_at(comm->peers[rank].control, t, plait_eager_slot(t, comm->sequence),
                               plait_eager_own_part(comm, t, rank)),
           sizeof bytes);
    if (PLAIT_GUARDS && bytes != expected)
        return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "rank %u sends %llu bytes where rank %u expects %zu",
                                rank, (unsigned long long)bytes, comm->rank, expected);
    if (!run->o->geometry.combines && expected <= t->room)
        plait_eager_copy(comm, to, from, expected);
    return PLAIT_OK;
}
