/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room engine: choosing an algorithm, binding its plan, running it.
 *
 * select.c chooses, as a pure function that is equal on all ranks. bind.c finds or makes what an operation needs.
 * prog.c binds a plan: registers for addresses, counters for dependencies; fuse.c puts steps together, prove.c shows
 * that the result cannot deadlock, unbind.c turns it back into steps for the checker. operate.c runs one operation
 * from beginning to end, eagerly or by engine.c.
 *
 * The engine runs a bound plan over the slices of a vector, several slices in flight. A step is started when its
 * dependencies are done. A SEND is done when the peer has released the memory (at once, when the data was staged), a
 * RECV when the message has arrived and was copied or borrowed, a COPY or REDUCE when it has run.
 *
 * The room promises: what runs is what was proved. Nothing is allocated while running, and no call waits.
 *
 * It does not know requests, groups or messages between two ranks.
 */
#ifndef PLAIT_LIB_ENGINE_ENGINE_H
#define PLAIT_LIB_ENGINE_ENGINE_H

#include "operation/run.h"

/* Begin comm->run: connect to the peers of the plan. `in`: the job's, or what was made of it. */
enum plait_status plait_engine_begin(struct plait_comm *comm, const struct plait_job *job, const void *in);

/* Poll, start what is ready. The first turns make room, which may have to wait for late readers of old memory. */
enum plait_status plait_engine_turn(struct plait_comm *comm, bool *moved, bool *ended);

#endif
