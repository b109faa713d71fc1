/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrices: weights between the two orders, sums over rows, rows filled. */
#ifndef PLAIT_TRAIN_CUDA_ROWS_BODY_H
#define PLAIT_TRAIN_CUDA_ROWS_BODY_H

#include "body.h"

/* ---- Weights ---- */

struct train_tile { /* of train_weights: of in, from `first` on */
    uint64_t out;
    uint32_t first, count;
};

BODY struct train_tile train_tile_of(const struct train_weights *a, uint64_t unit)
{
    struct train_tile t;

    t.out = unit / a->ntile;
    t.first = (uint32_t)(unit - t.out * a->ntile) * a->tile;
    t.count = a->in - t.first < a->tile ? a->in - t.first : a->tile;
    return t;
}

/* Element k of a tile: its places in the plain order and in the other one. Neighbours lie together in one of them. */
struct train_pair {
    uint64_t plain, other;
    uint32_t at; /* in the tile, as it is in the plain order */
};

BODY struct train_pair train_pair_of(const struct train_weights *a, const struct train_tile *t, uint32_t k, bool plain)
{
    const uint32_t c = plain ? k / a->inner : k % t->count, s = plain ? k % a->inner : k / t->count;
    struct train_pair p;

    p.plain = (t->out * a->in + t->first + c) * a->inner + s;
    p.other = (t->out * a->inner + s) * a->in + t->first + c;
    p.at = c * a->inner + s;
    return p;
}

BODY float train_weight_get(const void *from, uint64_t i, uint32_t type)
{
    return train_float(train_load(from, i, type, 1), 0, type);
}

BODY void train_weight_put(const struct train_weights *a, const struct train_pair *p, float v)
{
    const uint64_t i = a->to_plain != 0 ? p->plain : p->other;

    if (a->add != 0)
        v += train_weight_get(a->to, i, PLAIT_FLOAT32);
    train_store(a->to, i, &v, a->to_type, 1);
}

BODY uint32_t train_weights_phases(const struct train_weights *a, const struct plait_where *at)
{
    return 2 * train_units((uint64_t)a->out * a->ntile, at);
}

/* Reads a tile in the order it lies in, then writes it in the other one. One that does not fit is copied directly. */
BODY void train_weights_body(const struct train_weights *a, uint32_t phase, const struct plait_where *at,
                             union train_shared *shared)
{
    const struct train_tile t = train_tile_of(a, train_unit(phase / 2, at));
    const uint32_t count = t.count * a->inner;
    const bool reads = phase % 2 == 0, plain = reads == (a->to_plain == 0), fits = count <= TRAIN_TILE;

    if (reads && !fits)
        return;
    UNROLL_BY for (uint32_t k = at->thread; k < count; k += TRAIN_THREADS)
    {
        const struct train_pair p = train_pair_of(a, &t, k, plain);
        const uint64_t from = a->to_plain != 0 ? p.other : p.plain;

        if (reads)
            shared->f[p.at] = train_weight_get(a->from, from, a->from_type);
        else
            train_weight_put(a, &p, fits ? shared->f[p.at] : train_weight_get(a->from, from, a->from_type));
    }
}

/* ---- Rows ---- */

/* Threads of a block: TRAIN_COLUMNS columns in TRAIN_THREADS / TRAIN_COLUMNS parts of the rows. */
enum { TRAIN_COLUMNS = 32 };

BODY uint32_t train_sum_rows_phases(const struct train_rows *a, const struct plait_where *at)
{
    return 2 * train_units(a->columns / TRAIN_COLUMNS + (a->columns % TRAIN_COLUMNS != 0), at);
}

BODY void train_sum_rows_body(const struct train_rows *a, uint32_t phase, const struct plait_where *at,
                              union train_shared *shared)
{
    const uint64_t column = train_unit(phase / 2, at) * TRAIN_COLUMNS + at->thread % TRAIN_COLUMNS;
    double sum = 0;

    if (column >= a->columns || (phase % 2 != 0 && at->thread >= TRAIN_COLUMNS))
        return;
    if (phase % 2 == 0) {
        UNROLL_BY for (uint64_t row = at->thread / TRAIN_COLUMNS; row < a->nrow; row += TRAIN_THREADS / TRAIN_COLUMNS)
            sum += (double)a->from[row * a->columns + column];
        shared->d[at->thread] = sum;
        return;
    }
    for (uint32_t t = at->thread; t < TRAIN_THREADS; t += TRAIN_COLUMNS)
        sum += shared->d[t];
    const float old = a->add != 0 ? train_float(train_load(a->to, column, PLAIT_FLOAT32, 1), 0, PLAIT_FLOAT32) : 0;
    const float v = a->add != 0 ? old + (float)sum : (float)sum;
    train_store(a->to, column, &v, a->type, 1);
}

BODY uint32_t train_fill_rows_phases(const struct train_rows *a, const struct plait_where *at)
{
    return train_units(a->nrow, at);
}

BODY void train_fill_rows_body(const struct train_rows *a, uint32_t phase, const struct plait_where *at,
                               union train_shared *shared)
{
    float *to = (float *)a->to + train_unit(phase, at) * a->columns;

    (void)shared;
    for (uint64_t k = at->thread; k < a->columns; k += TRAIN_THREADS)
        to[k] = a->from[k];
}

#endif
