/* SPDX-License-Identifier: BSD-3-Clause */
#include "grid.h"

static uint32_t largest_divisor(uint32_t m, uint32_t limit)
{
    uint32_t d = least(m, limit);
    while (d > 0 && m % d != 0)
        d--;
    return d;
}

struct fold first_fold(const struct grid *g, uint32_t nrank)
{
    return (struct fold){ .n = g->size, .above = largest_divisor(g->size, nrank - g->size), .grid = *g };
}

/* Each dimension is cut to its greatest common divisor with the rest of the group's size. */
struct fold next_fold(const struct fold *last, uint32_t nrank)
{
    struct fold f = *last;
    uint32_t rest = last->above;

    f.first = last->first + last->n;
    f.n = last->above;
    f.below = last->n;
    f.above = largest_divisor(f.n, nrank - f.first - f.n);
    f.level++;
    f.grid.size = f.n;
    for (uint32_t d = 0; d < f.grid.ndim; d++) {
        f.grid.f[d] = gcd(last->grid.f[d], rest);
        rest /= f.grid.f[d];
    }
    return f;
}

struct fold fold_of(const struct grid *g, uint32_t nrank, uint32_t me, struct fold *before)
{
    struct fold f = first_fold(g, nrank);
    while (me >= f.first + f.n) {
        *before = f;
        f = next_fold(&f, nrank);
    }
    return f;
}

uint32_t piece_of(const struct grid *g, uint32_t me)
{
    uint32_t piece = 0;
    for (uint32_t d = 0; d < g->ndim; d++) {
        piece = piece * g->f[d] + me % g->f[d];
        me /= g->f[d];
    }
    return piece;
}

uint32_t owner_of(const struct grid *g, uint32_t piece)
{
    uint32_t me = 0;
    for (uint32_t d = g->ndim; d-- > 0;) {
        me = me * g->f[d] + piece % g->f[d];
        piece /= g->f[d];
    }
    return me;
}

struct job line_job(const struct grid *g, const struct job *all, uint32_t d)
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

uint64_t grid_depth(const struct grid *g)
{
    uint64_t n = 0;
    for (uint32_t d = 0; d < g->ndim; d++)
        n += g->direct[d] ? g->f[d] > 1 : g->f[d] - 1;
    return n;
}

uint64_t grid_rounds(const struct grid *g)
{
    uint64_t n = 0;
    for (uint32_t d = 0; d < g->ndim; d++)
        n += g->f[d] - 1;
    return n;
}

/* Messages from one position of a grid to another. */
static uint64_t line_path(const struct grid *g, uint32_t from, uint32_t to)
{
    uint64_t n = 0;

    for (uint32_t d = 0; d < g->ndim; d++) {
        const uint32_t f = g->f[d], away = (to % f + f - from % f) % f;
        n += g->direct[d] ? away > 0 : away;
        from /= f;
        to /= f;
    }
    return n;
}

/* The part around a piece, of `nblk` blocks cut into n equal parts. */
static struct range around(uint32_t nblk, uint32_t n, uint32_t piece)
{
    return (struct range){ piece / (nblk / n) * (nblk / n), nblk / n };
}

/* Blocks of a member's first message about a piece: a part of its first dimension, else of the group before. */
static struct range first_carried(const struct fold *f, uint32_t nblk, uint32_t piece)
{
    for (uint32_t d = 0; d < f->grid.ndim; d++)
        if (f->grid.f[d] > 1)
            return around(nblk, f->grid.f[d], piece);
    return around(nblk, f->above > 0 ? 1 : f->below, piece);
}

/* Blocks of the last message to a member: a part of the first dimension in which it differs from the piece's owner. */
static struct range last_carried(const struct fold *f, uint32_t nblk, uint32_t piece, uint32_t owner, uint32_t me)
{
    uint32_t parts = 1;

    for (uint32_t d = 0; d < f->grid.ndim; d++) {
        parts *= f->grid.f[d];
        if (owner % f->grid.f[d] != me % f->grid.f[d])
            return around(nblk, parts, piece);
        owner /= f->grid.f[d];
        me /= f->grid.f[d];
    }
    return around(nblk, f->below > 0 ? f->below : f->n, piece);
}

uint64_t chain_path(const struct grid *g, uint32_t nrank, uint32_t from, uint32_t to, uint32_t piece,
                    struct range *first, struct range *last)
{
    struct fold before;
    const struct fold f = fold_of(g, nrank, from, &before), t = fold_of(g, nrank, to, &before);
    const uint32_t up = owner_of(&f.grid, piece / (g->size / f.n));
    const uint32_t down = owner_of(&t.grid, piece / (g->size / t.n));

    *first = first_carried(&f, g->size, piece);
    *last = last_carried(&t, g->size, piece, down, to - t.first);
    return line_path(&f.grid, from - f.first, up) + f.level + t.level + line_path(&t.grid, down, to - t.first);
}
