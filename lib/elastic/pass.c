/* SPDX-License-Identifier: BSD-3-Clause */
/* In pieces that stay in the first-level cache, so that memory is read once and written once. */
#include "pass.h"

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

/* Round d to the payload's type, into `to` and in its place. */
static void put(const struct plait_kernels *k, enum plait_dtype payload, void *to, float *d, size_t n)
{
    if (payload == PLAIT_FLOAT32) {
        memcpy(to, d, n * sizeof *d);
        return;
    }
    k->narrow[payload](to, d, n);
    k->widen[payload](d, to, n);
}

/* The other way; room is used where the type differs. */
static const float *get(const struct plait_kernels *k, enum plait_dtype payload, const void *from, float *room,
                        size_t n)
{
    if (payload == PLAIT_FLOAT32)
        return from;
    k->widen[payload](room, from, n);
    return room;
}

void plait_elastic_subtract(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                            const float *c, size_t n)
{
    float room[PIECE];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        for (size_t i = 0; i < m; i++)
            room[i] = w[at + i] - c[at + i];
        put(k, payload, element(payload, d, at), room, m);
    }
}

void plait_elastic_give(const struct plait_kernels *k, enum plait_dtype payload, float *w, const void *d, size_t n,
                        float a)
{
    float room[PIECE];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        const float *from = get(k, payload, element(payload, d, at), room, m);
        for (size_t i = 0; i < m; i++)
            w[at + i] -= a * from[i];
    }
}

void plait_elastic_gain(const struct plait_kernels *k, enum plait_dtype payload, float *c, const void *d, size_t n,
                        float a)
{
    float room[PIECE];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        const float *from = get(k, payload, element(payload, d, at), room, m);
        for (size_t i = 0; i < m; i++)
            c[at + i] += a * from[i];
    }
}

void plait_elastic_pull(float *w, const float *c, size_t n, float a)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= a * (w[i] - c[i]);
}

void plait_elastic_meet(float *w, float *c, const float *s, size_t n, float a, float p)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= a * (w[i] - c[i]);
        c[i] += a * (s[i] - p * c[i]);
    }
}

void plait_elastic_serve_one(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w, float *c,
                             size_t n, float a)
{
    float room[PIECE];

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t m = piece(n, at);
        for (size_t i = 0; i < m; i++)
            room[i] = w[at + i] - c[at + i];
        put(k, payload, element(payload, d, at), room, m);
        for (size_t i = 0; i < m; i++)
            c[at + i] += a * room[i];
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
        put(k, payload, element(payload, d, at), room, m);
        for (size_t i = 0; i < m; i++) {
            const float f = a * room[i];
            const float now = atomic_load_explicit(&shared[at + i], memory_order_relaxed);
            atomic_store_explicit(&shared[at + i], now + f, memory_order_relaxed);
            sum += f;
        }
    }
    return sum;
}

void plait_elastic_local(float *w, float *v, const float *g, size_t n, float m, float r)
{
    for (size_t i = 0; v == NULL && i < n; i++)
        w[i] -= r * g[i];
    for (size_t i = 0; v != NULL && i < n; i++) {
        v[i] = m * v[i] - r * g[i];
        w[i] += v[i];
    }
}
