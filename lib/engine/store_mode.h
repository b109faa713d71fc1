/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy modes: of an operation's writes, as autotune.h finds them, and of each message, as copy_mode.h does. */
#ifndef PLAIT_LIB_ENGINE_STORE_MODE_H
#define PLAIT_LIB_ENGINE_STORE_MODE_H

#include "slice.h"

/*
 * Does autotune.h tune how this operation writes? If the operation reduces: only if all ranks begin it with the same
 * number of bytes and exchange messages. Else each rank that has results tunes for itself: how it writes them hardly
 * affects other ranks.
 */
static inline bool plait_store_mode_is_tried(const struct plait_op_plan *o)
{
    return o->geometry.combines ? !o->geometry.rooted && !o->sized : o->geometry.out.nslot > 0;
}

/* Call before the operation sends anything. Sets run->way and run->timed. */
void plait_store_mode_choose(struct plait_run *run);

/* Call after the operation's last step. */
void plait_store_mode_report(struct plait_run *run);

/*
 * The copy modes open to a message, as bits 1 << enum plait_copy_mode. 0: there is no choice, or autotune.h tunes the
 * mode because the operation reduces and plait_store_mode_is_tried().
 */
unsigned plait_ways_of_message(const struct plait_run *run, const struct plait_instr *in, size_t bytes);

/* Describe this message for the cost table. */
struct plait_copied plait_store_mode_passed(const struct plait_run *run, const struct plait_instr *in, size_t bytes);

/* The copy mode of a message. PLAIT_COPY_SINGLE also if the receiver can read it in place. Call once per message. */
enum plait_copy_mode plait_store_mode_of_message(const struct plait_run *run, const struct plait_link *link,
                                                 const struct plait_instr *in, const void *data, size_t bytes);

#endif
