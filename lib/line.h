/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_LINE_H
#define PLAIT_LIB_LINE_H

#include "comm.h"

/*
 * The one-shot plan for vectors that fit in PLAIT_NLINE cache lines, without the engine: each rank writes
 * its vector once into its own lines, each with the operation's word, and reads everyone else's.
 */
enum plait_status plait_line_run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out);

#endif
