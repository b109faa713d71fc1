/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One set of kernels. Each instruction set has a file that defines macros and then includes this header:
 * HALF_V and so on, the template's parameters for 16- and 8-bit floats; optionally STREAM_LINE(d, s), which stores a
 * cache line of 64 bytes with streaming stores, and STREAM_FENCE(). KERNELS(name) is the set. The
 * scalar file is the reference.
 */
#ifndef PLAIT_LIB_REDUCE_SET_H
#define PLAIT_LIB_REDUCE_SET_H

#include "ops.h"
#include "reduce.h"

#include <assert.h>

#define EACH "tmpl.h"
#include "integers.h"

#define T        float
#define FN(name) name##_f32
#include "tmpl.h"

#define T        double
#define FN(name) name##_f64
#include "tmpl.h"

#define T        uint16_t
#define FN(name) name##_f16
#define GET      GET_F16
#define PUT      PUT_F16
#include "tmpl.h"

#define T        uint16_t
#define FN(name) name##_bf16
#define GET      GET_BF16
#define PUT      PUT_BF16
#include "tmpl.h"

#define T        uint8_t
#define FN(name) name##_e4m3
#define GET      GET_E4M3
#define PUT      PUT_E4M3
#include "tmpl.h"

#define T        uint8_t
#define FN(name) name##_e5m2
#define GET      GET_E5M2
#define PUT      PUT_E5M2
#include "tmpl.h"

static void copy(void *dst, const void *src, size_t bytes)
{
    enum { LINE = 64 };
    unsigned char *d = dst, line[LINE];
    const unsigned char *s = src;

    for (; bytes >= LINE; d += LINE, s += LINE, bytes -= LINE) {
        memcpy(line, s, LINE); /* a constant size, so a few vector moves */
        memcpy(d, line, LINE);
    }
    memcpy(d, s, bytes);
}

static void stream(void *dst, const void *src, size_t bytes)
{
    unsigned char *d = dst;
    const unsigned char *s = src;

#ifdef STREAM_LINE
    if (bytes >= 128) {
        const size_t head = -(uintptr_t)d % 64;
        memcpy(d, s, head);
        d += head, s += head, bytes -= head;
        for (; bytes >= 64; d += 64, s += 64, bytes -= 64)
            STREAM_LINE(d, s);
    }
#endif
    if (bytes > 0)
        memcpy(d, s, bytes);
}

static void stream_end(void)
{
#ifdef STREAM_FENCE
    STREAM_FENCE();
#endif
}

/* 16 running sums, added in pairs, give the same bits for any vector width. Squares of floats are exact in double. */
static double squares(const float *src, size_t count)
{
    double sum[16] = { 0 };
    size_t i = 0;

    for (; i + 16 <= count; i += 16)
        for (unsigned k = 0; k < 16; k++)
            sum[k] += (double)src[i + k] * (double)src[i + k];
    for (unsigned k = 0; i < count; i++, k++)
        sum[k] += (double)src[i] * (double)src[i];
    for (unsigned half = 8; half > 0; half /= 2)
        for (unsigned k = 0; k < half; k++)
            sum[k] += sum[k + half];
    return sum[0];
}

static void update(float *restrict w, float *restrict v, const float *restrict g, size_t count,
                   const struct plait_update *update)
{
    const struct plait_update u = *update;

#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const float d = u.gradient * g[i] + u.decay * w[i];
        v[i] = u.momentum * v[i] + d;
        w[i] -= u.rate * (u.nesterov ? u.momentum * v[i] + d : v[i]);
    }
}

#define EACH_TYPE(X) \
    X(INT8, i8)      \
    X(UINT8, u8)     \
    X(INT32, i32) X(UINT32, u32) X(INT64, i64) X(UINT64, u64) X(FLOAT32, f32) X(FLOAT64, f64) EACH_NARROW(X)
#define EACH_NARROW(X) X(FLOAT16, f16) X(BFLOAT16, bf16) X(FLOAT8E4M3, e4m3) X(FLOAT8E5M2, e5m2)
#define REDUCES(TYPE, type)                               \
    [PLAIT_##TYPE] = { [PLAIT_SUM] = reduce_sum_##type,   \
                       [PLAIT_PROD] = reduce_prod_##type, \
                       [PLAIT_MAX] = reduce_max_##type,   \
                       [PLAIT_MIN] = reduce_min_##type,   \
                       [PLAIT_AVG] = reduce_sum_##type },
#define SCALES(TYPE, type)  [PLAIT_##TYPE] = scale_##type,
#define WIDENS(TYPE, type)  [PLAIT_##TYPE] = widen_##type,
#define NARROWS(TYPE, type) [PLAIT_##TYPE] = narrow_##type,
#define KERNELS(name)                                                                                         \
    {                                                                                                         \
        .isa = name, .reduce = { EACH_TYPE(REDUCES) }, .scale = { EACH_TYPE(SCALES) },                        \
        .widen = { EACH_NARROW(WIDENS) }, .narrow = { EACH_NARROW(NARROWS) }, .copy = copy, .stream = stream, \
        .stream_end = stream_end, .squares = squares, .update = update                                        \
    }

#endif
