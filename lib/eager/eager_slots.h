/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of the slots and parts of an eager operation; its blocks of variable size. For eager.c, eager_plan.c. */
#ifndef PLAIT_LIB_EAGER_EAGER_SLOTS_H
#define PLAIT_LIB_EAGER_EAGER_SLOTS_H

#include "eager.h"

static inline uint32_t plait_eager_next(const struct plait_comm *comm, uint32_t rank)
{
    return rank + 1 < comm->nrank ? rank + 1 : 0;
}

/* The slot of an operation. Slots descend: a reader's prefetcher runs upwards and so does not fetch the next slot. */
static inline size_t plait_eager_slot(const struct plait_eager_plan *t, uint64_t sequence)
{
    return ~sequence & t->turn;
}

static inline struct plait_eager_entry *plait_eager_entry_at(const struct plait_control *c,
                                                             const struct plait_eager_plan *t, size_t slot)
{
    return (struct plait_eager_entry *)((uintptr_t)c + t->entries) + slot;
}

static inline uint8_t *plait_eager_data_at(const struct plait_control *c, const struct plait_eager_plan *t, size_t slot)
{
    return (uint8_t *)(uintptr_t)c + t->data + slot * t->apart;
}

/* The index of this rank's part in the slot of `rank`, another rank. */
static inline uint32_t plait_eager_own_part(const struct plait_comm *comm, const struct plait_eager_plan *t,
                                            uint32_t rank)
{
    return t->parts ? comm->rank + (comm->rank > rank ? 0 : comm->nrank) - rank - 1 : 0;
}

/* The slot of IN or OUT for the block to or from `rank`: IN and OUT have one slot or one per rank. */
static inline uint32_t plait_eager_side_slot(const struct plait_side *side, uint32_t rank)
{
    return side->nslot > 1 ? rank : 0;
}

/* The bytes of IN for `rank`, or of OUT from it, of an operation with variable block sizes; and where they lie. */
static inline size_t plait_eager_part_in(const struct plait_run *run, uint32_t rank, const char **at)
{
    const uint32_t slot = plait_eager_side_slot(&run->o->geometry.in, rank);

    *at = run->in + plait_op_bytes(run->o, run->sizes.in_at[slot], false);
    return plait_op_bytes(run->o, run->sizes.in[slot], false);
}

static inline size_t plait_eager_part_out(const struct plait_run *run, uint32_t rank, char **at)
{
    const uint32_t slot = plait_eager_side_slot(&run->o->geometry.out, rank);

    *at = run->out + plait_op_bytes(run->o, run->sizes.out_at[slot], false);
    return plait_op_bytes(run->o, run->sizes.out[slot], false);
}

static inline void plait_eager_copy(struct plait_comm *comm, void *to, const void *from, size_t bytes)
{
    if (to == from || bytes == 0) /* in place, or no OUT */
        return;
    plait_copy(comm->kernels, to, from, bytes);
    comm->stats.bytes_copied += bytes;
}

/* Copies the blocks of variable size, and their sizes, into the parts of a slot. */
void plait_eager_put_parts(const struct plait_run *run, size_t slot);

/*
 * Compares the size of a block that the sender wrote with the size that this rank expects. Copies the block unless it
 * is an operand of a reduction or too large for the eager path. from: the block, behind its size
 */
enum plait_status plait_eager_take_part(const struct plait_run *run, uint32_t rank, const void *from);

#endif
