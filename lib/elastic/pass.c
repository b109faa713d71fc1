/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic in pieces that stay in the L1 cache, so that memory is read once and written once. */
#include "elastic.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { PIECE = 1024 }; /* elements */

static size_t piece(size_t n, size_t at)
{
    return n - at < PIECE ? n - at : PIECE;
}

/* Element `at` of a vector of this type. */
static void *element(enum plait_dtype type, const void *v, size_t at)
{
    return (char *)(uintptr_t)v + at * plait_dtype_size(type);
}

/*
 * The largest difference for which the sum of n is finite in any order. For n > 1 it is a power of two: its multiples
 * are exact, so no rounded partial sum exceeds them.
 */
static float most(enum plait_dtype payload, uint32_t n)
{
    float limit = 32768;

    if (payload != PLAIT_FLOAT16)
        return INFINITY;
    if (n <= 1)
        return 65504;
    for (uint32_t m = 1; m < n && m < 1U << 31; m *= 2)
        limit /= 2;
    return limit;
}

/* Clamp d and round it to the payload's type. A NaN stays a NaN. */
static void put(const struct plait_kernels *k, enum plait_dtype payload, void *to, float *d, size_t n, uint32_t summed)
{
    const float limit = most(payload, summed);

    if (payload == PLAIT_FLOAT32) {
        plait_copy(k, to, d, n * sizeof *d);
        return;
    }
    for (size_t i = 0; i < n && limit < INFINITY; i++)
        d[i] = d[i] > limit ? limit : d[i] < -limit ? -limit : d[i];
    k->narrow[payload](to, d, n, 1);
}

/* Convert to float32; `room` is used unless the payload is float32. */
static const float *get(const struct plait_kernels *k, enum plait_dtype payload, const void *from, float *room,
                        size_t n)
{
    if (payload == PLAIT_FLOAT32)
        return from;
    k->widen[payload](room, from, n, 1);
    return room;
}

void plait_elastic_subtract(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                            const float *c, size_t n, uint32_t summed)
{
    float room[PIECE];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        for (size_t i = 0; i < m; i++)
            room[i] = w[at + i] - c[at + i];
        put(k, payload, element(payload, d, at), room, m, summed);
    }
}

void plait_elastic_add(const struct plait_kernels *k, enum plait_dtype payload, float *x, const void *d, size_t n,
                       float a)
{
    float room[PIECE];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        const float *from = get(k, payload, element(payload, d, at), room, m);
        for (size_t i = 0; i < m; i++)
            x[at + i] += a * from[i];
    }
}

void plait_elastic_meet(float *w, float *c, const float *s, size_t n, float a, float p)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= a * (w[i] - c[i]);
        if (s != NULL)
            c[i] += a * (s[i] - p * c[i]);
    }
}

void plait_elastic_move(const struct plait_kernels *k, enum plait_dtype payload, float *to, const float *from,
                        const float *w, const float *c, size_t n, float a)
{
    float d[PIECE];

    for (size_t i = 0; i < n && payload == PLAIT_FLOAT32; i++)
        to[i] = from[i] + a * (w[i] - c[i]);
    for (size_t at = 0; at < n && payload != PLAIT_FLOAT32; at += PIECE) {
        const size_t m = piece(n, at);
        plait_elastic_subtract(k, payload, d, w + at, c + at, m, 1);
        if (to != from)
            memcpy(to + at, from + at, m * sizeof *to);
        plait_elastic_add(k, payload, to + at, d, m, a);
    }
}

double plait_elastic_serve_unlocked(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                                    float *c, size_t n, float a)
{
    _Atomic float *shared = (_Atomic float *)c;
    float room[PIECE];
    double sum = 0;

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        for (size_t i = 0; i < m; i++)
            room[i] = w[at + i] - atomic_load_explicit(&shared[at + i], memory_order_relaxed);
        put(k, payload, element(payload, d, at), room, m, 1);
        get(k, payload, element(payload, d, at), room, m); /* rounded, as the worker will have it */
        for (size_t i = 0; i < m; i++) {
            const float f = a * room[i];
            const float now = atomic_load_explicit(&shared[at + i], memory_order_relaxed);
            atomic_store_explicit(&shared[at + i], now + f, memory_order_relaxed);
            sum += f;
        }
    }
    return sum;
}
