/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the checker that the engine uses: deadlock of fused graphs. */
#ifndef PLAIT_LIB_PLAN_CHECK_H
#define PLAIT_LIB_PLAN_CHECK_H

#include <plait/plan.h>

/*
 * Can a whole comm's plans run to the end when steps of a rank are fused and every send is synchronous?
 *
 * node  node[r][i]: steps of rank r with the same number are done together, as one; numbers are below
 *       plans[r]->nstep. NULL: nothing is fused.
 * A SEND and its RECV are done together too. Plans must have passed the shape and matching checks.
 * Errors: PLAIT_ERR_PLAN (report->text names a step that waits for itself), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_check_deadlock(const char *name, const struct plait_plan *const *plans, uint32_t nrank,
                                       const uint32_t *const *node, struct plait_report *report);

#endif
