/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room plan: plans as data. <plait/plan.h> is the manual; this header is the part of the checker for binding.
 *
 * A plan is one rank's steps (SEND, RECV, COPY, REDUCE) over blocks of IN, OUT and TMP. An algorithm emits it with
 * the builder (plan.c), which derives the dependencies. geometry.c lists the blocks of IN and OUT for each collective.
 * plan_text.c prints and parses plans. check/ proves them: matching messages, no deadlock, no race, the right result,
 * the same bits on all ranks.
 *
 * The room promises: emitting is a pure function of shape and rank. Nothing here is random, reads a clock or
 * communicates.
 *
 * Plans contain no addresses, bytes, types, tags or transports, so the same plan is proved, printed, simulated and run.
 */
#ifndef PLAIT_LIB_PLAN_PLAN_CHECK_H
#define PLAIT_LIB_PLAN_PLAN_CHECK_H

#include <plait/plan.h>

#define PLAIT_NONE UINT32_MAX /* no step, no rank, no slot */

/* Describes the error in an algorithm's struct, such as "has no emit"; NULL: none. Calls none of its functions. */
const char *plait_alg_fault(const struct plait_alg *alg);

/* Is the shape valid? shape: not NULL. Errors: PLAIT_ERR_ARG, with `function` at the start of the text. */
enum plait_status plait_shape_check(const char *function, const struct plait_shape *shape);

/* Describes the error in a claim; NULL: none. */
const char *plait_claim_fault(const struct plait_claim *claim);

/*
 * Proves that an algorithm fulfils its collective and its flags; ignores its claim. Errors as plait_alg_check();
 * plait_last_error() has the text.
 */
enum plait_status plait_alg_prove(const struct plait_alg *alg, const struct plait_shape *shape);

/*
 * Can the plans of all ranks of a comm complete when steps of a rank are fused and every send is synchronous?
 *
 * node  node[r][i]: steps of rank r with the same number are fused into one; numbers are below plans[r]->nstep.
 *       NULL: nothing is fused.
 * A SEND and its RECV also count as one step. Plans must have passed the shape and matching checks.
 * Errors: PLAIT_ERR_PLAN (report->text names a step that waits for itself), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_check_deadlock(const char *name, const struct plait_plan *const *plans, uint32_t nrank,
                                       const uint32_t *const *node, struct plait_report *report);

/* Kinds of values: the contribution of one rank, of several, of all. */
enum { PLAIT_VALUE_SINGLE = 1, PLAIT_VALUE_PARTIAL = 2, PLAIT_VALUE_FINAL = 4 };

struct plait_step_of { /* step `step` of rank `rank`; PLAIT_NONE: there is none */
    uint32_t rank, step;
};

/*
 * The kinds of values (PLAIT_VALUE_...) that each step of a comm moves or computes, from the contributor sets.
 *
 * kinds   [nrank][plans[r]->nstep] the union over the blocks of a step; kinds[r] NULL: not wanted for this rank
 * uneven  a step of any rank that mixes partial sums with other values in one span
 * Errors: PLAIT_ERR_PLAN (the plans are wrong; plait_last_error() says where), PLAIT_ERR_NOMEM. Cost: as
 *         plait_plan_check, without figures.
 */
enum plait_status plait_check_values(const char *name, const struct plait_shape *shape,
                                     const struct plait_plan *const *plans, unsigned char *const *kinds,
                                     struct plait_step_of *uneven);

#endif
