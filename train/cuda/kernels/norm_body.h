/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch norm (struct train_norm). A thread has the same channels in all rows of a unit. */
#ifndef PLAIT_TRAIN_CUDA_NORM_BODY_H
#define PLAIT_TRAIN_CUDA_NORM_BODY_H

#include "body.h"

#define TRAIN_NORM_EPSILON 1e-5F /* NORM_EPSILON of train/device.h */

struct train_place { /* of a thread in a unit: rows row, row + step and so on */
    uint64_t row, end;
    uint32_t step;
    uint32_t channel; /* the first */
};

BODY struct train_place train_place_of(const struct train_cut *c, uint64_t unit, uint32_t thread, uint32_t n)
{
    const uint64_t part = unit / c->ntile;
    const uint32_t tile = (uint32_t)(unit - part * c->ntile);
    const uint32_t step = TRAIN_THREADS >> c->across, rows = step * c->each;
    struct train_place p;

    p.step = step;
    p.channel = ((tile << c->across) + (thread & ((1U << c->across) - 1))) * n;
    p.row = part * rows + (thread >> c->across);
    p.end = part * rows + rows < c->rows ? part * rows + rows : c->rows;
    if (p.channel >= c->channels)
        p.end = 0;
    return p;
}

/* ---- Sums of a part ---- */

struct train_factors { /* of a thread's channels */
    float mean[TRAIN_MOST], factor[TRAIN_MOST], shift[TRAIN_MOST];
};

BODY float train_deviation(float variance)
{
    return sqrtf(variance + TRAIN_NORM_EPSILON);
}

BODY struct train_factors train_factors_of(const struct train_norm *a, uint32_t channel, uint32_t n)
{
    float variance[TRAIN_MOST], scale[TRAIN_MOST];
    struct train_factors f = { { 0 }, { 0 }, { 0 } };

    train_floats(f.mean, a->mean, channel, n);
    train_floats(variance, a->variance, channel, n);
    train_floats(scale, a->scale, channel, n);
    if (a->shift != NULL)
        train_floats(f.shift, a->shift, channel, n);
    UNROLL for (uint32_t j = 0; j < n; j++) f.factor[j] = scale[j] / train_deviation(variance[j]);
    return f;
}

/* The forward pass, and the backward pass's mask, must round alike. */
BODY float train_normal(const struct train_factors *f, float x, uint32_t j)
{
    return (x - f->mean[j]) * f->factor[j] + f->shift[j];
}

/* The gradient before ReLU; after a residual sum it is already there. */
BODY float train_masked(const struct train_factors *f, float g, float x, uint32_t j, uint32_t fused)
{
    return fused != TRAIN_RELU || train_normal(f, x, j) > 0 ? g : 0;
}

/* Every thread's sums, in shared memory: row 2 j + w has the w-th sum of the j-th channel. */
BODY void train_put_sums(union train_shared *shared, uint32_t thread, const float *s, const float *q, uint32_t n)
{
    UNROLL for (uint32_t j = 0; j < n; j++)
    {
        shared->f[2 * j * TRAIN_STRIDE + thread] = s[j];
        shared->f[(2 * j + 1) * TRAIN_STRIDE + thread] = q[j];
    }
}

BODY void train_sums_of(const struct train_norm *a, uint64_t unit, uint32_t thread, union train_shared *shared,
                        uint32_t type, uint32_t n)
{
    const struct train_place p = train_place_of(&a->cut, unit, thread, n);
    float first[TRAIN_MOST] = { 0 }, s[TRAIN_MOST] = { 0 }, q[TRAIN_MOST] = { 0 };

    if (p.row < p.end)
        train_widen(first, train_load(a->x, p.channel, type, n), type, n);
    for (uint64_t row = p.row; row < p.end; row += (uint64_t)TRAIN_LINES * p.step) {
        struct plait_line x[TRAIN_LINES];

        UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++) if (row + u * p.step < p.end) x[u] =
            train_load(a->x, (row + u * p.step) * a->cut.channels + p.channel, type, n);
        UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++)
        {
            float v[TRAIN_MOST];
            if (row + u * p.step >= p.end)
                break;
            train_widen(v, x[u], type, n);
            UNROLL for (uint32_t j = 0; j < n; j++)
            {
                const float d = v[j] - first[j];
                s[j] += d;
                q[j] += d * d;
            }
        }
    }
    train_put_sums(shared, thread, s, q, n);
}

/* The gradient of the addend, rounded: *g + more where y is above 0, else 0. */
BODY void train_mask_sum(struct plait_line *g, struct plait_line more, struct plait_line y, uint32_t type, uint32_t n)
{
    float d[TRAIN_MOST], e[TRAIN_MOST], v[TRAIN_MOST];

    train_widen(d, *g, type, n);
    train_widen(e, more, type, n);
    train_widen(v, y, type, n);
    UNROLL for (uint32_t j = 0; j < n; j++) d[j] = v[j] > 0 ? d[j] + e[j] : 0;
    *g = train_narrow(d, type, n);
}

BODY void train_back_sums_of(const struct train_norm *a, uint64_t unit, uint32_t thread, union train_shared *shared,
                             uint32_t type, uint32_t n)
{
    enum { LINES = TRAIN_LINES / 2 };
    const struct train_place p = train_place_of(&a->cut, unit, thread, n);
    float s[TRAIN_MOST] = { 0 }, q[TRAIN_MOST] = { 0 };
    struct train_factors f = { { 0 }, { 0 }, { 0 } };

    if (p.row < p.end)
        f = train_factors_of(a, p.channel, n);
    for (uint64_t row = p.row; row < p.end; row += (uint64_t)LINES * p.step) {
        struct plait_line x[LINES], g[LINES], y[LINES], more[LINES] = { { { 0, 0, 0, 0 } } };

        UNROLL for (uint32_t u = 0; u < LINES; u++)
        {
            const uint64_t i = (row + u * p.step) * a->cut.channels + p.channel;
            if (row + u * p.step >= p.end)
                break;
            x[u] = train_load(a->x, i, type, n);
            g[u] = train_load(a->diff_y, i, type, n);
            if (a->fused == TRAIN_ADD_RELU)
                y[u] = train_load(a->y, i, type, n);
            if (a->fused == TRAIN_ADD_RELU && a->diff_more != NULL)
                more[u] = train_load(a->diff_more, i, type, n);
        }
        UNROLL for (uint32_t u = 0; u < LINES; u++)
        {
            float v[TRAIN_MOST], d[TRAIN_MOST];
            if (row + u * p.step >= p.end)
                break;
            if (a->fused == TRAIN_ADD_RELU) {
                train_mask_sum(&g[u], more[u], y[u], type, n);
                train_put(a->diff_y, (row + u * p.step) * a->cut.channels + p.channel, g[u], type, n);
            }
            train_widen(v, x[u], type, n);
            train_widen(d, g[u], type, n);
            UNROLL for (uint32_t j = 0; j < n; j++)
            {
                const float m = train_masked(&f, d[j], v[j], j, a->fused);
                s[j] += m;
                q[j] += m * (v[j] - f.mean[j]);
            }
        }
    }
    train_put_sums(shared, thread, s, q, n);
}

/* The sums over a block's rows of threads: each of the threads adds up some columns. */
BODY void train_fold_sums(const struct train_norm *a, uint64_t unit, uint32_t thread, const union train_shared *shared,
                          uint32_t n)
{
    const struct train_cut *c = &a->cut;
    const uint64_t part = unit / c->ntile;
    const uint32_t columns = n << c->across, tile = (uint32_t)(unit - part * c->ntile);

    for (uint32_t k = thread; k < 2 * columns; k += TRAIN_THREADS) {
        const uint32_t w = k >= columns, column = k - w * columns, channel = tile * columns + column;
        const float *from = shared->f + (2 * (column % n) + w) * TRAIN_STRIDE + column / n;
        double sum = 0;
        if (channel >= c->channels)
            continue;
        for (uint32_t t = 0; t < TRAIN_THREADS; t += 1U << c->across)
            sum += (double)from[t];
        a->partial[(part * 2 + w) * c->channels + channel] = sum;
    }
}

BODY uint32_t train_cut_units(const struct train_cut *c, const struct plait_where *at)
{
    return train_units(c->npart * c->ntile, at);
}

BODY uint32_t train_norm_sums_phases(const struct train_norm *a, const struct plait_where *at)
{
    return 2 * train_cut_units(&a->cut, at);
}

BODY void train_norm_sums_body(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                               union train_shared *shared)
{
    const uint64_t unit = train_unit(phase / 2, at);

#define SUMS(type, n) train_sums_of(a, unit, at->thread, shared, type, n)
#define FOLD(type, n) train_fold_sums(a, unit, at->thread, shared, n)
    if (phase % 2 == 0)
        TRAIN_BY_TYPE(a->cut.type, a->cut.wide, SUMS);
    else
        TRAIN_BY_TYPE(a->cut.type, a->cut.wide, FOLD);
#undef SUMS
}

BODY uint32_t train_norm_back_sums_phases(const struct train_norm *a, const struct plait_where *at)
{
    return 2 * train_cut_units(&a->cut, at);
}

BODY void train_norm_back_sums_body(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                                    union train_shared *shared)
{
    const uint64_t unit = train_unit(phase / 2, at);

#define SUMS(type, n) train_back_sums_of(a, unit, at->thread, shared, type, n)
    if (phase % 2 == 0)
        TRAIN_BY_TYPE(a->cut.type, a->cut.wide, SUMS);
    else
        TRAIN_BY_TYPE(a->cut.type, a->cut.wide, FOLD);
#undef FOLD
#undef SUMS
}

/* ---- Sums over the parts ---- */

/* Each thread adds up every LANES-th part of a channel; then some of them add up SOME of these, and one all. */
enum { TRAIN_LANES = TRAIN_THREADS / TRAIN_COMBINED, TRAIN_SOME = 8, TRAIN_COMBINE_PHASES = 3 };

BODY void train_lane_sums(const struct train_norm *a, uint32_t channel, uint32_t thread, union train_shared *shared)
{
    const uint64_t channels = a->cut.channels;
    double s = 0, q = 0;

    if (channel < channels)
        UNROLL_BY for (uint64_t part = thread / TRAIN_COMBINED; part < a->cut.npart; part += TRAIN_LANES)
        {
            s += a->partial[part * 2 * channels + channel];
            q += a->partial[(part * 2 + 1) * channels + channel];
        }
    shared->d[thread] = s;
    shared->d[TRAIN_STRIDE + thread] = q;
}

/* shared->d[thread] += those of n - 1 others, which lie `apart`. */
BODY void train_fold_lanes(union train_shared *shared, uint32_t thread, uint32_t n, uint32_t apart)
{
    for (uint32_t i = 1; i < n; i++) {
        shared->d[thread] += shared->d[thread + i * apart];
        shared->d[TRAIN_STRIDE + thread] += shared->d[TRAIN_STRIDE + thread + i * apart];
    }
}

/* Phases of the sums; true where *s and *q are those of *channel. */
BODY bool train_combine(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                        union train_shared *shared, uint32_t *channel, double *s, double *q)
{
    const uint64_t unit = train_unit(phase / TRAIN_COMBINE_PHASES, at);
    const uint32_t step = phase % TRAIN_COMBINE_PHASES, apart = TRAIN_THREADS / TRAIN_SOME;

    *channel = (uint32_t)unit * TRAIN_COMBINED + at->thread % TRAIN_COMBINED;
    if (step == 0)
        train_lane_sums(a, *channel, at->thread, shared);
    else if (step == 1 && at->thread < apart)
        train_fold_lanes(shared, at->thread, TRAIN_SOME, apart);
    else if (step == 2 && at->thread < TRAIN_COMBINED)
        train_fold_lanes(shared, at->thread, apart / TRAIN_COMBINED, TRAIN_COMBINED);
    *s = shared->d[at->thread];
    *q = shared->d[TRAIN_STRIDE + at->thread];
    return step == 2 && at->thread < TRAIN_COMBINED && *channel < a->cut.channels;
}

BODY uint32_t train_norm_combine_phases(const struct train_norm *a, const struct plait_where *at)
{
    return TRAIN_COMBINE_PHASES * train_units((a->cut.channels + TRAIN_COMBINED - 1) / TRAIN_COMBINED, at);
}

BODY void train_norm_combine_body(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                                  union train_shared *shared)
{
    double s, q;
    uint32_t c;

    if (!train_combine(a, phase, at, shared, &c, &s, &q))
        return;
    const double rows = (double)a->cut.rows, mean = s / rows, variance = q / rows - mean * mean;
    const double first = train_float(train_load(a->x, c, a->cut.type, 1), 0, a->cut.type);

    a->mean[c] = (float)(first + mean);
    a->variance[c] = variance < 0 ? 0 : (float)variance;
}

BODY uint32_t train_norm_back_combine_phases(const struct train_norm *a, const struct plait_where *at)
{
    return train_norm_combine_phases(a, at);
}

BODY void train_norm_back_combine_body(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                                       union train_shared *shared)
{
    double s, q;
    uint32_t c;

    if (!train_combine(a, phase, at, shared, &c, &s, &q))
        return;
    a->diff_shift[c] = (float)s;
    a->diff_scale[c] = (float)(q / (double)train_deviation(a->variance[c]));
}

/* ---- Element by element ---- */

BODY void train_forward_of(const struct train_norm *a, uint64_t unit, uint32_t thread, uint32_t type, uint32_t n)
{
    const struct train_place p = train_place_of(&a->cut, unit, thread, n);

    if (p.row >= p.end)
        return;
    const struct train_factors f = train_factors_of(a, p.channel, n);
    for (uint64_t row = p.row; row < p.end; row += (uint64_t)TRAIN_LINES * p.step) {
        struct plait_line x[TRAIN_LINES], more[TRAIN_LINES] = { { { 0, 0, 0, 0 } } };

        UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++)
        {
            const uint64_t i = (row + u * p.step) * a->cut.channels + p.channel;
            if (row + u * p.step >= p.end)
                break;
            x[u] = train_load(a->x, i, type, n);
            if (a->fused == TRAIN_ADD_RELU)
                more[u] = train_load(a->addend, i, type, n);
        }
        UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++)
        {
            float v[TRAIN_MOST], e[TRAIN_MOST];
            if (row + u * p.step >= p.end)
                break;
            train_widen(v, x[u], type, n);
            train_widen(e, more[u], type, n);
            UNROLL for (uint32_t j = 0; j < n; j++)
            {
                const float y = train_normal(&f, v[j], j), sum = a->fused == TRAIN_ADD_RELU ? y + e[j] : y;
                v[j] = a->fused != TRAIN_NOTHING ? train_relu(sum) : sum;
            }
            train_store(a->y, (row + u * p.step) * a->cut.channels + p.channel, v, type, n);
        }
    }
}

BODY uint32_t train_norm_forward_phases(const struct train_norm *a, const struct plait_where *at)
{
    return train_cut_units(&a->cut, at);
}

BODY void train_norm_forward_body(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                                  union train_shared *shared)
{
    (void)shared;
#define FORWARD(type, n) train_forward_of(a, train_unit(phase, at), at->thread, type, n)
    TRAIN_BY_TYPE(a->cut.type, a->cut.wide, FORWARD);
#undef FORWARD
}

/* Of a thread's channels: the means of the gradient, and of the gradient times the deviations of x. */
struct train_means {
    float all[TRAIN_MOST], slope[TRAIN_MOST];
};

BODY struct train_means train_means_of(const struct train_norm *a, uint32_t channel, uint32_t n)
{
    struct train_means m = { { 0 }, { 0 } };

    if (a->share == 0)
        return m;
    train_floats(m.all, a->diff_shift, channel, n);
    train_floats(m.slope, a->diff_scale, channel, n);
    UNROLL for (uint32_t j = 0; j < n; j++)
    {
        m.all[j] *= a->share;
        m.slope[j] *= a->share / train_deviation(a->variance[channel + j]);
    }
    return m;
}

BODY void train_back_of(const struct train_norm *a, uint64_t unit, uint32_t thread, uint32_t type, uint32_t n)
{
    enum { LINES = TRAIN_LINES / 2 };
    const struct train_place p = train_place_of(&a->cut, unit, thread, n);

    if (p.row >= p.end)
        return;
    const struct train_factors f = train_factors_of(a, p.channel, n);
    const struct train_means m = train_means_of(a, p.channel, n);
    for (uint64_t row = p.row; row < p.end; row += (uint64_t)LINES * p.step) {
        struct plait_line x[LINES], g[LINES];

        UNROLL for (uint32_t u = 0; u < LINES; u++)
        {
            const uint64_t i = (row + u * p.step) * a->cut.channels + p.channel;
            if (row + u * p.step >= p.end)
                break;
            x[u] = train_load(a->x, i, type, n);
            g[u] = train_load(a->diff_y, i, type, n);
        }
        UNROLL for (uint32_t u = 0; u < LINES; u++)
        {
            float v[TRAIN_MOST], d[TRAIN_MOST];
            if (row + u * p.step >= p.end)
                break;
            train_widen(v, x[u], type, n);
            train_widen(d, g[u], type, n);
            UNROLL for (uint32_t j = 0; j < n; j++) d[j] =
                f.factor[j] * (train_masked(&f, d[j], v[j], j, a->fused) - m.all[j] - (v[j] - f.mean[j]) * m.slope[j]);
            train_store(a->diff_x, (row + u * p.step) * a->cut.channels + p.channel, d, type, n);
        }
    }
}

BODY uint32_t train_norm_back_phases(const struct train_norm *a, const struct plait_where *at)
{
    return train_cut_units(&a->cut, at);
}

BODY void train_norm_back_body(const struct train_norm *a, uint32_t phase, const struct plait_where *at,
                               union train_shared *shared)
{
    (void)shared;
#define BACK(type, n) train_back_of(a, train_unit(phase, at), at->thread, type, n)
    TRAIN_BY_TYPE(a->cut.type, a->cut.wide, BACK);
#undef BACK
}

#endif
