/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reductions mean, written as plainly as possible and without the library's kernels. An
 * element is 64 bits; partial results of 16- and 8-bit floats are fp32.
 */
#ifndef PLAIT_TESTS_REDUCE_REFERENCE_H
#define PLAIT_TESTS_REDUCE_REFERENCE_H

#include <plait/coll.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Elements as bits. */

static inline float f32(uint64_t bits)
{
    const uint32_t u = (uint32_t)bits;
    float v;

    memcpy(&v, &u, sizeof v);
    return v;
}

static inline double f64(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint64_t of_f32(float v)
{
    uint32_t u;

    if (isnan(v))
        return 0x7fc00000;
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline uint64_t of_f64(double v)
{
    uint64_t u;

    if (isnan(v))
        return UINT64_C(0x7ff8000000000000);
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline uint64_t element(const void *array, enum plait_dtype type, size_t i)
{
    uint64_t bits = 0;
    const size_t size = plait_dtype_size(type);

    memcpy(&bits, (const char *)array + i * size, size); /* little-endian, as are the supported processors */
    return bits;
}

static inline void set_element(void *array, enum plait_dtype type, size_t i, uint64_t bits)
{
    memcpy((char *)array + i * plait_dtype_size(type), &bits, plait_dtype_size(type));
}

static inline bool is_narrow(enum plait_dtype type)
{
    return type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT8E4M3 || type == PLAIT_FLOAT8E5M2;
}

/* The formats of 16- and 8-bit floats by their definition: digits after the point, smallest and greatest exponent. */
struct format {
    int digits, least, greatest;
};

static inline struct format format_of(enum plait_dtype type)
{
    switch ((int)type) {
    case PLAIT_FLOAT16:
        return (struct format){ 10, -14, 15 };
    case PLAIT_BFLOAT16:
        return (struct format){ 7, -126, 127 };
    case PLAIT_FLOAT8E4M3:
        return (struct format){ 3, -6, 8 };
    default:
        return (struct format){ 2, -14, 15 };
    }
}

static inline uint64_t narrow_sign(enum plait_dtype type)
{
    return plait_dtype_size(type) == 1 ? 0x80 : 0x8000;
}

static inline double narrow_value(enum plait_dtype type, uint64_t bits)
{
    const struct format f = format_of(type);
    const int fraction = (int)(bits & ((1u << f.digits) - 1));
    const int exponent = (int)(bits & (narrow_sign(type) - 1)) >> f.digits;
    const double sign = (bits & narrow_sign(type)) != 0 ? -1.0 : 1.0;

    if (type == PLAIT_FLOAT8E4M3 && exponent == 15 && fraction == 7)
        return NAN; /* the only one; no infinities */
    if (type != PLAIT_FLOAT8E4M3 && exponent == f.greatest - f.least + 2)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, f.least - f.digits);
    return sign * ldexp(fraction + (1 << f.digits), f.least + exponent - 1 - f.digits);
}

/* By search: the nearest finite value, of two the one whose last bit is 0; so what is too large saturates. */
static inline uint64_t byte_bits(enum plait_dtype type, double v)
{
    static _Thread_local double table[2][0x80]; /* ascending */
    double *values = table[type == PLAIT_FLOAT8E4M3];
    uint64_t below = 0, above = type == PLAIT_FLOAT8E4M3 ? 0x7e : 0x7b;

    for (uint64_t bits = 0; values[1] == 0 && bits < 0x80; bits++)
        values[0x7f - bits] = narrow_value(type, 0x7f - bits);
    if (isnan(v))
        return type == PLAIT_FLOAT8E4M3 ? 0x7f : 0x7e;
    while (above - below > 1) {
        const uint64_t middle = (below + above) / 2;
        if (values[middle] <= fabs(v))
            below = middle;
        else
            above = middle;
    }
    const double down = fabs(v) - values[below], up = values[above] - fabs(v);
    return (signbit(v) ? 0x80 : 0) | (down < up || (down == up && below % 2 == 0) ? below : above);
}

static inline uint64_t narrow_bits(enum plait_dtype type, double v)
{
    const struct format f = format_of(type);
    const uint64_t sign = signbit(v) ? 0x8000 : 0;
    const uint64_t infinity = (uint64_t)(f.greatest - f.least + 2) << f.digits;
    int exponent;
    double units;

    if (plait_dtype_size(type) == 1)
        return byte_bits(type, v);
    if (isnan(v))
        return infinity | 1u << (f.digits - 1);
    if (isinf(v))
        return sign | infinity;
    if (v == 0)
        return sign;
    (void)frexp(v, &exponent);
    if (--exponent < f.least)
        exponent = f.least;
    units = nearbyint(ldexp(fabs(v), f.digits - exponent)); /* to nearest, ties to even */
    if (units >= ldexp(1, f.digits + 1)) {
        units /= 2;
        exponent++;
    }
    if (exponent > f.greatest)
        return sign | infinity;
    if (units < ldexp(1, f.digits))
        return sign | (uint64_t)units;
    return sign | (uint64_t)(exponent - f.least + 1) << f.digits | ((uint64_t)units - (UINT64_C(1) << f.digits));
}

/* The reference, on fp32 for 16- and 8-bit floats. */

static inline double pick(enum plait_op op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return (op == PLAIT_MIN) == (signbit(a) != 0) ? a : b;
    return (op == PLAIT_MIN) == (a < b) ? a : b;
}

static inline double combine_f64(enum plait_op op, double a, double b)
{
    return op == PLAIT_SUM ? a + b : op == PLAIT_PROD ? a * b : pick(op, a, b);
}

static inline bool is_integer(enum plait_dtype type)
{
    return type <= PLAIT_UINT64;
}

static inline bool is_signed(enum plait_dtype type)
{
    return type == PLAIT_INT8 || type == PLAIT_INT32 || type == PLAIT_INT64;
}

/* An integer in 128 bits, which hold all types. */
static inline __int128 integer(enum plait_dtype type, uint64_t bits)
{
    const unsigned unused = 64 - 8 * (unsigned)plait_dtype_size(type);

    return is_signed(type) ? (__int128)((int64_t)(bits << unused) >> unused) : (__int128)(bits << unused >> unused);
}

static inline uint64_t of_integer(enum plait_dtype type, __int128 v)
{
    return (uint64_t)v & UINT64_MAX >> (64 - 8 * plait_dtype_size(type));
}

static inline uint64_t combine_integer(enum plait_dtype type, enum plait_op op, uint64_t x, uint64_t y)
{
    const __int128 a = integer(type, x), b = integer(type, y);

    if (op == PLAIT_SUM)
        return of_integer(type, a + b);
    if (op == PLAIT_PROD)
        return of_integer(type, (__int128)(x * y)); /* the low bits are the same */
    return of_integer(type, (op == PLAIT_MIN) == (a < b) ? a : b);
}

static inline uint64_t combine(enum plait_dtype type, enum plait_op op, uint64_t a, uint64_t b)
{
    if (is_integer(type))
        return combine_integer(type, op, a, b);
    if (type == PLAIT_FLOAT64)
        return of_f64(combine_f64(op, f64(a), f64(b)));
    return of_f32((float)combine_f64(op, f32(a), f32(b))); /* double holds what one float rounding needs */
}

static inline uint64_t divide(enum plait_dtype type, uint64_t a, uint32_t divisor)
{
    if (is_integer(type))
        return of_integer(type, integer(type, a) / divisor);
    if (type == PLAIT_FLOAT64)
        return of_f64(f64(a) / divisor);
    return of_f32(f32(a) / (float)divisor);
}

static inline uint64_t expression(enum plait_dtype type, enum plait_op op, const uint64_t *x, uint32_t n)
{
    uint32_t m = 1;

    if (n == 1)
        return x[0];
    while (2 * m < n)
        m *= 2;
    return combine(type, op, expression(type, op, x, m), expression(type, op, x + m, n - m));
}

#endif
