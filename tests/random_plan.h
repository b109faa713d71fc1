/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random plans that are right, of any collective: values wander over random ranks and are combined in random trees and
 * chains, in few slots of TMP that are used again as soon as they are free, and in OUT. All ranks' steps come from one
 * sequence of moves that could run one after the other, so they match, and nothing can deadlock.
 */
#ifndef PLAIT_TESTS_RANDOM_PLAN_H
#define PLAIT_TESTS_RANDOM_PLAN_H

#include <plait/plan.h>

#define RANDOM_PLAN_RANKS 9 /* at most */
#define RANDOM_PLAN_STEPS 1024

struct random_plan {
    struct plait_alg alg; /* emits it; its name is "random" and the seed */
    struct plait_shape shape;
    char name[32];
    uint32_t nblk, ntmp[RANDOM_PLAN_RANKS];
    uint32_t nstep[RANDOM_PLAN_RANKS];
    struct plait_step step[RANDOM_PLAN_RANKS][RANDOM_PLAN_STEPS]; /* without dependencies, which the builder derives */
};

/* Without steps; the name is kept. */
void random_plan_begin(struct random_plan *p, const struct plait_shape *shape, const char *name, uint32_t nblk);

/* Of any collective, over nrank ranks; all of it follows from the seed. */
void random_plan_draw(struct random_plan *p, uint32_t nrank, uint64_t seed);

/* Emit one rank's steps; `blocks` and `ntmp` are what plait_blocks() gets. For plans that are changed, too. */
void random_plan_emit(struct plait_builder *b, const struct plait_step *step, uint32_t nstep, uint32_t nblk,
                      uint32_t ntmp);

#endif
