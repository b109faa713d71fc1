/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room plan: plans as data. <plait/plan.h> is its manual; this header has what binding uses of the checker.
 *
 * A plan is one rank's steps (SEND, RECV, COPY, REDUCE) over blocks of IN, OUT and TMP. An algorithm emits it with
 * the builder (plan.c), which derives what each step waits for. geometry.c has what the slots of IN and OUT hold for
 * each collective. plan_text.c prints and parses plans. check/ proves them: matching messages, no deadlock, no race,
 * the right result, the same bits on all ranks.
 *
 * The room promises: emitting is a pure function of shape and rank. Nothing here is random, reads a clock or
 * communicates.
 *
 * Plans do not know addresses, bytes, types, tags or transports, so one plan is proved, printed, simulated and run.
 */
#ifndef PLAIT_LIB_PLAN_PLAN_CHECK_H
#define PLAIT_LIB_PLAN_PLAN_CHECK_H

#include <plait/plan.h>

#define PLAIT_NONE UINT32_MAX /* no step, no rank, no slot */

/* What is wrong with an algorithm's struct: "has no emit"; NULL: nothing. Its functions are not called. */
const char *plait_alg_fault(const struct plait_alg *alg);

/* Is there such a shape? It is not NULL. Errors: PLAIT_ERR_ARG, as `function` says it. */
enum plait_status plait_shape_check(const char *function, const struct plait_shape *shape);

/* What is wrong with a claim: "has no blocks"; NULL: nothing. */
const char *plait_claim_fault(const struct plait_claim *claim);

/*
 * Does an algorithm do what its collective promises, and what its flags say? Its claim is not looked at. Errors as
 * plait_alg_check(); plait_last_error() has the text.
 */
enum plait_status plait_alg_prove(const struct plait_alg *alg, const struct plait_shape *shape);

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

/* What values are: the contribution of one rank, of several, of all. */
enum { PLAIT_VALUE_SINGLE = 1, PLAIT_VALUE_PARTIAL = 2, PLAIT_VALUE_FINAL = 4 };

struct plait_step_of { /* step `step` of rank `rank`; PLAIT_NONE: there is none */
    uint32_t rank, step;
};

/*
 * What the steps of a comm move or make, as far as it is defined by the contributor sets.
 *
 * kinds   [nrank][plans[r]->nstep] the union over a step's blocks; kinds[r] NULL: of this rank not asked for
 * uneven  a step of any rank that has partial sums and other values in one of its spans
 * Errors: PLAIT_ERR_PLAN (the plans are wrong; plait_last_error() says where), PLAIT_ERR_NOMEM. Cost: as
 *         plait_plan_check, without figures.
 */
enum plait_status plait_check_values(const char *name, const struct plait_shape *shape,
                                     const struct plait_plan *const *plans, unsigned char *const *kinds,
                                     struct plait_step_of *uneven);

#endif
