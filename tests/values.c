/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include <string.h>

double values_in(enum plait_op op, uint32_t nrank, uint32_t rank, size_t i)
{
    const double small = (double)((i * 7 + rank * 3 + i / 5) % 5) - 2;

    switch (op) {
    case PLAIT_PROD:
        return rank == i % nrank ? -2 : (rank + i) % 3 == 0 ? -1 : 1;
    case PLAIT_AVG:
        return nrank * (double)((int)((i + rank) % 3) - 1);
    case PLAIT_MIN:
    case PLAIT_MAX:
        return (double)((i * 31 + rank * 17) % 101) - 50;
    default:
        return small;
    }
}

double values_out(enum plait_op op, uint32_t nrank, size_t i)
{
    double x = values_in(op, nrank, 0, i);

    for (uint32_t r = 1; r < nrank; r++) {
        const double y = values_in(op, nrank, r, i);
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

void values_store(void *vector, enum plait_dtype type, size_t i, double x)
{
    const float f = (float)x;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if (type == PLAIT_INT32)
        ((int32_t *)vector)[i] = (int32_t)x;
    else if (type == PLAIT_INT64)
        ((int64_t *)vector)[i] = (int64_t)x;
    else if (type == PLAIT_FLOAT16)
        ((_Float16 *)vector)[i] = (_Float16)x;
    else if (type == PLAIT_FLOAT32)
        ((float *)vector)[i] = f;
    else if (type == PLAIT_FLOAT64)
        ((double *)vector)[i] = x;
    else
        ((uint16_t *)vector)[i] = (uint16_t)(bits >> 16);
}

double values_load(const void *vector, enum plait_dtype type, size_t i)
{
    uint32_t bits;
    float f;

    if (type == PLAIT_INT32)
        return ((const int32_t *)vector)[i];
    if (type == PLAIT_INT64)
        return (double)((const int64_t *)vector)[i];
    if (type == PLAIT_FLOAT16)
        return (double)((const _Float16 *)vector)[i];
    if (type == PLAIT_FLOAT32)
        return (double)((const float *)vector)[i];
    if (type == PLAIT_FLOAT64)
        return ((const double *)vector)[i];
    bits = (uint32_t)((const uint16_t *)vector)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Values repeat with this period in i: fill and compare from one period. */
static size_t period(enum plait_op op, uint32_t nrank)
{
    return op == PLAIT_PROD ? 3 * (size_t)nrank : op == PLAIT_AVG ? 3 : op == PLAIT_SUM ? 25 : 101;
}

static void repeat(void *vector, size_t size, size_t p, size_t count)
{
    for (size_t i = p; i < count; i++)
        memcpy((char *)vector + i * size, (char *)vector + (i - p) * size, size);
}

void values_fill(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank, size_t count)
{
    const size_t p = period(op, nrank);

    for (size_t i = 0; i < count && i < p; i++)
        values_store(vector, type, i, values_in(op, nrank, rank, i));
    repeat(vector, plait_dtype_size(type), p, count);
}

void values_want(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const size_t p = period(op, nrank);

    for (size_t i = 0; i < count && i < p; i++)
        values_store(vector, type, i, values_out(op, nrank, i));
    repeat(vector, plait_dtype_size(type), p, count);
}

size_t values_wrong(const void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const size_t p = period(op, nrank);
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        const double want = i < p ? values_out(op, nrank, i) : values_load(vector, type, i - p);
        wrong += !(values_load(vector, type, i) == want);
    }
    return wrong;
}
