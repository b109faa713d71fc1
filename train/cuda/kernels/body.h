/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements of the three types as float32, one or a line of 16 bytes at a time. Kernels choose type and number as
 * constants (TRAIN_BY_TYPE), so that what a thread holds is in registers.
 *
 * As in cuda/kernels/body.h, a kernel's body is compiled for the device and, for tests, for the host:
 *
 *     BODY uint32_t NAME_phases(const struct ARGS *a, const struct plait_where *at)
 *     BODY void NAME_body(const struct ARGS *a, uint32_t phase, const struct plait_where *at,
 *                         union train_shared *shared)
 *
 * The threads of a block synchronise between phases.
 */
#ifndef PLAIT_TRAIN_CUDA_BODY_H
#define PLAIT_TRAIN_CUDA_BODY_H

#include "kernels.h"

#include "../../../cuda/kernels/widths.h"

enum {
    TRAIN_MOST = 8,                  /* elements of a line */
    TRAIN_STRIDE = TRAIN_THREADS + 4 /* of rows in shared memory: columns are in other banks */
};

union train_shared { /* of a block */
    float f[2 * TRAIN_MOST * TRAIN_STRIDE];
    double d[TRAIN_MOST * TRAIN_STRIDE];
};

/* f(type, elements of a line, or 1) */
#define TRAIN_BY_TYPE(type, wide, f)                   \
    ((wide) == 0                ? f((type), 1)         \
     : (type) == PLAIT_FLOAT32  ? f(PLAIT_FLOAT32, 4)  \
     : (type) == PLAIT_BFLOAT16 ? f(PLAIT_BFLOAT16, 8) \
                                : f(PLAIT_FLOAT16, 8))

BODY uint32_t train_size(uint32_t type)
{
    return type == PLAIT_FLOAT32 ? 4 : 2;
}

/* The bits of n elements from element i on: a line, or one. */
BODY struct plait_line train_load(const void *p, uint64_t i, uint32_t type, uint32_t n)
{
    struct plait_line line = { { 0, 0, 0, 0 } };

    GLOBAL(p);
    if (n > 1)
        return plait_line_get((const char *)p + i * train_size(type));
    line.word[0] = type == PLAIT_FLOAT32 ? ((const plait_bits32 *)p)[i] : ((const plait_bits16 *)p)[i];
    return line;
}

BODY float train_float(struct plait_line line, uint32_t j, uint32_t type)
{
    return type == PLAIT_FLOAT32   ? from_bits_f32(line.word[j])
           : type == PLAIT_FLOAT16 ? plait_get_f16(plait_half_of(line.word, j))
                                   : from_bf16_f32(plait_half_of(line.word, j));
}

BODY void train_widen(float *v, struct plait_line line, uint32_t type, uint32_t n)
{
    UNROLL for (uint32_t j = 0; j < n; j++) v[j] = n == 1 ? train_float(line, 0, type) : train_float(line, j, type);
}

BODY uint32_t train_half(float v, uint32_t type)
{
    return type == PLAIT_FLOAT16 ? plait_put_f16(v) : to_bf16_f32(v);
}

/* Rounded to nearest even. */
BODY struct plait_line train_narrow(const float *v, uint32_t type, uint32_t n)
{
    struct plait_line line = { { 0, 0, 0, 0 } };

    UNROLL for (uint32_t j = 0; j < n; j++)
    {
        if (type == PLAIT_FLOAT32)
            line.word[j % 4] = bits_f32(v[j]);
        else
            plait_half_to(line.word, j, train_half(v[j], type));
    }
    return line;
}

BODY void train_put(void *p, uint64_t i, struct plait_line line, uint32_t type, uint32_t n)
{
    GLOBAL(p);
    if (n > 1)
        plait_line_put((char *)p + i * train_size(type), line);
    else if (type == PLAIT_FLOAT32)
        ((plait_bits32 *)p)[i] = line.word[0];
    else
        ((plait_bits16 *)p)[i] = (uint16_t)line.word[0];
}

BODY void train_store(void *p, uint64_t i, const float *v, uint32_t type, uint32_t n)
{
    train_put(p, i, train_narrow(v, type, n), type, n);
}

/* n numbers of float32 from element i on, aligned as their number is. */
BODY void train_floats(float *v, const float *p, uint64_t i, uint32_t n)
{
    UNROLL for (uint32_t j = 0; j < n; j += 4)
        train_widen(v + j, train_load(p, i + j, PLAIT_FLOAT32, n < 4 ? 1 : 4), PLAIT_FLOAT32, n < 4 ? 1 : 4);
}

/* Not above 0; a NaN stays a NaN. */
BODY float train_relu(float v)
{
    return v < 0 ? 0 : v;
}

/* How many of `all` units a block takes. */
BODY uint32_t train_units(uint64_t all, const struct plait_where *at)
{
    return all <= at->block ? 0 : (uint32_t)((all - at->block - 1) / at->nblock + 1);
}

BODY uint64_t train_unit(uint32_t k, const struct plait_where *at)
{
    return at->block + (uint64_t)k * at->nblock;
}

#endif
