/* SPDX-License-Identifier: BSD-3-Clause */
#include "grid.h"

#include "emit.h"

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

/* As much of each dimension as divides what is left of the group's size. */
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
