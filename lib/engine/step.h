/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for running steps: addresses, sizes, links and message numbers. */
#ifndef PLAIT_LIB_ENGINE_STEP_H
#define PLAIT_LIB_ENGINE_STEP_H

#include "select.h"
#include "slice.h"
#include "vform.h"

/* First element of a slot of IN or OUT. In a vector, slot b holds block b. */
static inline size_t plait_step_slot(const struct plait_slice *f, uint32_t slot)
{
    return slot * f->q + (slot < f->r ? slot : f->r);
}

static inline size_t plait_step_elements(const struct plait_run *run, const struct plait_slice *f,
                                         const struct plait_instr *in)
{
    if (run->o->vform)
        return plait_vform_elements(run, f, in->blk);
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

static inline struct plait_link *plait_step_link(const struct plait_run *run, int32_t peer)
{
    return run->comm->peers[peer].link[run->channel];
}

static inline uint32_t plait_step_number_in(const struct plait_run *run, const struct plait_slice *f,
                                            const struct plait_instr *in)
{
    return plait_step_link(run, in->peer)->next_in + (uint32_t)f->slice * run->prog->nrecv[in->peer] + in->message;
}

static inline void plait_step_release(const struct plait_run *run, const struct plait_slice *f,
                                      const struct plait_instr *in)
{
    struct plait_link *link = plait_step_link(run, in->peer);
    link->transport->release(link, plait_step_number_in(run, f, in));
}

/* Bytes of the block, or blocks, of which this message is a slice. */
static inline size_t plait_step_block_bytes(const struct plait_run *run, const struct plait_instr *in)
{
    const size_t nblk = run->o->geometry.kind == PLAIT_KIND_VECTOR ? run->prog->nblk : 1;

    return plait_op_bytes(
        run->o, run->o->vform ? plait_vform_block(run, in->blk) : in->nblk * plait_run_count(run) / nblk, false);
}

#endif
