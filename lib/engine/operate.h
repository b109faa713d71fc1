/* SPDX-License-Identifier: BSD-3-Clause */
/* Run one operation on this rank from beginning to end. A comm runs one at a time. */
#ifndef PLAIT_LIB_ENGINE_OPERATE_H
#define PLAIT_LIB_ENGINE_OPERATE_H

#include "operation/run.h"

/*
 * Run one operation to its end: plait_run() that of comm->last, plait_run_job() the given one. `call` may be NULL.
 * After an error the comm has failed.
 */
enum plait_status plait_run(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call);
enum plait_status plait_run_job(struct plait_comm *comm, const struct plait_job *job);

/* The same in turns. The caller has set the default floating-point environment. *moved: there was progress. */
enum plait_status plait_run_begin(struct plait_comm *comm, const struct plait_job *job);
enum plait_status plait_run_turn(struct plait_comm *comm, bool *moved, bool *ended);

/* This rank lacks a resource to begin an operation: fail the comm, so that the others do not wait for it. */
enum plait_status plait_cannot_begin(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);

#endif
