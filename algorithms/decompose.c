/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decomposition: the ranks form a grid; reduce-scatter along each dimension in turn, then all-gather back. One
 * dimension is the ring, two are the torus, log2 p dimensions of 2 are halving-doubling.
 *
 * Ranks count through the first dimension fastest, blocks slowest. So each dimension splits a contiguous range, and
 * neighbours reduce first.
 *
 * Any rank count: the first m0 = f0 x f1 x ... ranks form group 0. The remaining ranks form group 1 of m1 ranks, the
 * largest divisor of m0 that fits, and so on. Each group first reduces among its own members. Then, from the last group
 * up, the owners of a group send their pieces to the owners in the group before: a piece of the smaller group is a
 * union of pieces of the larger. Results go back the same way. For powers of two these are binary blocks, whose
 * expression is E(n) = E(m) + E(n-m), m the largest power of two below n: the canonical one, as lower ranks are left
 * operands throughout.
 */
#include "algorithms.h"
#include "emit.h"
#include "grid.h"
#include "params.h"

/* ---- Grids ------------------------------------------------------------------------------------- */

static void grid_reduce_scatter(struct plait_builder *b, const struct grid *g, const struct job *j)
{
    for (uint32_t d = 0; d < g->ndim; d++) {
        const struct job line = line_job(g, j, d);
        (g->direct[d] ? direct_reduce_scatter : ring_reduce_scatter)(b, &line);
    }
}

static void grid_all_gather(struct plait_builder *b, const struct grid *g, const struct job *j)
{
    for (uint32_t d = g->ndim; d-- > 0;) {
        struct job line = line_job(g, j, d);
        line.src = PLAIT_OUT;
        (g->direct[d] ? direct_all_gather : ring_all_gather)(b, &line);
    }
}

/* ---- Chains of groups -------------------------------------------------------------------------- */

static void decompose(struct plait_builder *b, const struct grid *g, const struct job *j)
{
    struct fold before, f = fold_of(g, j->group.n, j->me, &before), after;
    struct job in = *j;
    in.group = subgroup(&j->group, f.first, 1, f.n);
    in.me -= f.first;
    const uint32_t piece = piece_of(&f.grid, in.me);
    const struct range own = part(in.range, f.n, piece);
    struct job held = in; /* this rank's share of the piece */
    uint32_t smaller = 0; /* the owner of this piece in the next group */

    if (j->group.n == 1)
        keep(b, &in, own.blk, own.nblk);
    grid_reduce_scatter(b, &f.grid, &in);
    if (f.n > 1)
        held.src = PLAIT_OUT;
    if (f.above > 0) {
        after = next_fold(&f, j->group.n);
        smaller = member(&j->group, after.first + owner_of(&after.grid, piece / (f.n / f.above)));
        const uint32_t tmp = plait_slots(b, own.nblk);
        plait_emit_recv(b, smaller, plait_tmp(tmp), own.blk, own.nblk);
        reduce_pair(b, own, plait_out(own.blk), own_at(&held, own.blk), plait_tmp(tmp), true);
        held.src = PLAIT_OUT;
    }
    for (uint32_t back = 0; f.below > 0 && back < 2; back++)
        for (uint32_t i = 0; i < f.below / f.n; i++) {
            const uint32_t p = piece * (f.below / f.n) + i;
            const uint32_t larger = member(&j->group, before.first + owner_of(&before.grid, p));
            const struct range r = part(in.range, f.below, p);
            if (back)
                plait_emit_recv(b, larger, plait_out(r.blk), r.blk, r.nblk);
            else
                plait_emit_send(b, larger, own_at(&held, r.blk), r.blk, r.nblk);
        }
    if (f.above > 0)
        plait_emit_send(b, smaller, plait_out(own.blk), own.blk, own.nblk);
    grid_all_gather(b, &f.grid, &in);
}

/* ---- Cost -------------------------------------------------------------------------------------- */

/* Blocks that a rank of this group sends: all but its own piece twice, and its piece once to each neighbour group. */
static uint64_t fold_moved(const struct fold *f, uint32_t nblk)
{
    const uint64_t piece = nblk / f->n;
    return 2 * (nblk - piece) + (f->below > 0) * piece + (f->above > 0) * piece;
}

/*
 * Depth: group i is `level` messages from group 0, both ways.
 *
 * Rounds: exact for a grid of all ranks. Folding adds the rounds in which an owner sends up to the owners before it,
 * one after the other. It also adds at most one more gather, and two for each group in the chain, in which gathers that
 * could start early delay pieces that still come up.
 */
static struct plait_claim decompose_claim(struct grid g, uint32_t nrank)
{
    struct plait_claim c = { .nblk = g.size, .rounds = 2 * grid_rounds(&g), .rounds_exact = g.size == nrank };

    for (struct fold f = first_fold(&g, nrank);; f = next_fold(&f, nrank)) {
        c.depth = most(c.depth, 2 * (f.level + grid_depth(&f.grid)));
        c.sent = most(c.sent, fold_moved(&f, g.size));
        if (f.below > 0)
            c.rounds += f.below / f.n + 2;
        if (f.above == 0)
            break;
    }
    c.rounds += c.rounds_exact ? 0 : grid_rounds(&g);
    c.received = c.sent;
    return c;
}

/* ---- Presets ----------------------------------------------------------------------------------- */

#define DIRECT 0x80000000u /* in shape->param: exchange directly inside this dimension */

/*
 * Default grid, without parameters. If all nodes are equal: ranks of a node by nodes, directly inside a node. Else,
 * among all X with Y = p / X rounded down, the one of fewest rounds, and of these the squarest.
 */
static struct grid torus_grid(const struct plait_shape *s)
{
    struct grid g = { .ndim = s->nparam, .size = 1 };
    uint64_t fewest = UINT64_MAX;
    uint32_t each;
    const uint32_t nodes = plait_nodes_of(s, &each);

    if (s->nparam == 0 && nodes > 1 && each > 1)
        return (struct grid){ 2, s->nrank, { each, nodes }, { true, false } };

    for (uint32_t d = 0; d < s->nparam; d++) {
        g.f[d] = s->param[d] & ~DIRECT;
        g.direct[d] = s->param[d] & DIRECT;
        g.size *= g.f[d];
    }
    for (uint32_t x = 1; s->nparam == 0 && (uint64_t)x * x <= s->nrank; x++) {
        const struct grid square = { 2, x * (s->nrank / x), { x, s->nrank / x }, { false } };
        const uint64_t rounds = decompose_claim(square, s->nrank).rounds;
        if (rounds <= fewest)
            g = square;
        fewest = rounds < fewest ? rounds : fewest;
    }
    return g;
}

/* "4x8", "2x2x3"; a 'd' after a size means direct exchange inside that dimension instead of a ring. */
static bool torus_parse(const struct plait_alg *self, const char *text, struct plait_shape *s)
{
    (void)self;
    s->nparam = 0;
    if (*text == '\0')
        return true;
    do {
        uint32_t *f = &s->param[s->nparam];
        if (s->nparam++ == PLAIT_MAX_PARAM || !take_number(&text, DIRECT - 1, f))
            return false;
        *f |= take(&text, "d") ? DIRECT : 0;
    } while (take(&text, "x"));
    return *text == '\0';
}

/* A grid must hold more than half of the ranks. */
static bool torus_applies(const struct plait_alg *self, const struct plait_shape *s)
{
    uint64_t size = 1;

    (void)self;
    for (uint32_t d = 0; d < s->nparam; d++)
        if ((size *= s->param[d] & ~DIRECT) > s->nrank)
            return false;
    return s->nrank >= 1 && (s->nparam == 0 || 2 * size > s->nrank);
}

/* Ring: one dimension of all ranks. Halving-doubling: as many dimensions of 2 as fit. Torus: the parameters. */
static struct grid grid_of(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t *each = self->preset;
    struct grid g = { .size = 1 };

    if (each == NULL)
        return torus_grid(s);
    for (const uint32_t f = least(*each, s->nrank); f > 1 && (uint64_t)g.size * f <= s->nrank; g.size *= f)
        g.f[g.ndim++] = f;
    return g;
}

static void emit_in_group(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                          const struct job *j)
{
    const struct grid g = grid_of(self, s);
    decompose(b, &g, j);
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, grid_of(self, s).size);
    emit_in_group(self, b, s, &all);
}

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    return decompose_claim(grid_of(self, s), s->nrank);
}

static uint64_t moved(const struct plait_alg *self, const struct plait_shape *s, uint32_t me)
{
    const struct grid g = grid_of(self, s);
    struct fold before;
    const struct fold f = fold_of(&g, s->nrank, me, &before);
    return fold_moved(&f, g.size);
}

static uint64_t path(const struct plait_alg *self, const struct plait_shape *s, uint32_t from, uint32_t to,
                     uint32_t piece, struct range *first, struct range *last)
{
    const struct grid g = grid_of(self, s);
    return chain_path(&g, s->nrank, from, to, piece, first, last);
}

const struct family grid_family = { emit_in_group, moved, path };

/* clang-format off */
const struct plait_alg plait_alg_ring = {
    .name = "ring", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "neighbours pass and add one block at a time",
    .source = "Patarasuk & Yuan 2009",
    .preset = &(const uint32_t){ UINT32_MAX },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_torus = {
    .name = "torus", .coll = PLAIT_ALLREDUCE, .params = "[:XxY[xZ...]]",
    .text = "a ring along each dimension of a grid",
    .source = "Mikami et al. 2018; Ueno & Yokota 2019",
    .parse = torus_parse, .applies = torus_applies, .emit = emit, .claim = claim,
    .remedy = "the product of its factors must be the number of ranks, or be below it and above half of it",
};

const struct plait_alg plait_alg_halving = {
    .name = "halving-doubling", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "pairs halve the vector, then double it",
    .source = "Rabenseifner 2004 (binary blocks)",
    .canonical = true,
    .preset = &(const uint32_t){ 2 },
    .applies = any_count, .emit = emit, .claim = claim,
};
