/* SPDX-License-Identifier: BSD-3-Clause */
/* The way in which an operation writes, as trial.h finds it, and each of its messages goes, as lend.h does. */
#ifndef PLAIT_LIB_ENGINE_WAY_H
#define PLAIT_LIB_ENGINE_WAY_H

#include "flight.h"

/*
 * Does trial.h find out how to write? Where nothing is combined each rank that has results for itself: how it writes
 * them changes little for others. Else if all ranks begin it with the same number of bytes, and hear of each other.
 */
static inline bool plait_way_is_tried(const struct plait_op_plan *o)
{
    return o->geometry.combines ? !o->geometry.rooted && !o->sized : o->geometry.out.nslot > 0;
}

/* Before the operation sends anything; sets run->way and whether it is timed. */
void plait_way_choose(struct plait_run *run);

/* After its last step. */
void plait_way_report(struct plait_run *run);

/*
 * The ways that a message may go: 1 << enum plait_passing. 0: there is no choice, or trial.h finds out how it is
 * staged, in operations that combine and that all ranks begin alike.
 */
unsigned plait_ways_of_message(const struct plait_run *run, const struct plait_instr *in, size_t bytes);

/* This message, and where its costs are. */
struct plait_passed plait_way_passed(const struct plait_run *run, const struct plait_instr *in, size_t bytes);

/* How it goes to its receiver, which may be able to read it where it lies. Asked once. */
enum plait_passing plait_way_of_message(const struct plait_run *run, const struct plait_link *link,
                                        const struct plait_instr *in, const void *data, size_t bytes);

#endif
