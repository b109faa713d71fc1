/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding a call: choose the algorithm, bind its plan, and cache both for the next equal call. */
#ifndef PLAIT_LIB_ENGINE_BIND_H
#define PLAIT_LIB_ENGINE_BIND_H

#include "operation/operation.h"

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
                                   const struct plait_inner *inner, const struct plait_op_plan **out);

/* A request no longer uses `o`. */
void plait_unbind(struct plait_op_plan *o);

#endif
