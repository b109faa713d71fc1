/* SPDX-License-Identifier: BSD-3-Clause */
/* The REDUCE step: reduces own and received values. Messages are read in the sender's memory. */
#ifndef PLAIT_LIB_ENGINE_COMBINE_H
#define PLAIT_LIB_ENGINE_COMBINE_H

#include "slice.h"

/* Run step i of the plan. Releases the messages that it reads in their senders' memory. */
void plait_combine(struct plait_run *run, struct plait_slice *f, uint32_t i);

#endif
