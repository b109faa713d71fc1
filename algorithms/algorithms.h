/* SPDX-License-Identifier: BSD-3-Clause */
/* The algorithms, for table.c. */
#ifndef PLAIT_ALGORITHMS_H
#define PLAIT_ALGORITHMS_H

#include <plait/plan.h>

extern const struct plait_alg plait_alg_ring;
extern const struct plait_alg plait_alg_torus;
extern const struct plait_alg plait_alg_halving;
extern const struct plait_alg plait_alg_binomial;
extern const struct plait_alg plait_alg_chain;
extern const struct plait_alg plait_alg_double_tree;
extern const struct plait_alg plait_alg_trees;
extern const struct plait_alg plait_alg_hierarchy;
extern const struct plait_alg plait_alg_one_shot;
extern const struct plait_alg plait_alg_two_shot;

#endif
