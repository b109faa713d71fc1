/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: runs a bound plan over the slices of a vector, several slices in flight.
 *
 * A step is started when its dependencies are done; a SEND is done when the peer has released the
 * memory (at once, when the data was staged), a RECV when the message has arrived and was copied or
 * borrowed, a COPY or REDUCE when it has run. Nothing is allocated while running.
 */
#ifndef PLAIT_LIB_ENGINE_H
#define PLAIT_LIB_ENGINE_H

#include "comm.h"

/* Connect to the peers of this operation's plan and make room for it: may allocate, and wait for late readers of old
 * memory. */
enum plait_status plait_engine_prepare(struct plait_comm *comm, const struct plait_op_plan *o);

/* Run to the end. After an error the comm has failed. */
enum plait_status plait_engine_run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out);

#endif
