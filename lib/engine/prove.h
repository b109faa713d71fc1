/* SPDX-License-Identifier: BSD-3-Clause */
/* The facts about all ranks' plans together that binding one rank's plan needs. */
#ifndef PLAIT_LIB_ENGINE_PROVE_H
#define PLAIT_LIB_ENGINE_PROVE_H

#include "prog.h"

#define PLAIT_MOST_PROVED 64 /* ranks up to which bind proves the whole fused graph: 2 ms for 64 */

/*
 * The shape as all ranks know it. Only the rank itself knows whether it works in place. The library's plans have the
 * same messages either way, and a test proves that no mixture can deadlock (tests/mixture_test.c). A caller's algorithm
 * may send other values in place, so all ranks must agree on it. In a rooted collective only the root knows; there a
 * caller's plan is never in place (plait_select()).
 */
struct plait_shape plait_common_shape(const struct plait_alg *alg, const struct plait_shape *shape);

/*
 * own    the plan that the algorithm emitted for this rank; it must emit the same plan again
 * hop    do not fuse more than two sources
 * kinds  [nstep] PLAIT_VALUE_* of this rank's steps; NULL: not asked for
 * Errors: PLAIT_ERR_PLAN (even the plain plans can deadlock), PLAIT_ERR_UNSUPPORTED (one step has both partial sums
 *         and other values, which differ in width), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out);

/*
 * Number a plan's messages, from 0 per peer and direction.
 *
 * nsend, nrecv  [nrank] zeroed by the caller; receive the counts
 * number        [nstep] written for each SEND and RECV
 */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number);

/*
 * Do these plans run to the end if every send waits for its receive, at most PLAIT_WINDOW messages are in flight from
 * one rank to another, and steps of a rank with the same number in nodes[rank] run at once?
 */
enum plait_status plait_prove_waits(struct plait_plan *const *plans, uint32_t *const *nodes, const char *spec,
                                    uint32_t nrank, bool *out);

#endif
