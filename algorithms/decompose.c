/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decomposition: the ranks form a grid; reduce-scatter along each dimension in turn, then all-gather
 * back. One dimension is the ring, two are the torus, log2 p dimensions of 2 are halving-doubling.
 *
 * Ranks count through the first dimension fastest; blocks count through it slowest, so that each
 * dimension splits a contiguous range, and neighbours combine first.
 *
 * Any rank count: the first m0 = f0 x f1 x ... ranks form group 0. The ranks left over form group 1 of
 * m1 ranks, the largest divisor of m0 that fits, and so on; each group combines its own members first.
 * Then, from the last group up, the owners of a group send their pieces to the owners in the group
 * before: a piece of the smaller group is a union of pieces of the larger. Results go back the same way.
 * For powers of two that is binary blocks, whose expression is E(n) = E(m) + E(n-m), m the largest power
 * of two below n: the canonical one, as lower ranks are left operands throughout.
 */
#include "algorithms.h"
#include "emit.h"
#include "grid.h"

#include <stdlib.h>

void ring_reduce_scatter(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n, window = least(j->window, n - 1);
    const uint32_t next = member(&j->group, (j->me + 1) % n), prev = member(&j->group, (j->me + n - 1) % n);
    const uint32_t room = (j->range.nblk + n - 1) / n; /* blocks in the largest part */

    for (uint32_t k = 0; k + 1 < n; k++) {
        const struct range give = part(j->range, n, (j->me + n - 1 - k) % n);
        const struct range take = part(j->range, n, (j->me + 2 * n - 2 - k) % n);
        const uint32_t slot = j->tmp + k % window * room;
        plait_send(b, next, span_at(k == 0 ? j->src : PLAIT_OUT, give.blk), give.blk, give.nblk);
        plait_recv(b, prev, plait_tmp(slot), take.blk, take.nblk);
        reduce_pair(b, take, j->src, slot, j->me == 0);
    }
}

void ring_all_gather(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n;
    const uint32_t next = member(&j->group, (j->me + 1) % n), prev = member(&j->group, (j->me + n - 1) % n);

    for (uint32_t k = 0; k + 1 < n; k++) {
        const struct range give = part(j->range, n, (j->me + n - k) % n);
        const struct range take = part(j->range, n, (j->me + n - 1 - k) % n);
        plait_send(b, next, plait_out(give.blk), give.blk, give.nblk);
        plait_recv(b, prev, plait_out(take.blk), take.blk, take.nblk);
    }
}

uint32_t ring_tmp(uint32_t n, uint32_t nblk, uint32_t window)
{
    return least(window, n - 1) * ((nblk + n - 1) / n);
}

/* ---- Grids ------------------------------------------------------------------------------------- */

/* The job of one line of the grid, along dimension d: the piece that `me` owns after dimensions 0 .. d-1. */
static struct job line_job(const struct grid *g, const struct job *all, uint32_t d)
{
    struct job line = *all;
    uint32_t stride = 1;

    for (uint32_t i = 0; i < d; i++) {
        const uint32_t f = g->f[i];
        if (f > 1) {
            line.range = part(line.range, f, all->me / stride % f);
            line.src = PLAIT_OUT;
        }
        stride *= f;
    }
    line.me = all->me / stride % g->f[d];
    line.group = subgroup(&all->group, all->me - line.me * stride, stride, g->f[d]);
    return line;
}

static uint32_t line_tmp(const struct grid *g, uint32_t d, uint32_t nblk, uint32_t window)
{
    return g->direct[d] ? combine_tmp(g->f[d], nblk / g->f[d]) : ring_tmp(g->f[d], nblk, window);
}

static uint32_t lines_tmp(const struct grid *g, uint32_t nblk, uint32_t window)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < g->ndim; d++) {
        n += line_tmp(g, d, nblk, window);
        nblk /= g->f[d];
    }
    return n;
}

static void grid_reduce_scatter(struct plait_builder *b, const struct grid *g, const struct job *j)
{
    uint32_t tmp = j->tmp;

    for (uint32_t d = 0; d < g->ndim; d++) {
        struct job line = line_job(g, j, d);
        line.tmp = tmp;
        tmp += line_tmp(g, d, line.range.nblk, j->window);
        (g->direct[d] ? direct_reduce_scatter : ring_reduce_scatter)(b, &line);
    }
}

static void grid_all_gather(struct plait_builder *b, const struct grid *g, const struct job *j)
{
    for (uint32_t d = g->ndim; d-- > 0;) {
        const struct job line = line_job(g, j, d);
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
    const uint32_t piece = piece_of(&f.grid, in.me), fold_slot = in.tmp + lines_tmp(&f.grid, in.range.nblk, in.window);
    const struct range own = part(in.range, f.n, piece);
    enum plait_buf held = f.n > 1 ? PLAIT_OUT : in.src;
    uint32_t smaller = 0; /* the owner in the group after that holds this piece */

    if (j->group.n == 1)
        plait_copy(b, plait_out(own.blk), span_at(held, own.blk), own.blk, own.nblk);
    grid_reduce_scatter(b, &f.grid, &in);
    if (f.above > 0) {
        after = next_fold(&f, j->group.n);
        smaller = member(&j->group, after.first + owner_of(&after.grid, piece / (f.n / f.above)));
        plait_recv(b, smaller, plait_tmp(fold_slot), own.blk, own.nblk);
        reduce_pair(b, own, held, fold_slot, true);
        held = PLAIT_OUT;
    }
    for (uint32_t back = 0; f.below > 0 && back < 2; back++)
        for (uint32_t i = 0; i < f.below / f.n; i++) {
            const uint32_t p = piece * (f.below / f.n) + i;
            const uint32_t larger = member(&j->group, before.first + owner_of(&before.grid, p));
            const struct range r = part(in.range, f.below, p);
            if (back)
                plait_recv(b, larger, plait_out(r.blk), r.blk, r.nblk);
            else
                plait_send(b, larger, span_at(held, r.blk), r.blk, r.nblk);
        }
    if (f.above > 0)
        plait_send(b, smaller, plait_out(own.blk), own.blk, own.nblk);
    grid_all_gather(b, &f.grid, &in);
}

static uint32_t decompose_tmp(const struct grid *g, const struct job *j)
{
    struct fold before;
    const struct fold f = fold_of(g, j->group.n, j->me, &before);
    return lines_tmp(&f.grid, j->range.nblk, j->window) + (f.above > 0 ? j->range.nblk / f.n : 0);
}

/* Messages on the longest path through the dimensions of a group, one way; and rounds. */
static uint64_t grid_depth(const struct grid *g)
{
    uint64_t n = 0;
    for (uint32_t d = 0; d < g->ndim; d++)
        n += g->direct[d] ? g->f[d] > 1 : g->f[d] - 1;
    return n;
}

static uint64_t grid_rounds(const struct grid *g)
{
    uint64_t n = 0;
    for (uint32_t d = 0; d < g->ndim; d++)
        n += g->f[d] - 1;
    return n;
}

/* Blocks that a rank of this group sends: all but its own piece twice, and that once to each neighbour group. */
static uint64_t fold_moved(const struct fold *f, uint32_t nblk)
{
    const uint64_t piece = nblk / f->n;
    return 2 * (nblk - piece) + (f->below > 0) * piece + (f->above > 0) * piece;
}

/*
 * Depth: group i is `level` messages from group 0, both ways.
 *
 * Rounds: exact for a grid of all ranks. Folding adds those that an owner spends on sending up to
 * the owners before it, one after the other, and at most one more gather and two for each group in the chain,
 * in which gathers that could start early hold up what still comes up.
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

#define DIRECT 0x80000000u /* in shape->param: exchange directly inside this dimension */

/* ---- Presets ----------------------------------------------------------------------------------- */

static struct grid ring_grid(const struct plait_shape *s)
{
    return (struct grid){ 1, s->nrank, { s->nrank }, { false } };
}

static struct grid halving_grid(const struct plait_shape *s)
{
    struct grid g = { .ndim = log2_floor(s->nrank), .size = 1u << log2_floor(s->nrank) };
    for (uint32_t d = 0; d < g.ndim; d++)
        g.f[d] = 2;
    return g;
}

/* Without parameters: of all X with Y = p / X rounded down, the one of fewest rounds, the squarest of these. */
static struct grid torus_grid(const struct plait_shape *s)
{
    struct grid g = { .ndim = s->nparam, .size = 1 };
    uint64_t fewest = UINT64_MAX;

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

/* "4x8", "2x2x3"; a 'd' behind a size exchanges directly inside that dimension instead of round a ring. */
static bool torus_parse(const char *text, struct plait_shape *s)
{
    for (s->nparam = 0; *text != '\0'; s->nparam++) {
        char *end;
        const unsigned long f = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || f == 0 || f >= DIRECT || s->nparam == PLAIT_MAX_PARAM)
            return false;
        s->param[s->nparam] = (uint32_t)f | (*end == 'd' ? DIRECT : 0);
        text = end + (*end == 'd');
        if (*text == 'x' && text[1] != '\0')
            text++;
        else if (*text != '\0')
            return false;
    }
    return true;
}

/* A grid must hold more than half of the ranks. */
static bool torus_applies(const struct plait_shape *s)
{
    uint64_t size = 1;

    for (uint32_t d = 0; d < s->nparam; d++)
        if ((size *= s->param[d] & ~DIRECT) > s->nrank)
            return false;
    return s->nrank >= 1 && (s->nparam == 0 || 2 * size > s->nrank);
}

static bool any_count(const struct plait_shape *s)
{
    return s->nrank >= 1;
}

struct grid_alg {
    struct group_alg base;
    struct grid (*grid)(const struct plait_shape *s);
};

static struct grid grid_of(const struct group_alg *a, const struct plait_shape *s)
{
    return ((const struct grid_alg *)a)->grid(s);
}

static uint32_t grid_tmp(const struct group_alg *a, const struct plait_shape *s, const struct job *j)
{
    const struct grid g = grid_of(a, s);
    return decompose_tmp(&g, j);
}

static void grid_emit(const struct group_alg *a, struct plait_builder *b, const struct plait_shape *s,
                      const struct job *j)
{
    const struct grid g = grid_of(a, s);
    decompose(b, &g, j);
}

static uint64_t grid_moved(const struct group_alg *a, const struct plait_shape *s, uint32_t me)
{
    const struct grid g = grid_of(a, s);
    struct fold before;
    const struct fold f = fold_of(&g, s->nrank, me, &before);
    return fold_moved(&f, g.size);
}

static uint64_t grid_path(const struct group_alg *a, const struct plait_shape *s, uint32_t from, uint32_t to,
                          uint32_t piece, struct range *first, struct range *last)
{
    const struct grid g = grid_of(a, s);
    return chain_path(&g, s->nrank, from, to, piece, first, last);
}

#define METHODS grid_tmp, grid_emit, grid_moved, grid_path
static const struct grid_alg ring = { { &plait_alg_ring, METHODS }, ring_grid };
static const struct grid_alg torus = { { &plait_alg_torus, METHODS }, torus_grid };
static const struct grid_alg halving = { { &plait_alg_halving, METHODS }, halving_grid };
#undef METHODS
const struct group_alg *const plait_group_ring = &ring.base;
const struct group_alg *const plait_group_torus = &torus.base;
const struct group_alg *const plait_group_halving = &halving.base;

static void ring_emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    emit_whole(b, &ring.base, s, me);
}

static void torus_emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    emit_whole(b, &torus.base, s, me);
}

static void halving_emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    emit_whole(b, &halving.base, s, me);
}

static struct plait_claim ring_claim(const struct plait_shape *s)
{
    return decompose_claim(ring_grid(s), s->nrank);
}

static struct plait_claim torus_claim(const struct plait_shape *s)
{
    return decompose_claim(torus_grid(s), s->nrank);
}

static struct plait_claim halving_claim(const struct plait_shape *s)
{
    return decompose_claim(halving_grid(s), s->nrank);
}

const struct plait_alg plait_alg_ring = {
    .name = "ring",
    .coll = PLAIT_ALLREDUCE,
    .params = "",
    .text = "neighbours pass and add one block at a time",
    .source = "Patarasuk & Yuan 2009",
    .applies = any_count,
    .emit = ring_emit,
    .claim = ring_claim,
};

const struct plait_alg plait_alg_torus = {
    .name = "torus",
    .coll = PLAIT_ALLREDUCE,
    .params = "[:XxY[xZ...]]",
    .text = "a ring along each dimension of a grid",
    .source = "Mikami et al. 2018; Ueno & Yokota 2019",
    .parse = torus_parse,
    .applies = torus_applies,
    .emit = torus_emit,
    .claim = torus_claim,
};

const struct plait_alg plait_alg_halving = {
    .name = "halving-doubling",
    .coll = PLAIT_ALLREDUCE,
    .params = "",
    .text = "pairs halve the vector, then double it",
    .source = "Rabenseifner 2004 (binary blocks)",
    .canonical = true,
    .applies = any_count,
    .emit = halving_emit,
    .claim = halving_claim,
};
