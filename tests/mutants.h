/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans with one thing changed. */
#ifndef PLAIT_TESTS_MUTANTS_H
#define PLAIT_TESTS_MUTANTS_H

#include <plait/plan.h>

#define MUTANT_STEPS 256 /* of a rank, at most */

enum mutation { PEER, BLOCK, LENGTH, SPAN, VERB, OPERANDS, ORDER, DROP_STEP, DOUBLE_STEP, DROP_DEPENDENCY, NMUTATION };
extern const char *const mutation_names[NMUTATION];

/* One rank's plan, taken apart. */
struct loose_plan {
    struct plait_plan head;
    struct plait_step step[MUTANT_STEPS + 1];
    bool dep[MUTANT_STEPS + 1][MUTANT_STEPS + 1]; /* dep[i][j]: step i waits for step j */
};

void mutant_take_apart(const struct plait_plan *p, struct loose_plan *l);

/* Change one thing. False when there was nothing of the kind to change. */
bool mutant_change(struct loose_plan *l, enum mutation what, uint64_t *random);

/* A plan again: with the dependencies that are left; or with those that the builder derives, NULL when it refuses. */
struct plait_plan *mutant_put_together(const struct loose_plan *l);
struct plait_plan *mutant_emit(const struct loose_plan *l, const struct plait_shape *shape);

#endif
