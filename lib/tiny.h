/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_TINY_H
#define PLAIT_LIB_TINY_H

#include "run.h"

/*
 * The one-shot plan for vectors of up to PLAIT_TINY_MAX bytes, without the engine: each rank writes its
 * vector once into its own control block, then the operation's word, and combines all others' in place.
 */
enum plait_status plait_tiny_run(struct plait_comm *comm, const struct plait_op_plan *o, uint64_t word, const void *in,
                                 void *out);

/* The same in turns, as comm->run: begin; then until *ended. */
void plait_tiny_begin(struct plait_comm *comm, const struct plait_op_plan *o, uint64_t word, const void *in, void *out);
enum plait_status plait_tiny_turn(struct plait_comm *comm, bool *moved, bool *ended);

#endif
