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
    &plait_alg_reduce_scatter_ring,
    &plait_alg_reduce_scatter_direct,
    &plait_alg_allgather_ring,
    &plait_alg_allgather_direct,
    &plait_alg_allgather_bruck,
    &plait_alg_broadcast_direct,
    &plait_alg_broadcast_binomial,
    &plait_alg_broadcast_chain,
    &plait_alg_broadcast_double_tree,
    &plait_alg_broadcast_trees,
    &plait_alg_reduce_direct,
    &plait_alg_reduce_binomial,
    &plait_alg_reduce_chain,
    &plait_alg_reduce_double_tree,
    &plait_alg_reduce_trees,
    &plait_alg_gather_direct,
    &plait_alg_gather_binomial,
    &plait_alg_scatter_direct,
    &plait_alg_scatter_binomial,
    &plait_alg_alltoall_direct,
    &plait_alg_alltoall_bruck,
    NULL,
};
