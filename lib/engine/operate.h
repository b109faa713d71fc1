/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room engine: choosing an algorithm, binding its plan, running it.
 *
 * select.c chooses: a pure function, equal on all ranks. bind.c finds or makes the op plan of a call. prog.c binds a
 * plan: registers for addresses, counters for dependencies. fuse.c fuses steps and proves the fused plans free of
 * deadlock. operate.c runs one operation from beginning to end, on the eager path or by engine.c.
 *
 * The engine runs a bound plan over the slices of a vector, several slices in flight. A step starts when its
 * dependencies are done. A SEND is done when the peer has released the memory (at once if the data was staged). A
 * RECV is done when the message has arrived and was copied or borrowed; a COPY or REDUCE, when it has run.
 *
 * The room promises: the plan that runs is the plan that was proved. An operation allocates only before its first step,
 * and no call waits.
 *
 * The room does not know requests, groups or point-to-point messages.
 */
#ifndef PLAIT_LIB_ENGINE_OPERATE_H
#define PLAIT_LIB_ENGINE_OPERATE_H

#include "operation/operation.h"

/*
 * Run one operation of this rank to its end: plait_run() that of comm->last, plait_run_job() the given one. A comm runs
 * one at a time. `call` may be NULL. After an error the comm has failed.
 */
enum plait_status plait_run(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call);
enum plait_status plait_run_job(struct plait_comm *comm, const struct plait_job *job);

/* The same in turns. The caller has set the default floating-point environment. *moved: there was progress. */
enum plait_status plait_run_begin(struct plait_comm *comm, const struct plait_job *job);
enum plait_status plait_run_turn(struct plait_comm *comm, bool *moved, bool *ended);

/* This rank lacks a resource to begin an operation: fail the comm, so that the others do not wait for it. */
enum plait_status plait_cannot_begin(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);

/* ---- engine.c: an operation that is not eager ------------------------------------------------------------------- */

/* Begin comm->run: connect to the peers of the plan. `in`: the job's input, or what replaces it. */
enum plait_status plait_engine_begin(struct plait_comm *comm, const struct plait_job *job, const void *in);

/* For the failure detector; the context is the comm's run. */
extern const struct plait_wait_kind plait_run_waits;

/*
 * Poll, then start ready steps. The first turns allocate memory for the slices; growing it waits until peers have read
 * the old memory.
 */
enum plait_status plait_engine_turn(struct plait_comm *comm, bool *moved, bool *ended);

/* ---- bind.c: choose the algorithm of a call, bind its plan, and cache both for the next equal call --------------- */

/*
 * Find or make the op plan of this call and set comm->last to it. The op plan lives until a call with other arguments
 * takes its cache entry and no request uses it any more (users).
 */
enum plait_status plait_bind(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *options);

/*
 * For v-forms in host memory whose sizes all ranks know: the most bytes of the largest block with which the operation
 * may be eager.
 */
size_t plait_most_eager_block(struct plait_comm *comm, enum plait_coll coll);

/* Multiply the sums of `o` by `factor` from now on. All ranks must pass the same factor. No operation may run `o`. */
void plait_bind_factor(struct plait_op_plan *o, double factor);

/* Find or make the op plan of a team's part of `outer`. It lives as long as that. */
enum plait_status plait_bind_inner(struct plait_comm *comm, const struct plait_op_plan *outer,
                                   const struct plait_inner *inner, struct plait_op_plan **out);

/* A request no longer uses `o`. */
void plait_unbind(struct plait_op_plan *o);

#endif
