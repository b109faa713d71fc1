/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy modes: of an operation's writes, as trial.h finds them, and of each message, as lend.h does. */
#ifndef PLAIT_LIB_ENGINE_WAY_H
#define PLAIT_LIB_ENGINE_WAY_H

#include "slice.h"

/*
 * Does trial.h tune how this operation writes? If the operation reduces: only if all ranks begin it with the same
 * number of bytes and exchange messages. Else each rank that has results tunes for itself: how it writes them hardly
 * affects other ranks.
 */
static inline bool plait_way_is_tried(const struct plait_op_plan *o)
{
    return o->geometry.combines ? !o->geometry.rooted && !o->sized : o->geometry.out.nslot > 0;
}

/* Call before the operation sends anything. Sets run->way and run->timed. */
void plait_way_choose(struct plait_run *run);

/* Call after the operation's last step. */
void plait_way_report(struct plait_run *run);

/*
 * The copy modes open to a message, as bits 1 << enum plait_passing. 0: there is no choice, or trial.h tunes the mode
 * because the operation reduces and plait_way_is_tried().
 */
unsigned plait_ways_of_message(const struct plait_run *run, const struct plait_instr *in, size_t bytes);

/* Describe this message for the cost table. */
struct plait_passed plait_way_passed(const struct plait_run *run, const struct plait_instr *in, size_t bytes);

/* The copy mode of a message. PLAIT_PASS_LENT also if the receiver can read it in place. Call once per message. */
enum plait_passing plait_way_of_message(const struct plait_run *run, const struct plait_link *link,
                                        const struct plait_instr *in, const void *data, size_t bytes);

#endif
