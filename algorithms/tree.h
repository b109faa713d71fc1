/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spanning trees and forests of them: shapes, and reducing up and broadcasting down one tree.
 *
 * Shapes. binomial: the halves of the canonical expression E(n) = E(m) + E(n-m), each combined by its first rank, or by
 * `top` if that is one of its ranks. k-ary: positions in breadth-first order, each inner position with `fan` children,
 * the first `extra` ones with one more. A chain is 1-ary.
 *
 * A forest is one k-ary tree for each colour. Colour c puts member (c * inner + p) mod N at position p, so its inner
 * members are the block from c * inner on. In the usual heap inner = ceil((N-1)/k), and the blocks overlap when N mod k
 * > 1: then k - N mod k members are inner in two colours, the fewest that fan-out k allows. The `wide` form has inner =
 * floor(N/k) and no such member, but a larger fan-out.
 */
#ifndef PLAIT_ALGORITHMS_TREE_H
#define PLAIT_ALGORITHMS_TREE_H

#include "emit.h"

#define NOBODY UINT32_MAX

struct tree {
    uint32_t n, fan, extra; /* fan 0: binomial */
    uint32_t first;         /* the member at position 0; with `apart` counted without `top` */
    uint32_t top;           /* binomial: the position of the result */
    bool apart;             /* member `top` is above position 0, and the n positions are for the n other members */
};

struct forest {
    uint32_t colours, inner; /* inner: positions with children, per colour */
    struct tree tree;        /* colour 0 */
};

/* k trees of fan-out k over n members; k = 0: one binomial tree. */
struct forest forest_make(uint32_t k, bool wide, uint32_t n);
struct tree tree_of(const struct forest *f, uint32_t colour);

/* By position: the children, and the distance from position 0. */
uint32_t tree_nchild(const struct tree *t, uint32_t pos);
uint32_t tree_depth(const struct tree *t, uint32_t pos);
uint32_t tree_position(const struct tree *t, uint32_t me);

/*
 * Most blocks that a member receives from its children in all colours; with `both` also those that it passes to its
 * parents.
 */
uint64_t forest_most(const struct forest *f, bool both);

void reduce_up(struct plait_builder *b, const struct tree *t, const struct job *j);
void broadcast_down(struct plait_builder *b, const struct tree *t, const struct job *j);

/* "", "k" or "k:wide" */
bool trees_parse(const struct plait_alg *self, const char *text, struct plait_shape *s);

#endif
