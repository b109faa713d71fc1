/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of different sizes, as the engine runs them. Where all ranks know all sizes (reduce-scatter-v, all-gather-v)
 * all have the slices of the largest block, and messages for each. Else a block's size is known to the two whom it
 * concerns: there is a message for each slice of it and no more, and with it goes the size of the block; a small one
 * may go without the engine (eager.c).
 */
#ifndef PLAIT_LIB_ENGINE_SIZED_H
#define PLAIT_LIB_ENGINE_SIZED_H

#include "flight.h"

/* Does each pair of ranks cut the block between them? */
static inline bool plait_sized_by_pairs(const struct plait_run *run)
{
    return run->o->sized && !plait_agrees_on_sizes(run->o);
}

/* Elements of a block that this rank gives or gets. */
static inline size_t plait_sized_block(const struct plait_run *run, uint32_t blk)
{
    const struct plait_geometry *g = &run->o->geometry;
    const struct plait_sizes *v = &run->sizes;
    const uint32_t slot = plait_side_slot(&g->in, blk);

    return slot != UINT32_MAX ? v->in[slot] : v->out[plait_side_slot(&g->out, blk)];
}

/*
 * Elements that one rank takes in all, of blocks of mean size; where not all sizes are known, as if all were like this.
 */
static inline size_t plait_sized_taken(const struct plait_run *run, uint32_t blk)
{
    const uint32_t nrank = run->prog->nrank;
    size_t all = 0;

    if (!plait_agrees_on_sizes(run->o))
        return plait_sized_block(run, blk) * (nrank - 1);
    for (uint32_t b = 0; b < run->o->geometry.out.nslot; b++)
        all += run->sizes.out[b];
    return all / nrank * (nrank - 1);
}

/* Of this slice of it. */
static inline size_t plait_sized_elements(const struct plait_run *run, const struct plait_flight *f, uint32_t blk)
{
    const size_t all = plait_sized_block(run, blk), left = all > f->start ? all - f->start : 0;

    return left < f->n ? left : f->n;
}

/* A block between two that goes as in eager.c. */
static inline bool plait_sized_small(const struct plait_run *run, uint32_t blk)
{
    return run->o->selection.split > 0 && plait_sized_block(run, blk) * run->o->size <= run->o->selection.split;
}

/* A block between two is small, or has ended before this slice: there is no message. */
static inline bool plait_sized_over(const struct plait_run *run, const struct plait_flight *f,
                                    const struct plait_instr *in)
{
    return plait_sized_by_pairs(run) &&
           (plait_sized_small(run, in->blk) || (f->slice > 0 && plait_sized_block(run, in->blk) <= f->start));
}

/* What goes with its slices: its bytes. */
static inline uint64_t plait_sized_note(const struct plait_run *run, const struct plait_instr *in)
{
    return plait_sized_by_pairs(run) ? plait_sized_block(run, in->blk) * run->o->size : 0;
}

/* Slices of the block that a step moves: messages. */
static inline uint32_t plait_sized_slices(const struct plait_run *run, const struct plait_instr *in)
{
    const size_t n = plait_sized_block(run, in->blk);

    if (plait_sized_small(run, in->blk))
        return 0;
    return n == 0 ? 1 : (uint32_t)((n - 1) / run->o->selection.slice + 1);
}

/*
 * Is what came as this message of another size than expected, or the block that it is a slice of? Of any operation. It
 * is noted in run->wrong.
 */
bool plait_sized_wrong(struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in,
                       uint32_t number, size_t sent, size_t expected);

/* Where each pair of ranks cuts the block between them: the next operation's messages follow this one's. */
void plait_sized_pass(const struct plait_run *run);

#endif
