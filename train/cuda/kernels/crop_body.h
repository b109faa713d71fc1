/* SPDX-License-Identifier: BSD-3-Clause */
/* A crop of a decoded image: resized, flipped, its colours changed, in bytes. A block takes a row of the result. */
#ifndef PLAIT_TRAIN_CUDA_CROP_BODY_H
#define PLAIT_TRAIN_CUDA_CROP_BODY_H

#include "body.h"

/* ---- The filter: taps_of() of train/image.c, whose weights are computed where they are used ---- */

struct train_taps { /* of a pixel along one side */
    uint32_t from, count;
    float first, inverse; /* distance of the first tap from the middle; 1 / that at which weights end */
    float scale;          /* makes the weights' sum 1 */
};

BODY float train_triangle(const struct train_taps *t, uint32_t k)
{
    const float d = t->first + (float)k;
    const float w = 1 - (d < 0 ? -d : d) * t->inverse;

    return w > 0 ? w : 0;
}

/* Pixel i of the result: n are the image's, of which it takes `length` from `start` on. */
BODY struct train_taps train_taps_of(double start, double length, uint32_t side, uint32_t n, uint32_t i)
{
    const double step = length / side, reach = step > 1 ? step : 1, middle = start + (i + 0.5) * step;
    const double low = floor(middle - reach), high = ceil(middle + reach);
    const uint32_t from = low <= 0 ? 0 : low >= n - 1 ? n - 1 : (uint32_t)low;
    const uint32_t end = high >= n ? n : high <= from + 1 ? from + 1 : (uint32_t)high;
    struct train_taps t = { from, end - from, (float)(from + 0.5 - middle), (float)(1 / reach), 0 };
    float sum = 0;

    for (uint32_t k = 0; k < t.count; k++)
        sum += train_triangle(&t, k);
    t.scale = 1 / sum;
    return t;
}

BODY float train_grey(const float *rgb)
{
    return 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2];
}

/* Along the columns first, as the processor. */
BODY void train_crop_pixel(const struct train_crop *a, const struct train_taps *rows, uint32_t x, float *sum)
{
    const struct train_taps columns = train_taps_of(a->x, a->box_width, a->side, a->width, x);
    const uint8_t *first = a->from + ((uint64_t)rows->from * a->width + columns.from) * 3;

    for (uint32_t i = 0; i < columns.count; i++) {
        const float w = train_triangle(&columns, i) * columns.scale;
        const uint8_t *p = first + i * 3;
        float line[3] = { 0, 0, 0 };
        for (uint32_t j = 0; j < rows->count; j++, p += (uint64_t)a->width * 3) {
            const float v = train_triangle(rows, j) * rows->scale;
            UNROLL for (uint32_t c = 0; c < 3; c++) line[c] += v * (float)p[c];
        }
        UNROLL for (uint32_t c = 0; c < 3; c++) sum[c] += w * line[c];
    }
}

/* Threads that have a pixel of a row. */
BODY uint32_t train_crop_threads(const struct train_crop *a)
{
    return a->side < TRAIN_THREADS ? a->side : TRAIN_THREADS;
}

BODY double train_crop_sum(const double *of, uint32_t n)
{
    double sum = 0;

    for (uint32_t k = 0; k < n; k++)
        sum += of[k];
    return sum;
}

BODY void train_crop_row(const struct train_crop *a, uint32_t y, uint32_t thread, double *grey)
{
    const struct train_taps rows = train_taps_of(a->y, a->box_height, a->side, a->height, y);

    *grey = 0;
    for (uint32_t x = thread; x < a->side; x += TRAIN_THREADS) {
        float *to = a->values + ((uint64_t)y * a->side + (a->flip != 0 ? a->side - 1 - x : x)) * 3;
        float sum[3] = { 0, 0, 0 };
        train_crop_pixel(a, &rows, x, sum);
        UNROLL for (uint32_t c = 0; c < 3; c++) to[c] = sum[c];
        *grey += (double)train_grey(sum);
    }
}

BODY uint32_t train_crop_resize_phases(const struct train_crop *a, const struct plait_where *at)
{
    return 2 * train_units(a->side, at);
}

BODY void train_crop_resize_body(const struct train_crop *a, uint32_t phase, const struct plait_where *at,
                                 union train_shared *shared)
{
    const uint32_t y = (uint32_t)train_unit(phase / 2, at);

    if (phase % 2 == 0)
        train_crop_row(a, y, at->thread, &shared->d[at->thread]);
    else if (at->thread == 0)
        a->grey[y] = train_crop_sum(shared->d, train_crop_threads(a));
}

/* ---- Colours: jitter() of train/image.c, and rounding ---- */

BODY void train_crop_colours(const struct train_crop *a, uint32_t y, uint32_t thread, float shift)
{
    const float both = a->brightness * a->contrast;
    const float own = a->saturation * both, of_grey = (1 - a->saturation) * both;

    for (uint32_t x = thread; x < a->side; x += TRAIN_THREADS) {
        const uint64_t at = ((uint64_t)y * a->side + x) * 3;
        const float add = of_grey * train_grey(a->values + at) + shift;
        UNROLL for (uint32_t c = 0; c < 3; c++)
        {
            const float v = own * a->values[at + c] + add, positive = v > 0 ? v : 0;
            a->to[at + c] = (uint8_t)((positive < 255 ? positive : 255) + 0.5F);
        }
    }
}

BODY uint32_t train_crop_colour_phases(const struct train_crop *a, const struct plait_where *at)
{
    return 1 + train_units(a->side, at);
}

/* First each thread sums some rows' grey, for the mean of all. */
BODY void train_crop_colour_body(const struct train_crop *a, uint32_t phase, const struct plait_where *at,
                                 union train_shared *shared)
{
    const double count = (double)a->side * a->side;

    if (phase == 0) {
        shared->d[at->thread] = 0;
        for (uint32_t y = at->thread; y < a->side; y += TRAIN_THREADS)
            shared->d[at->thread] += a->grey[y];
    } else {
        const float mean = (float)(train_crop_sum(shared->d, train_crop_threads(a)) / count);
        const float shift = (1 - a->contrast) * a->brightness * mean;
        train_crop_colours(a, (uint32_t)train_unit(phase - 1, at), at->thread, shift);
    }
}

#endif
