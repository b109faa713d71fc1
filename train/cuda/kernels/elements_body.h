/* SPDX-License-Identifier: BSD-3-Clause */
/* Element by element: train_add, train_finite, train_convert, train_images, and vectors of float32. */
#ifndef PLAIT_TRAIN_CUDA_ELEMENTS_BODY_H
#define PLAIT_TRAIN_CUDA_ELEMENTS_BODY_H

#include "body.h"

/* A thread's elements: n from start, start + step and so on, TRAIN_LINES or TRAIN_OCTETS times. */
struct train_walk {
    uint64_t start, end;
    uint32_t step;
};

enum { TRAIN_OCTETS = TRAIN_LINES / 2 }; /* of 8 elements, which may be two lines */

BODY uint32_t train_each(uint32_t type, uint32_t wide)
{
    return wide == 0 ? 1 : type == PLAIT_FLOAT32 ? 4 : 8;
}

/* Chunks of a block's threads, `times` units of `each` elements for each thread. */
BODY uint64_t train_chunks(uint64_t n, uint32_t each, uint32_t times)
{
    const uint64_t chunk = (uint64_t)TRAIN_THREADS * times * each;

    return n / chunk + (n % chunk != 0);
}

/* The last one is of the elements that make no unit. */
BODY uint32_t train_chunk_phases(uint64_t n, uint32_t each, uint32_t times, const struct plait_where *at)
{
    return train_units(train_chunks(n, each, times) + 1, at);
}

BODY bool train_is_rest(uint64_t n, uint32_t each, uint32_t times, uint32_t phase, const struct plait_where *at)
{
    return train_unit(phase, at) == train_chunks(n, each, times);
}

BODY struct train_walk train_walk_of(uint64_t n, uint32_t each, uint32_t times, uint32_t phase,
                                     const struct plait_where *at)
{
    const uint64_t chunk = (uint64_t)TRAIN_THREADS * times * each;
    const struct train_walk w = { train_unit(phase, at) * chunk + at->thread * each, n - n % each,
                                  TRAIN_THREADS * each };

    return w;
}

BODY struct train_walk train_rest_of(uint64_t n, uint32_t each, const struct plait_where *at)
{
    const struct train_walk w = { n - n % each + at->thread, n, TRAIN_THREADS };

    return w;
}

/* ---- Sums ---- */

BODY void train_add_of(const struct train_add *a, struct train_walk w, uint32_t type, uint32_t n)
{
    struct plait_line x[TRAIN_LINES], y[TRAIN_LINES];

    UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++)
    {
        const uint64_t i = w.start + u * w.step;
        if (i >= w.end)
            break;
        x[u] = train_load(a->a, i, type, n);
        y[u] = train_load(a->b, i, type, n);
    }
    UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++)
    {
        float p[TRAIN_MOST], q[TRAIN_MOST];
        if (w.start + u * w.step >= w.end)
            break;
        train_widen(p, x[u], type, n);
        train_widen(q, y[u], type, n);
        UNROLL for (uint32_t j = 0; j < n; j++) p[j] += q[j];
        train_store(a->a, w.start + u * w.step, p, type, n);
    }
}

BODY uint32_t train_add_phases(const struct train_add *a, const struct plait_where *at)
{
    return train_chunk_phases(a->n, train_each(a->type, a->wide), TRAIN_LINES, at);
}

BODY void train_add_body(const struct train_add *a, uint32_t phase, const struct plait_where *at,
                         union train_shared *shared)
{
    const uint32_t each = train_each(a->type, a->wide);
    const struct train_walk w = train_walk_of(a->n, each, TRAIN_LINES, phase, at);

    (void)shared;
#define ADD(t, m) train_add_of(a, w, t, m)
    if (train_is_rest(a->n, each, TRAIN_LINES, phase, at))
        train_add_of(a, train_rest_of(a->n, each, at), a->type, 1);
    else
        TRAIN_BY_TYPE(a->type, a->wide, ADD);
#undef ADD
}

/* ---- Infinities and NaNs ---- */

/* All bits of the exponent are set, of one of the elements. */
BODY bool train_is_infinite(struct plait_line line, uint32_t type, uint32_t n)
{
    const uint32_t mask = type == PLAIT_FLOAT32 ? 0x7f800000 : type == PLAIT_FLOAT16 ? 0x7c00 : 0x7f80;
    bool found = false;

    UNROLL for (uint32_t j = 0; j < n; j++)
    {
        const uint32_t bits = type == PLAIT_FLOAT32 ? line.word[j % 4] : plait_half_of(line.word, j);
        found |= (bits & mask) == mask;
    }
    return found;
}

BODY void train_finite_of(const struct train_finite *a, struct train_walk w, uint32_t type, uint32_t n)
{
    struct plait_line x[TRAIN_LINES];
    bool found = false;

    UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++) if (w.start + u * w.step < w.end) x[u] =
        train_load(a->a, w.start + u * w.step, type, n);
    UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++) if (w.start + u * w.step < w.end) found |=
        train_is_infinite(x[u], type, n);
    if (found)
        *a->result = 1;
}

BODY uint32_t train_finite_phases(const struct train_finite *a, const struct plait_where *at)
{
    return a->clear != 0 ? 1 : train_chunk_phases(a->n, train_each(a->type, a->wide), TRAIN_LINES, at);
}

BODY void train_finite_body(const struct train_finite *a, uint32_t phase, const struct plait_where *at,
                            union train_shared *shared)
{
    const uint32_t each = train_each(a->type, a->wide);
    const struct train_walk w = train_walk_of(a->n, each, TRAIN_LINES, phase, at);

    (void)shared;
#define FINITE(t, m) train_finite_of(a, w, t, m)
    if (a->clear != 0 && plait_thread(at) == 0)
        *a->result = 0;
    else if (a->clear != 0)
        return;
    else if (train_is_rest(a->n, each, TRAIN_LINES, phase, at))
        train_finite_of(a, train_rest_of(a->n, each, at), a->type, 1);
    else
        TRAIN_BY_TYPE(a->type, a->wide, FINITE);
#undef FINITE
}

/* ---- Types ---- */

/* 8 elements as two lines or one; or one element. */
BODY void train_octet_get(struct plait_line *line, const void *p, uint64_t i, uint32_t type, uint32_t n)
{
    line[0] = train_load(p, i, type, n);
    if (n > 1 && type == PLAIT_FLOAT32)
        line[1] = train_load(p, i + 4, type, n);
}

BODY void train_octet_widen(float *v, const struct plait_line *line, uint32_t type, uint32_t n)
{
    if (type != PLAIT_FLOAT32 || n == 1) {
        train_widen(v, line[0], type, n);
    } else {
        train_widen(v, line[0], type, 4);
        train_widen(v + 4, line[1], type, 4);
    }
}

BODY void train_octet_put(void *p, uint64_t i, const float *v, uint32_t type, uint32_t n)
{
    if (type != PLAIT_FLOAT32 || n == 1) {
        train_store(p, i, v, type, n);
    } else {
        train_store(p, i, v, type, 4);
        train_store(p, i + 4, v + 4, type, 4);
    }
}

BODY void train_convert_of(const struct train_convert *a, struct train_walk w, uint32_t from, uint32_t to, uint32_t n)
{
    struct plait_line x[TRAIN_OCTETS][2], y[TRAIN_OCTETS][2];

    UNROLL for (uint32_t u = 0; u < TRAIN_OCTETS; u++)
    {
        const uint64_t i = w.start + u * w.step;
        if (i >= w.end)
            break;
        train_octet_get(x[u], a->from, i, from, n);
        if (a->add != 0)
            train_octet_get(y[u], a->to, i, PLAIT_FLOAT32, n);
    }
    UNROLL for (uint32_t u = 0; u < TRAIN_OCTETS; u++)
    {
        float v[TRAIN_MOST], more[TRAIN_MOST];
        if (w.start + u * w.step >= w.end)
            break;
        train_octet_widen(v, x[u], from, n);
        if (a->add != 0) {
            train_octet_widen(more, y[u], PLAIT_FLOAT32, n);
            UNROLL for (uint32_t j = 0; j < n; j++) v[j] += more[j];
        }
        train_octet_put(a->to, w.start + u * w.step, v, to, n);
    }
}

BODY uint32_t train_convert_phases(const struct train_convert *a, const struct plait_where *at)
{
    return train_chunk_phases(a->n, a->wide != 0 ? 8 : 1, TRAIN_OCTETS, at);
}

BODY void train_convert_body(const struct train_convert *a, uint32_t phase, const struct plait_where *at,
                             union train_shared *shared)
{
    const uint32_t each = a->wide != 0 ? 8 : 1;
    const struct train_walk w = train_walk_of(a->n, each, TRAIN_OCTETS, phase, at);

    (void)shared;
    if (train_is_rest(a->n, each, TRAIN_OCTETS, phase, at))
        train_convert_of(a, train_rest_of(a->n, each, at), a->from_type, a->to_type, 1);
    else if (a->wide == 0)
        train_convert_of(a, w, a->from_type, a->to_type, 1);
    else if (a->from_type == PLAIT_FLOAT32 && a->to_type == PLAIT_FLOAT32)
        train_convert_of(a, w, PLAIT_FLOAT32, PLAIT_FLOAT32, 8);
    else if (a->from_type == PLAIT_FLOAT32)
        train_convert_of(a, w, PLAIT_FLOAT32, a->to_type == PLAIT_FLOAT16 ? PLAIT_FLOAT16 : PLAIT_BFLOAT16, 8);
    else if (a->to_type == PLAIT_FLOAT32)
        train_convert_of(a, w, a->from_type == PLAIT_FLOAT16 ? PLAIT_FLOAT16 : PLAIT_BFLOAT16, PLAIT_FLOAT32, 8);
    else
        train_convert_of(a, w, a->from_type == PLAIT_FLOAT16 ? PLAIT_FLOAT16 : PLAIT_BFLOAT16,
                         a->to_type == PLAIT_FLOAT16 ? PLAIT_FLOAT16 : PLAIT_BFLOAT16, 8);
}

/* ---- Images ---- */

BODY void train_images_of(const struct train_images *a, struct train_walk w, uint32_t type, uint32_t n)
{
    UNROLL for (uint32_t u = 0; u < TRAIN_LINES; u++)
    {
        const uint64_t i = w.start + u * w.step;
        const uint32_t c = (uint32_t)(i % 3);
        uint64_t bytes;
        float v[TRAIN_MOST];
        if (i >= w.end)
            break;
        GLOBAL(a->from);
        bytes = n == 1   ? a->from[i]
                : n == 4 ? *(const plait_bits32 *)(const void *)(a->from + i)
                         : *(const plait_bits64 *)(const void *)(a->from + i);
        UNROLL for (uint32_t j = 0; j < n; j++)
        {
            const uint32_t k = (c + j) % 3;
            const float factor = k == 0 ? a->factor[0] : k == 1 ? a->factor[1] : a->factor[2];
            const float offset = k == 0 ? a->offset[0] : k == 1 ? a->offset[1] : a->offset[2];
            v[j] = (float)(bytes >> 8 * j & 0xff) * factor - offset;
        }
        train_store(a->to, i, v, type, n);
    }
}

BODY uint32_t train_images_phases(const struct train_images *a, const struct plait_where *at)
{
    return train_chunk_phases(a->n, train_each(a->type, a->wide), TRAIN_LINES, at);
}

BODY void train_images_body(const struct train_images *a, uint32_t phase, const struct plait_where *at,
                            union train_shared *shared)
{
    const uint32_t each = train_each(a->type, a->wide);
    const struct train_walk w = train_walk_of(a->n, each, TRAIN_LINES, phase, at);

    (void)shared;
#define IMAGES(t, m) train_images_of(a, w, t, m)
    if (train_is_rest(a->n, each, TRAIN_LINES, phase, at))
        train_images_of(a, train_rest_of(a->n, each, at), a->type, 1);
    else
        TRAIN_BY_TYPE(a->type, a->wide, IMAGES);
#undef IMAGES
}

/* ---- Vectors ---- */

BODY uint32_t train_vector_phases(const struct train_vector *a, const struct plait_where *at)
{
    return train_units(a->n / TRAIN_THREADS + (a->n % TRAIN_THREADS != 0), at);
}

BODY uint32_t train_scale_vector_phases(const struct train_vector *a, const struct plait_where *at)
{
    return train_vector_phases(a, at);
}

BODY void train_scale_vector_body(const struct train_vector *a, uint32_t phase, const struct plait_where *at,
                                  union train_shared *shared)
{
    const uint64_t i = train_unit(phase, at) * TRAIN_THREADS + at->thread;

    (void)shared;
    if (i < a->n)
        a->to[i] = (float)((double)a->from[i] * a->factors[i]);
}

BODY uint32_t train_move_vector_phases(const struct train_vector *a, const struct plait_where *at)
{
    return train_vector_phases(a, at);
}

BODY void train_move_vector_body(const struct train_vector *a, uint32_t phase, const struct plait_where *at,
                                 union train_shared *shared)
{
    const uint64_t i = train_unit(phase, at) * TRAIN_THREADS + at->thread;

    (void)shared;
    if (i < a->n)
        a->to[i] += a->weight * (a->factor * a->from[i] - a->to[i]);
}

#endif
