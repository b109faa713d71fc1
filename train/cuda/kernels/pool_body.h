/* SPDX-License-Identifier: BSD-3-Clause */
/* Pooling (struct train_pool). A thread makes a line of a row's channels; the backward pass gathers. */
#ifndef PLAIT_TRAIN_CUDA_POOL_BODY_H
#define PLAIT_TRAIN_CUDA_POOL_BODY_H

#include "body.h"

typedef uint64_t __attribute__((may_alias)) train_bytes8;

enum { TRAIN_SIDE = 3 }; /* elements of a window's row that are loaded together */

struct train_span { /* of rows or columns: from first to before end */
    uint32_t first, end;
};

/* The part of window `out` that is in the image. */
BODY struct train_span train_window(const struct train_pool *a, uint32_t out, uint32_t size)
{
    const uint32_t start = out * a->stride, end = start + a->kernel; /* from the padding's start */
    const struct train_span s = { start > a->pad ? start - a->pad : 0, end < a->pad          ? 0
                                                                       : end - a->pad < size ? end - a->pad
                                                                                             : size };

    return s;
}

/* The windows that have element `in`. */
BODY struct train_span train_windows(const struct train_pool *a, uint32_t in, uint32_t size)
{
    const uint32_t at = in + a->pad, end = at / a->stride + 1;
    const struct train_span s = { at < a->kernel ? 0 : (at - a->kernel) / a->stride + 1, end < size ? end : size };

    return s;
}

BODY uint32_t train_length(struct train_span s)
{
    return s.end > s.first ? s.end - s.first : 0;
}

/* The position in the window `out` of element `in`. */
BODY uint32_t train_position(const struct train_pool *a, uint32_t in, uint32_t out)
{
    return in + a->pad - out * a->stride;
}

/* The first pixel of row y of an image. */
BODY uint64_t train_pixel(uint32_t image, uint32_t y, uint32_t height, uint32_t width)
{
    return ((uint64_t)image * height + y) * width;
}

BODY void train_put_won(uint8_t *to, const uint32_t *won, uint32_t n)
{
    GLOBAL(to);
    if (n == 1) {
        *to = (uint8_t)won[0];
    } else if (n == 4) {
        *(plait_bits32 *)(void *)to = won[0] | won[1] << 8 | won[2] << 16 | won[3] << 24;
    } else {
        uint64_t all = 0;
        UNROLL for (uint32_t j = 0; j < n; j++) all |= (uint64_t)won[j] << 8 * j;
        *(train_bytes8 *)(void *)to = all;
    }
}

BODY uint64_t train_get_won(const uint8_t *from, uint32_t n)
{
    GLOBAL(from);
    return n == 1   ? *from
           : n == 4 ? *(const plait_bits32 *)(const void *)from
                    : *(const train_bytes8 *)(const void *)from;
}

/* ---- Maximum ---- */

/* The later element wins if it is larger, or a NaN; none beats a NaN. */
BODY bool train_beats(float later, float best)
{
    return best == best && !(later <= best);
}

/* Column x of the output's row, channels from c on. */
BODY void train_max_of(const struct train_pool *a, uint32_t row, uint32_t x, uint32_t c, uint32_t type, uint32_t n)
{
    const uint32_t image = row / a->out_height;
    const uint32_t y = row - image * a->out_height;
    const struct train_span rows = train_window(a, y, a->height), columns = train_window(a, x, a->width);
    const uint64_t to = ((uint64_t)row * a->out_width + x) * a->channels + c;
    float best[TRAIN_MOST] = { 0 };
    uint32_t won[TRAIN_MOST] = { 0 };

    for (uint32_t h = rows.first; h < rows.end; h++) {
        const uint64_t line = train_pixel(image, h, a->height, a->width);
        for (uint32_t w = columns.first; w < columns.end; w += TRAIN_SIDE) {
            struct plait_line in[TRAIN_SIDE];

            UNROLL for (uint32_t u = 0; u < TRAIN_SIDE; u++) if (w + u < columns.end) in[u] =
                train_load(a->from, (line + w + u) * a->channels + c, type, n);
            UNROLL for (uint32_t u = 0; u < TRAIN_SIDE; u++)
            {
                const uint32_t at = train_position(a, h, y) * a->kernel + train_position(a, w + u, x);
                const bool first = u == 0 && h == rows.first && w == columns.first;
                float v[TRAIN_MOST];
                if (w + u >= columns.end)
                    break;
                train_widen(v, in[u], type, n);
                UNROLL for (uint32_t j = 0; j < n; j++)
                {
                    const bool takes = first || train_beats(v[j], best[j]);
                    best[j] = takes ? v[j] : best[j];
                    won[j] = takes ? at : won[j];
                }
            }
        }
    }
    train_store(a->to, to, best, type, n);
    if (a->won != NULL)
        train_put_won(a->won + to, won, n);
}

BODY void train_max_back_of(const struct train_pool *a, uint32_t row, uint32_t x, uint32_t c, uint32_t type, uint32_t n)
{
    const uint32_t image = row / a->height;
    const uint32_t y = row - image * a->height;
    const struct train_span rows = train_windows(a, y, a->out_height), columns = train_windows(a, x, a->out_width);
    float sum[TRAIN_MOST] = { 0 };

    for (uint32_t h = rows.first; h < rows.end; h++) {
        const uint64_t line = train_pixel(image, h, a->out_height, a->out_width);
        for (uint32_t w = columns.first; w < columns.end; w++) {
            const uint64_t i = (line + w) * a->channels + c;
            const uint32_t at = train_position(a, y, h) * a->kernel + train_position(a, x, w);
            const struct plait_line g = train_load(a->from, i, type, n);
            const uint64_t won = train_get_won(a->won + i, n);
            float v[TRAIN_MOST];

            train_widen(v, g, type, n);
            UNROLL for (uint32_t j = 0; j < n; j++) sum[j] += (won >> 8 * j & 0xff) == at ? v[j] : 0;
        }
    }
    train_store(a->to, ((uint64_t)row * a->width + x) * a->channels + c, sum, type, n);
}

/* ---- Average ---- */

BODY void train_average_of(const struct train_pool *a, uint32_t row, uint32_t x, uint32_t c, uint32_t type, uint32_t n)
{
    const uint32_t image = row / a->out_height;
    const uint32_t y = row - image * a->out_height;
    const struct train_span rows = train_window(a, y, a->height), columns = train_window(a, x, a->width);
    const float count = (float)(train_length(rows) * train_length(columns));
    float sum[TRAIN_MOST] = { 0 };

    for (uint32_t h = rows.first; h < rows.end; h++) {
        const uint64_t line = train_pixel(image, h, a->height, a->width);
        UNROLL_BY for (uint32_t w = columns.first; w < columns.end; w++)
        {
            const uint64_t i = (line + w) * a->channels + c;
            float v[TRAIN_MOST];

            train_widen(v, train_load(a->from, i, type, n), type, n);
            UNROLL for (uint32_t j = 0; j < n; j++) sum[j] += v[j];
        }
    }
    UNROLL for (uint32_t j = 0; j < n; j++) sum[j] /= count;
    train_store(a->to, ((uint64_t)row * a->out_width + x) * a->channels + c, sum, type, n);
}

BODY void train_average_back_of(const struct train_pool *a, uint32_t row, uint32_t x, uint32_t c, uint32_t type,
                                uint32_t n)
{
    const uint32_t image = row / a->height;
    const uint32_t y = row - image * a->height;
    const struct train_span rows = train_windows(a, y, a->out_height), columns = train_windows(a, x, a->out_width);
    float sum[TRAIN_MOST] = { 0 };

    for (uint32_t h = rows.first; h < rows.end; h++) {
        const uint64_t line = train_pixel(image, h, a->out_height, a->out_width);
        for (uint32_t w = columns.first; w < columns.end; w++) {
            const uint64_t i = (line + w) * a->channels + c;
            const uint32_t high = train_length(train_window(a, h, a->height));
            const float count = (float)(high * train_length(train_window(a, w, a->width)));
            float v[TRAIN_MOST];

            train_widen(v, train_load(a->from, i, type, n), type, n);
            UNROLL for (uint32_t j = 0; j < n; j++) sum[j] += v[j] / count;
        }
    }
    train_store(a->to, ((uint64_t)row * a->width + x) * a->channels + c, sum, type, n);
}

/* ---- Kernels ---- */

/* A block makes a row of `width` pixels by `of`. */
#define TRAIN_POOL(name, width, of)                                                                            \
    BODY void name##_row(const struct train_pool *a, uint32_t row, uint32_t thread, uint32_t type, uint32_t n) \
    {                                                                                                          \
        const uint32_t lines = a->channels / n;                                                                \
                                                                                                               \
        for (uint32_t k = thread; k < a->width * lines; k += TRAIN_THREADS)                                    \
            of(a, row, k / lines, k % lines * n, type, n);                                                     \
    }                                                                                                          \
                                                                                                               \
    BODY uint32_t name##_phases(const struct train_pool *a, const struct plait_where *at)                      \
    {                                                                                                          \
        return train_units(a->nrow, at);                                                                       \
    }                                                                                                          \
                                                                                                               \
    BODY void name##_body(const struct train_pool *a, uint32_t phase, const struct plait_where *at,            \
                          union train_shared *shared)                                                          \
    {                                                                                                          \
        (void)shared;                                                                                          \
        TRAIN_BY_TYPE(a->type, a->wide, TRAIN_ROW_##name);                                                     \
    }

#define TRAIN_ROW_train_pool_max(type, n) train_pool_max_row(a, (uint32_t)train_unit(phase, at), at->thread, type, n)
#define TRAIN_ROW_train_pool_max_back(type, n) \
    train_pool_max_back_row(a, (uint32_t)train_unit(phase, at), at->thread, type, n)
#define TRAIN_ROW_train_pool_average(type, n) \
    train_pool_average_row(a, (uint32_t)train_unit(phase, at), at->thread, type, n)
#define TRAIN_ROW_train_pool_average_back(type, n) \
    train_pool_average_back_row(a, (uint32_t)train_unit(phase, at), at->thread, type, n)

TRAIN_POOL(train_pool_max, out_width, train_max_of)
TRAIN_POOL(train_pool_max_back, width, train_max_back_of)
TRAIN_POOL(train_pool_average, out_width, train_average_of)
TRAIN_POOL(train_pool_average_back, width, train_average_back_of)

#endif
