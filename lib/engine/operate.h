/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation on this rank, from its beginning to its end; a comm has one at a time. */
#ifndef PLAIT_LIB_ENGINE_OPERATE_H
#define PLAIT_LIB_ENGINE_OPERATE_H

#include "operation/run.h"

/* Run to the end. v: of o->sized, else NULL. `call` may be NULL. After an error the comm has failed. */
enum plait_status plait_run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out,
                            const struct plait_sizes *v, const struct plait_call *call);
enum plait_status plait_run_job(struct plait_comm *comm, const struct plait_job *job);

/* The same in turns, in the default floating point environment. *ended: it is done; *moved: something happened. */
enum plait_status plait_run_begin(struct plait_comm *comm, const struct plait_job *job);
enum plait_status plait_run_turn(struct plait_comm *comm, bool *moved, bool *ended);

/* It failed: what it has put on a device's queue is its end. */
void plait_run_stop(struct plait_comm *comm);

/* An eager one, with the input as it is after scaling: it cannot fail. */
void plait_run_begin_eager(struct plait_comm *comm, const struct plait_job *job, const void *in);

/* An operation that this rank cannot begin for want of a resource: the others must not wait for it. */
enum plait_status plait_cannot_begin(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);
enum plait_status plait_cannot_run(struct plait_comm *comm, enum plait_status status, const struct plait_op_plan *o);

#endif
