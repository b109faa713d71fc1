/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include <pthread.h>
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

double values_in(enum plait_op op, uint32_t nrank, uint32_t rank, size_t i)
{
    const uint32_t h = mix(i, rank);

    switch (op) {
    case PLAIT_PROD:
        return (rank == mix(i, nrank) % nrank ? 2 : 1) * (h % 2 == 0 ? -1 : 1);
    case PLAIT_AVG:
        return nrank * ((double)(h % 3) - 1);
    case PLAIT_MIN:
    case PLAIT_MAX:
        return (double)(h % 101) - 50;
    default:
        return (double)(h % 5) - 2;
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

void values_fill(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank, size_t count)
{
    const size_t size = plait_dtype_size(type);

    for (size_t i = 0; i < count && i < PERIOD; i++)
        values_store(vector, type, i, values_in(op, nrank, rank, i));
    for (size_t i = PERIOD; i < count; i += PERIOD)
        memcpy((char *)vector + i * size, vector, (count - i < PERIOD ? count - i : PERIOD) * size);
}

/* One period of results, kept: every rank compares with it again and again. One number of ranks at a time. */
static const double *results(enum plait_op op, uint32_t nrank)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double kept[PLAIT_NOP][PERIOD];
    static uint32_t kept_nrank[PLAIT_NOP];

    pthread_mutex_lock(&lock);
    for (size_t i = 0; kept_nrank[op] != nrank && i < PERIOD; i++)
        kept[op][i] = values_out(op, nrank, i);
    kept_nrank[op] = nrank;
    pthread_mutex_unlock(&lock);
    return kept[op];
}

void values_want(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const double *want = results(op, nrank);

    for (size_t i = 0; i < count; i++)
        values_store(vector, type, i, want[i % PERIOD]);
}

size_t values_wrong(const void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const double *want = count >= PERIOD / 8 ? results(op, nrank) : NULL;
    size_t wrong = 0;

    for (size_t i = 0, k = 0; i < count; i++, k = k + 1 < PERIOD ? k + 1 : 0)
        wrong += !(values_load(vector, type, i) == (want != NULL ? want[k] : values_out(op, nrank, i)));
    return wrong;
}
