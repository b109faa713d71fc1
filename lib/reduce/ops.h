/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic on one element: what sum, prod, min and max mean. All kernel sets are made of these
 * or give the same bits. Include it after the file's own instruction set is fixed: every function
 * is static, so that no set can borrow another's code.
 *
 * quotient  the sum divided by the number of ranks
 * clean     any NaN becomes the quiet one without payload; applied to every result
 */
#ifndef PLAIT_LIB_REDUCE_OPS_H
#define PLAIT_LIB_REDUCE_OPS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "float and double must not have excess precision");

/* int32 and int64. Overflow wraps, so sums and products are taken unsigned. */

static inline int32_t sum_i32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t prod_i32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

static inline int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* In double, which vectorises: the quotient is at least 2^-32 away from the next integer, so it is exact. */
static inline int32_t quotient_i32(int32_t v, uint32_t divisor)
{
    return (int32_t)((double)v / (double)divisor);
}

static inline int32_t clean_i32(int32_t v)
{
    return v;
}

static inline int64_t sum_i64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t prod_i64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t quotient_i64(int64_t v, uint32_t divisor)
{
    return v / (int64_t)divisor;
}

static inline int64_t clean_i64(int64_t v)
{
    return v;
}

/*
 * float32 and float64. min and max take b when the operands are equal or one is a NaN. Equal
 * operands have equal bits but for zeros, where "or" gives -0 and "and" gives +0; a NaN in a must
 * win. Written with masks, which compilers turn into MINPS and two compares.
 */

static inline uint32_t bits_f32(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

static inline float from_bits_f32(uint32_t u)
{
    float v;

    memcpy(&v, &u, sizeof v);
    return v;
}

static inline float sum_f32(float a, float b)
{
    return a + b;
}

static inline float prod_f32(float a, float b)
{
    return a * b;
}

static inline float min_f32(float a, float b)
{
    const uint32_t less = bits_f32(a < b ? a : b);
    const uint32_t zero = bits_f32(a) & -(uint32_t)(a == b);

    return a != a ? a : from_bits_f32(less | zero);
}

static inline float max_f32(float a, float b)
{
    const uint32_t more = bits_f32(a > b ? a : b);
    const uint32_t zero = bits_f32(a) | -(uint32_t)(a != b);

    return a != a ? a : from_bits_f32(more & zero);
}

static inline float quotient_f32(float v, uint32_t divisor)
{
    return v / (float)divisor;
}

static inline float clean_f32(float v)
{
    return v != v ? from_bits_f32(0x7fc00000) : v;
}

static inline uint64_t bits_f64(double v)
{
    uint64_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

static inline double from_bits_f64(uint64_t u)
{
    double v;

    memcpy(&v, &u, sizeof v);
    return v;
}

static inline double sum_f64(double a, double b)
{
    return a + b;
}

static inline double prod_f64(double a, double b)
{
    return a * b;
}

static inline double min_f64(double a, double b)
{
    const uint64_t less = bits_f64(a < b ? a : b);
    const uint64_t zero = bits_f64(a) & -(uint64_t)(a == b);

    return a != a ? a : from_bits_f64(less | zero);
}

static inline double max_f64(double a, double b)
{
    const uint64_t more = bits_f64(a > b ? a : b);
    const uint64_t zero = bits_f64(a) | -(uint64_t)(a != b);

    return a != a ? a : from_bits_f64(more & zero);
}

static inline double quotient_f64(double v, uint32_t divisor)
{
    return v / (double)divisor;
}

static inline double clean_f64(double v)
{
    return v != v ? from_bits_f64(0x7ff8000000000000) : v;
}

#endif
