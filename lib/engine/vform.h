/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variable block sizes (v-forms) in the engine. If all ranks know all sizes (reduce-scatter-v, all-gather-v), all ranks
 * have the slices of the largest block and a message for each of them. Else only sender and receiver know a block's
 * size: the block has one message per slice of its own, which carries the block's size. A small block may take the
 * eager path (eager.c).
 */
#ifndef PLAIT_LIB_ENGINE_VFORM_H
#define PLAIT_LIB_ENGINE_VFORM_H

#include "slice.h"

/* Does each pair of ranks cut its block by itself? */
static inline bool plait_vform_by_pairs(const struct plait_run *run)
{
    return run->o->vform && !plait_agrees_on_sizes(run->o);
}

/* Elements of a block that this rank sends or receives. */
static inline size_t plait_vform_block(const struct plait_run *run, uint32_t blk)
{
    const struct plait_geometry *g = &run->o->geometry;
    const struct plait_sizes *v = &run->sizes;
    const uint32_t slot = plait_side_slot(&g->in, blk);

    return slot != UINT32_MAX ? v->in[slot] : v->out[plait_side_slot(&g->out, blk)];
}

/* Elements of this slice of the block. */
static inline size_t plait_vform_elements(const struct plait_run *run, const struct plait_slice *f, uint32_t blk)
{
    const size_t all = plait_vform_block(run, blk), left = all > f->start ? all - f->start : 0;

    return left < f->n ? left : f->n;
}

/* Does the block take the eager path? */
static inline bool plait_vform_small(const struct plait_run *run, uint32_t blk)
{
    return run->o->selection.split > 0 &&
           plait_op_bytes(run->o, plait_vform_block(run, blk), false) <= run->o->selection.split;
}

/* Is there no message, because the block is eager or ends before this slice? */
static inline bool plait_vform_over(const struct plait_run *run, const struct plait_slice *f,
                                    const struct plait_instr *in)
{
    return plait_vform_by_pairs(run) &&
           (plait_vform_small(run, in->blk) || (f->slice > 0 && plait_vform_block(run, in->blk) <= f->start));
}

/* The header word of the block's slices: the block's bytes. */
static inline uint64_t plait_vform_header(const struct plait_run *run, const struct plait_instr *in)
{
    return plait_vform_by_pairs(run) ? plait_op_bytes(run->o, plait_vform_block(run, in->blk), false) : 0;
}

/* Messages of the block that a step moves: its slices. */
static inline uint32_t plait_vform_slices(const struct plait_run *run, const struct plait_instr *in)
{
    const size_t n = plait_vform_block(run, in->blk);

    if (plait_vform_small(run, in->blk))
        return 0;
    return n == 0 ? 1 : (uint32_t)((n - 1) / run->o->selection.slice + 1);
}

/*
 * Does the size of this message, or of its whole block, differ from the expected one? Then sets run->wrong_sender.
 * Every operation calls it.
 */
bool plait_vform_wrong(struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in,
                       uint32_t number, size_t sent, size_t expected);

/* If plait_vform_by_pairs(): advance the message numbers, so that the next operation's follow this one's. */
void plait_vform_pass(const struct plait_run *run);

#endif
