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
extern const struct plait_alg plait_alg_reduce_scatter_ring;
extern const struct plait_alg plait_alg_reduce_scatter_direct;
extern const struct plait_alg plait_alg_allgather_ring;
extern const struct plait_alg plait_alg_allgather_direct;
extern const struct plait_alg plait_alg_allgather_bruck;
extern const struct plait_alg plait_alg_broadcast_direct;
extern const struct plait_alg plait_alg_broadcast_binomial;
extern const struct plait_alg plait_alg_broadcast_chain;
extern const struct plait_alg plait_alg_broadcast_double_tree;
extern const struct plait_alg plait_alg_broadcast_trees;
extern const struct plait_alg plait_alg_reduce_direct;
extern const struct plait_alg plait_alg_reduce_binomial;
extern const struct plait_alg plait_alg_reduce_chain;
extern const struct plait_alg plait_alg_reduce_double_tree;
extern const struct plait_alg plait_alg_reduce_trees;
extern const struct plait_alg plait_alg_gather_direct;
extern const struct plait_alg plait_alg_gather_binomial;
extern const struct plait_alg plait_alg_scatter_direct;
extern const struct plait_alg plait_alg_scatter_binomial;
extern const struct plait_alg plait_alg_alltoall_direct;
extern const struct plait_alg plait_alg_alltoall_bruck;

#endif
