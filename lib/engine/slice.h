/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slices in flight and their steps: making room for an operation's slices, launching one; addresses, sizes, links and
 * message numbers of its steps; the REDUCE.
 */
#ifndef PLAIT_LIB_ENGINE_SLICE_H
#define PLAIT_LIB_ENGINE_SLICE_H

#include "operation/operation.h"
#include "prog.h"

/* Have all peers read the data staged for the last slice in `f`? */
bool plait_slice_idle(const struct plait_comm *comm, struct plait_slice *f);

/* Put the next slice into `f`, which is idle. Steps without dependencies become ready. */
void plait_slice_launch(struct plait_run *run, struct plait_slice *f);

/* Make room in the slices for this operation. run->fits false: peers still read the old memory; call again. */
enum plait_status plait_slices_fit(struct plait_run *run);

/* ---- Variable block sizes --------------------------------------------------------------------------------- */

/*
 * Variable block sizes (v-forms) in the engine. If all ranks know all sizes (reduce-scatter-v, all-gather-v), all ranks
 * have the slices of the largest block and a message for each of them. Else only sender and receiver know a block's
 * size: the block has one message per slice of its own, which carries the block's size. A small block may take the
 * eager path (eager.c).
 */

/* Elements of a block that this rank sends or receives. */
static inline size_t plait_vform_block(const struct plait_run *run, uint32_t blk)
{
    const struct plait_geometry *g = &run->o->geometry;
    const struct plait_sizes *v = &run->sizes;
    const uint32_t slot = plait_side_slot(&g->in, blk);

    return slot != UINT32_MAX ? v->in[slot] : v->out[plait_side_slot(&g->out, blk)];
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
    return plait_by_pairs(run->o) &&
           (plait_vform_small(run, in->blk) || (f->slice > 0 && plait_vform_block(run, in->blk) <= f->start));
}

/* The header word of the block's slices: the block's bytes. */
static inline uint64_t plait_vform_header(const struct plait_run *run, const struct plait_instr *in)
{
    return plait_by_pairs(run->o) ? plait_op_bytes(run->o, plait_vform_block(run, in->blk), false) : 0;
}

/* Messages of the block that a step moves: its slices. */
static inline uint32_t plait_vform_slices(const struct plait_run *run, const struct plait_instr *in)
{
    if (!plait_by_pairs(run->o))
        return (uint32_t)run->nslice;
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

/* ---- Steps -------------------------------------------------------------------------------------------------- */

/* First element of a slot of IN or OUT. In a vector, slot b holds block b. */
static inline size_t plait_step_slot(const struct plait_slice *f, uint32_t slot)
{
    return slot * f->q + (slot < f->r ? slot : f->r);
}

static inline size_t plait_step_elements(const struct plait_run *run, const struct plait_slice *f,
                                         const struct plait_instr *in)
{
    if (run->o->vform) {
        const size_t all = plait_vform_block(run, in->blk), left = all > f->start ? all - f->start : 0;
        return left < f->n ? left : f->n;
    }
    return f->n > 0 ? in->nblk * f->n : plait_step_slot(f, in->blk + in->nblk) - plait_step_slot(f, in->blk);
}

/* Bytes that an instruction moves or makes. */
static inline size_t plait_step_bytes(const struct plait_run *run, const struct plait_slice *f,
                                      const struct plait_instr *in)
{
    return plait_op_bytes(run->o, plait_step_elements(run, f, in), in->wide);
}

/*
 * Wide values have slots of their own: the caller's OUT has no room for them, and adjacent slots of TMP are read as one
 * piece, so all its slots have one width.
 */
static inline char *plait_step_address(const struct plait_run *run, const struct plait_slice *f, struct plait_span s,
                                       bool wide)
{
    if (s.buf == PLAIT_TMP)
        return wide ? f->wide_tmp + s.slot * f->stride : f->tmp + s.slot * f->tmp_stride;
    if (wide)
        return f->wide_out + plait_op_bytes(run->o, f->n > 0 ? s.slot * f->n : plait_step_slot(f, s.slot), true);
    if (run->o->vform)
        return s.buf == PLAIT_IN ? f->in + plait_op_bytes(run->o, run->sizes.in_at[s.slot], false)
                                 : f->out + plait_op_bytes(run->o, run->sizes.out_at[s.slot], false);
    return (s.buf == PLAIT_IN ? f->in : f->out) + plait_op_bytes(run->o, plait_step_slot(f, s.slot), false);
}

/* The comm's rank of a rank of the plan. */
static inline uint32_t plait_step_rank(const struct plait_run *run, int32_t peer)
{
    return run->ranks != NULL ? run->ranks[peer] : (uint32_t)peer;
}

static inline struct plait_link *plait_step_link(const struct plait_run *run, int32_t peer)
{
    return run->comm->peers[plait_step_rank(run, peer)].link[run->channel];
}

/* The number of a SEND's or RECV's message on its link. */
static inline uint32_t plait_step_number(const struct plait_run *run, const struct plait_slice *f,
                                         const struct plait_instr *in)
{
    const struct plait_link *link = plait_step_link(run, in->peer);
    const bool send = in->verb == PLAIT_STEP_SEND;
    const uint32_t each = (send ? run->prog->nsend : run->prog->nrecv)[in->peer];

    return (send ? link->next_out : link->next_in) + (uint32_t)f->slice * each + in->message;
}

static inline void plait_step_release(const struct plait_run *run, const struct plait_slice *f,
                                      const struct plait_instr *in)
{
    struct plait_link *link = plait_step_link(run, in->peer);
    link->transport->release(link, plait_step_number(run, f, in));
}

/*
 * Run step i of the plan, a REDUCE of own and received values. Reads messages in their senders' memory, and releases
 * them.
 */
void plait_combine(struct plait_run *run, struct plait_slice *f, uint32_t i);

/* Bytes of the block, or blocks, of which this message is a slice. */
static inline size_t plait_step_block_bytes(const struct plait_run *run, const struct plait_instr *in)
{
    const size_t nblk = run->o->geometry.kind == PLAIT_KIND_VECTOR ? run->prog->nblk : 1;

    return plait_op_bytes(
        run->o, run->o->vform ? plait_vform_block(run, in->blk) : in->nblk * plait_run_count(run) / nblk, false);
}

#endif
