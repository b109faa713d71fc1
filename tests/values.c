/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define PERIOD 65521 /* a prime; values repeat with it, so that one period serves to fill and compare the rest */

/* Not the same for two ranks nor for two places: a contribution counted twice or a block moved elsewhere shows. */
static uint32_t mix(size_t i, uint32_t rank)
{
    uint32_t h = (uint32_t)(i % PERIOD) * 0x9e3779b9 ^ (rank + 1) * 0x85ebca6b;

    h = (h ^ h >> 16) * 0x7feb352d;
    h = (h ^ h >> 15) * 0x846ca68b;
    return h ^ h >> 16;
}

static bool is_unsigned(enum plait_dtype type)
{
    return type == PLAIT_UINT8 || type == PLAIT_UINT32 || type == PLAIT_UINT64;
}

/* Of 8-bit types, whose integers from 8 up are not all exact: few ranks hold anything. */
static double small_in(enum plait_op op, uint32_t nrank, uint32_t rank, size_t i)
{
    const uint32_t h = mix(i, rank), first = mix(i, nrank) % nrank;
    const bool exact = nrank <= 8 || (nrank & (nrank - 1)) == 0;

    switch (op) {
    case PLAIT_AVG:
        return rank == first && exact ? nrank * ((double)(h % 3) - 1) : 0;
    case PLAIT_MIN:
    case PLAIT_MAX:
        return (double)(h % 17) - 8;
    default:
        return (rank + nrank - first) % nrank < 4 ? (double)(h % 5) - 2 : 0;
    }
}

static double large_in(enum plait_op op, uint32_t nrank, uint32_t rank, size_t i)
{
    const uint32_t h = mix(i, rank);

    switch (op) {
    case PLAIT_AVG:
        return nrank * ((double)(h % 3) - 1);
    case PLAIT_MIN:
    case PLAIT_MAX:
        return (double)(h % 101) - 50;
    default:
        return (double)(h % 5) - 2;
    }
}

/* Element i of rank's input. */
static double value_in(enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank, size_t i)
{
    if (op == PLAIT_PROD)
        return (rank == mix(i, nrank) % nrank ? 2 : 1) * (mix(i, rank) % 2 == 0 ? -1 : 1);
    const double x = plait_dtype_size(type) == 1 ? small_in(op, nrank, rank, i) : large_in(op, nrank, rank, i);
    return is_unsigned(type) && op != PLAIT_SUM ? fabs(x) : x; /* sums wrap */
}

/* Element i of the result. */
static double value_out(enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t i)
{
    double x = value_in(type, op, nrank, 0, i);

    for (uint32_t r = 1; r < nrank; r++) {
        const double y = value_in(type, op, nrank, r, i);
        if (op == PLAIT_PROD)
            x *= y;
        else if (op == PLAIT_MIN)
            x = y < x ? y : x;
        else if (op == PLAIT_MAX)
            x = y > x ? y : x;
        else
            x += y;
    }
    return op == PLAIT_AVG ? x / nrank : x;
}

/* The bits of a small number in an 8-bit float of `digits` after the point and this bias. */
static uint8_t byte_of(double x, int digits, int bias)
{
    int exponent;
    const double fraction = frexp(fabs(x), &exponent); /* 0.5 .. 1 */

    if (x == 0)
        return 0;
    return (uint8_t)((x < 0 ? 0x80 : 0) + ((exponent - 1 + bias) << digits) +
                     (int)((2 * fraction - 1) * (1 << digits)));
}

void values_store(void *vector, enum plait_dtype type, size_t i, double x)
{
    const float f = (float)x;
    const int64_t whole = (int64_t)x;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if (type <= PLAIT_UINT64)
        memcpy((char *)vector + i * plait_dtype_size(type), &whole, plait_dtype_size(type)); /* little-endian; wraps */
    else if (type == PLAIT_FLOAT16)
        ((_Float16 *)vector)[i] = (_Float16)x;
    else if (type == PLAIT_FLOAT32)
        ((float *)vector)[i] = f;
    else if (type == PLAIT_FLOAT64)
        ((double *)vector)[i] = x;
    else if (type == PLAIT_BFLOAT16)
        ((uint16_t *)vector)[i] = (uint16_t)(bits >> 16);
    else
        ((uint8_t *)vector)[i] = type == PLAIT_FLOAT8E4M3 ? byte_of(x, 3, 7) : byte_of(x, 2, 15);
}

void values_fill(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank, size_t count)
{
    const size_t size = plait_dtype_size(type);

    for (size_t i = 0; i < count && i < PERIOD; i++)
        values_store(vector, type, i, value_in(type, op, nrank, rank, i));
    for (size_t i = PERIOD; i < count; i += PERIOD)
        memcpy((char *)vector + i * size, vector, (count - i < PERIOD ? count - i : PERIOD) * size);
}

/*
 * The first `count` results, at most one period, kept and added to: every rank compares with them again and again. One
 * number of ranks at a time.
 */
static const char *results(enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        uint32_t nrank;
        size_t n;
        char value[PERIOD * 8];
    } all[PLAIT_NDTYPE][PLAIT_PREMULSUM], *kept;

    pthread_mutex_lock(&lock);
    kept = &all[type][op];
    if (kept->nrank != nrank)
        kept->n = 0;
    kept->nrank = nrank;
    for (; kept->n < count && kept->n < PERIOD; kept->n++)
        values_store(kept->value, type, kept->n, value_out(type, op, nrank, kept->n));
    pthread_mutex_unlock(&lock);
    return all[type][op].value;
}

void values_prepare(enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    (void)results(type, op, nrank, count);
}

void values_want(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const char *want = results(type, op, nrank, count);
    const size_t size = plait_dtype_size(type);

    for (size_t i = 0; i < count; i += PERIOD)
        memcpy((char *)vector + i * size, want, (count - i < PERIOD ? count - i : PERIOD) * size);
}

/* Sums of which no order is meant may be -0. */
static bool same(const char *have, const char *want, enum plait_dtype type)
{
    static const unsigned char zero[8];
    const size_t size = plait_dtype_size(type);
    unsigned char bits[8];

    if (memcmp(have, want, size) == 0)
        return true;
    memcpy(bits, have, size);
    bits[size - 1] &= 0x7f;
    return type >= PLAIT_FLOAT16 && memcmp(want, zero, size) == 0 && memcmp(bits, zero, size) == 0;
}

size_t values_wrong(const void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const char *want = results(type, op, nrank, count);
    const size_t size = plait_dtype_size(type);
    size_t wrong = 0;

    for (size_t at = 0; at < count; at += PERIOD) {
        const char *have = (const char *)vector + at * size;
        const size_t n = count - at < PERIOD ? count - at : PERIOD;
        if (memcmp(have, want, n * size) == 0)
            continue;
        for (size_t i = 0; i < n; i++)
            wrong += !same(have + i * size, want + i * size, type);
    }
    return wrong;
}
