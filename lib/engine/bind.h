/* SPDX-License-Identifier: BSD-3-Clause */
/* From the arguments of a call to what runs: the algorithm is chosen, its plan bound, both are remembered. */
#ifndef PLAIT_LIB_ENGINE_BIND_H
#define PLAIT_LIB_ENGINE_BIND_H

#include "operation/operation.h"

#include <string.h>

static inline bool plait_same_user(const struct plait_op_plan *o, const struct plait_user_op *user)
{
    return user == NULL || (o->last.combine == user->combine && o->last.context == user->context &&
                            o->what.ordered == !user->commutative);
}

static inline bool plait_same_wishes(const struct plait_op_plan *o, const struct plait_call *call)
{
    return o->call.slice == call->slice && o->call.round == call->round && o->call.reproducible == call->reproducible &&
           o->call.mark == call->mark && strcmp(o->asked, call->algorithm != NULL ? call->algorithm : "") == 0 &&
           plait_same_user(o, call->user);
}

/* Is `o` this operation, but for the count and where its buffers lie? `call` NULL: without options. */
static inline bool plait_resembles(const struct plait_op_plan *o, const struct plait_args *a,
                                   const struct plait_call *call)
{
    return plait_same_key(o->key, plait_key(a)) && (call != NULL ? plait_same_wishes(o, call) : o->plain);
}

/* It resembles it: is it this operation? */
static inline bool plait_fits_too(const struct plait_op_plan *o, const struct plait_args *a)
{
    return o->count == a->count && o->inplace == a->inplace;
}

/* Is `o` this operation? */
static inline bool plait_fits(const struct plait_op_plan *o, const struct plait_args *a, const struct plait_call *call)
{
    return plait_fits_too(o, a) && plait_resembles(o, a, call);
}

/*
 * What this call runs, found or made; comm->last becomes it. It stays until a call with other arguments takes its
 * place, and as long as a request uses it (users).
 */
enum plait_status plait_bind(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *options);

/*
 * Blocks that differ in size, in memory of the host: bytes of the largest, where all ranks know it, with which it may
 * be eager.
 */
size_t plait_most_eager_block(struct plait_comm *comm, enum plait_coll coll);

/* From now on its sums are multiplied by this factor, which the ranks must have in common. Nobody runs it now. */
void plait_bind_factor(struct plait_op_plan *o, double factor);

/* A request no longer uses it. */
void plait_unbind(struct plait_op_plan *o);

#endif
