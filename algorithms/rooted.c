/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast and reduce along trees (tree.h), for any root.
 *
 * binomial   broadcast: positions count from the root. reduce: the canonical expression; the root itself combines every
 *            half that contains it. So the order is canonical for every root, and no final message to the root is
 *            needed
 * others     one block and one tree for each colour, over all ranks but the root, which is above all trees: the root
 *            moves the vector once, and every other rank is an inner position in one colour at most
 */
#include "algorithms.h"
#include "params.h"
#include "tree.h"

static uint32_t fan_of(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t *preset = self->preset;
    return s->nparam > 0 ? s->param[0] : *preset;
}

static struct forest forest_of(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t k = fan_of(self, s);
    struct forest f = forest_make(k, s->nparam > 1, k == 0 || s->nrank == 1 ? s->nrank : s->nrank - 1);

    f.tree.apart = k > 0 && s->nrank > 1;
    if (f.tree.apart || s->coll == PLAIT_REDUCE)
        f.tree.top = s->root;
    else
        f.tree.first = s->root;
    return f;
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct forest f = forest_of(self, s);
    const bool reduces = s->coll == PLAIT_REDUCE;
    const struct job all = whole_comm(b, s, me, f.colours);
    struct job colour = all;

    for (uint32_t c = 0; c < f.colours && s->nrank > 1; c++) {
        const struct tree t = tree_of(&f, c);
        colour.range = part(all.range, f.colours, c);
        if (reduces)
            reduce_up(b, &t, &colour);
        else
            broadcast_down(b, &t, &colour);
    }
    if (me == s->root && (!reduces || s->nrank == 1))
        keep(b, &all, 0, f.colours);
}

/*
 * Most children of a rank in the canonical reduction to `root`: those of the root, or of rank 0 if it has half of all.
 */
static uint32_t most_children(uint32_t n, uint32_t root)
{
    const struct tree t = { .n = n, .top = root };
    return (uint32_t)most(tree_nchild(&t, root), tree_nchild(&t, 0));
}

/*
 * Binomial: a reduction to a root in the first, larger half takes as long as one to rank 0; to another root it takes
 * one message more when the halves differ.
 */
static struct plait_claim binomial_claim(const struct plait_shape *s)
{
    const uint32_t n = s->nrank, whole = 1u << log2_floor(n);

    if (s->coll == PLAIT_BROADCAST)
        return (struct plait_claim){ log2_floor(n), log2_ceil(n), 1, log2_ceil(n), n > 1, true };
    return (struct plait_claim){ .depth = s->root < whole ? log2_floor(n) : log2_ceil(n),
                                 .rounds = log2_ceil(n),
                                 .nblk = 1,
                                 .sent = n > 1,
                                 .received = most_children(n, s->root),
                                 .rounds_exact = true };
}

/* Rounds: as in trees.c, plus the blocks that the root moves. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const struct forest f = forest_of(self, s);
    const struct tree *t = &f.tree;

    if (fan_of(self, s) == 0)
        return binomial_claim(s);
    if (s->nrank == 1)
        return (struct plait_claim){ .nblk = f.colours };
    const uint64_t height = tree_depth(t, t->n - 1), k = f.colours, fanned = most(k, forest_most(&f, false));
    const bool reduces = s->coll == PLAIT_REDUCE;
    return (struct plait_claim){ .depth = 1 + height,
                                 .rounds = tree_nchild(t, 0) * height + k + (k > 1 ? fanned : 0),
                                 .nblk = k,
                                 .sent = reduces ? k : fanned,
                                 .received = reduces ? fanned : k };
}

/* clang-format off */
#define ROOTED(symbol, collective, called, form, what, from, fan, ...)        \
    const struct plait_alg symbol = {                                         \
        .name = called, .coll = collective, .params = form,                   \
        .text = what, .source = from, .preset = &(const uint32_t){ fan },     \
        .applies = any_count, .emit = emit, .claim = claim, __VA_ARGS__       \
    }

ROOTED(plait_alg_broadcast_binomial, PLAIT_BROADCAST, "binomial", "",
       "one binomial tree from the root", "folklore; Thakur et al. 2005", 0);
ROOTED(plait_alg_broadcast_chain, PLAIT_BROADCAST, "chain", "",
       "one chain from the root", "folklore", 1);
ROOTED(plait_alg_broadcast_double_tree, PLAIT_BROADCAST, "double-tree", "",
       "two binary trees below the root, half the vector each, with different inner ranks",
       "Sanders, Speck & Traeff 2009", 2);
ROOTED(plait_alg_broadcast_trees, PLAIT_BROADCAST, "trees", "[:k[:wide]]",
       "k k-ary trees below the root, 1/k of the vector each, with different inner ranks",
       "Kumar et al. 2017", 4, .parse = trees_parse);
ROOTED(plait_alg_reduce_binomial, PLAIT_REDUCE, "binomial", "",
       "one binomial tree to the root", "folklore; Thakur et al. 2005", 0, .canonical = true);
ROOTED(plait_alg_reduce_chain, PLAIT_REDUCE, "chain", "",
       "one chain to the root", "folklore", 1);
ROOTED(plait_alg_reduce_double_tree, PLAIT_REDUCE, "double-tree", "",
       "two binary trees below the root, half the vector each, with different inner ranks",
       "Sanders, Speck & Traeff 2009", 2);
ROOTED(plait_alg_reduce_trees, PLAIT_REDUCE, "trees", "[:k[:wide]]",
       "k k-ary trees below the root, 1/k of the vector each, with different inner ranks",
       "Kumar et al. 2017", 4, .parse = trees_parse);
#undef ROOTED
