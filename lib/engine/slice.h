/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices in flight: making room for an operation's slices, and launching one. */
#ifndef PLAIT_LIB_ENGINE_SLICE_H
#define PLAIT_LIB_ENGINE_SLICE_H

#include "operation/run.h"
#include "operation/slices.h"
#include "prog.h"

/* Elements of the vector or of the largest block. */
static inline size_t plait_run_count(const struct plait_run *run)
{
    return run->o->vform ? run->sizes.most : run->o->count;
}

/* Elements of the slice that begins at `start`. */
static inline size_t plait_run_slice(const struct plait_run *run, size_t start)
{
    const size_t left = plait_run_count(run) - start;
    return left < run->o->selection.slice ? left : run->o->selection.slice;
}

/* Remember that the peer may still read the staged message `number`. */
void plait_add_unread(struct plait_unread_range *unread, uint32_t number);

/* Have all peers read the data staged for the last slice in `f`? */
bool plait_slice_idle(const struct plait_comm *comm, struct plait_slice *f);

/* Put the next slice into `f`, which is idle. Steps without dependencies become ready. */
void plait_slice_launch(struct plait_run *run, struct plait_slice *f);

/* Make room in the slices for this operation. run->fits false: peers still read the old memory; call again. */
enum plait_status plait_slices_fit(struct plait_run *run);

#endif
