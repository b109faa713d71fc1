/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm of the library. Tests, selection, tools and docs loop over this array. */
#include "algorithms.h"

#include <stddef.h>

const struct plait_alg *const plait_algs[] = {
    &plait_alg_ring,
    &plait_alg_torus,
    &plait_alg_halving,
    &plait_alg_binomial,
    &plait_alg_chain,
    &plait_alg_double_tree,
    &plait_alg_trees,
    &plait_alg_hierarchy,
    &plait_alg_one_shot,
    &plait_alg_two_shot,
    NULL,
};
