/* SPDX-License-Identifier: BSD-3-Clause */
/* The REDUCE step: reduces own and received values. Messages are read in the sender's memory or from a landing. */
#ifndef PLAIT_LIB_ENGINE_COMBINE_H
#define PLAIT_LIB_ENGINE_COMBINE_H

#include "slice.h"

/* Run step i of the plan. Releases the messages that it reads in their senders' memory. */
void plait_combine(struct plait_run *run, struct plait_slice *f, uint32_t i);

/* Where a message that a REDUCE reads lands if it is a single copy. NULL: the operation has no landings. */
char *plait_combine_landing(const struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in);

/* Is message i in its landing? Then it can be released at once. */
bool plait_combine_landed(const struct plait_run *run, const struct plait_slice *f, uint32_t i);

#endif
