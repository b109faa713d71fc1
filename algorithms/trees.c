/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce along trees (tree.h): the vector is cut into one block for each colour. Each colour reduces its block up
 * its own tree and broadcasts it down again. Pipelining comes from the engine's slices.
 */
#include "algorithms.h"
#include "params.h"
#include "tree.h"

/* A preset is the fan-out k, 0 for a binomial tree; a parameter overrides it. */
static struct forest forest_of(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t *preset = self->preset;
    return forest_make(s->nparam > 0 ? s->param[0] : *preset, s->nparam > 1, s->nrank);
}

static void emit_in_group(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                          const struct job *j)
{
    const struct forest f = forest_of(self, s);
    struct job colour = *j;

    if (f.tree.n == 1)
        keep(b, j, j->range.blk, j->range.nblk);
    for (uint32_t c = 0; c < f.colours; c++) {
        const struct tree t = tree_of(&f, c);
        colour.range = part(j->range, f.colours, c);
        reduce_up(b, &t, &colour);
    }
    colour.src = PLAIT_OUT;
    for (uint32_t c = 0; c < f.colours; c++) {
        const struct tree t = tree_of(&f, c);
        colour.range = part(j->range, f.colours, c);
        broadcast_down(b, &t, &colour);
    }
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, forest_of(self, s).colours);
    emit_in_group(self, b, s, &all);
}

/* ---- Cost -------------------------------------------------------------------------------------- */

/* Rounds: on every level an inner rank serves one child a round; other colours delay it by all their sends. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const struct forest f = forest_of(self, s);
    const struct tree *t = &f.tree;
    struct plait_claim c = { .nblk = f.colours };

    if (t->n == 1)
        return c;
    const uint64_t height = t->fan == 0 ? log2_floor(t->n) : tree_depth(t, t->n - 1);
    c.depth = 2 * height;
    c.sent = c.received = forest_most(&f, true);
    c.rounds = t->fan == 0 ? 2 * tree_nchild(t, 0) : 2 * tree_nchild(t, 0) * height + (f.colours > 1 ? c.sent : 0);
    return c;
}

static uint64_t moved(const struct plait_alg *self, const struct plait_shape *s, uint32_t me)
{
    const struct forest f = forest_of(self, s);
    uint64_t n = 0;

    for (uint32_t c = 0; c < f.colours; c++) {
        const struct tree t = tree_of(&f, c);
        n += tree_nchild(&t, tree_position(&t, me)) + (tree_position(&t, me) > 0);
    }
    return n;
}

static uint64_t path(const struct plait_alg *self, const struct plait_shape *s, uint32_t from, uint32_t to,
                     uint32_t piece, struct range *first, struct range *last)
{
    const struct forest f = forest_of(self, s);
    const struct tree t = tree_of(&f, piece);

    *first = *last = (struct range){ piece, 1 };
    return tree_depth(&t, tree_position(&t, from)) + tree_depth(&t, tree_position(&t, to));
}

const struct family forest_family = { emit_in_group, moved, path };

/* ---- Presets ----------------------------------------------------------------------------------- */

/* "", "k" or "k:wide" */
bool trees_parse(const struct plait_alg *self, const char *text, struct plait_shape *s)
{
    (void)self;
    s->nparam = *text != '\0';
    if (s->nparam > 0 && !take_number(&text, UINT16_MAX, &s->param[0]))
        return false;
    if (s->nparam > 0 && take(&text, ":wide"))
        s->param[s->nparam++] = 1;
    return *text == '\0';
}

/* clang-format off */
const struct plait_alg plait_alg_binomial = {
    .name = "binomial", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "one binomial tree from rank 0, up and down",
    .source = "folklore; Thakur et al. 2005",
    .canonical = true,
    .preset = &(const uint32_t){ 0 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_chain = {
    .name = "chain", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "one chain to rank 0 and back",
    .source = "folklore",
    .preset = &(const uint32_t){ 1 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_double_tree = {
    .name = "double-tree", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "two binary trees, half the vector each, with different inner ranks",
    .source = "Sanders, Speck & Traeff 2009",
    .preset = &(const uint32_t){ 2 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_trees = {
    .name = "trees", .coll = PLAIT_ALLREDUCE, .params = "[:k[:wide]]",
    .text = "k k-ary trees, 1/k of the vector each, with different inner ranks",
    .source = "Kumar et al. 2017",
    .preset = &(const uint32_t){ 4 },
    .parse = trees_parse, .applies = any_count, .emit = emit, .claim = claim,
};
