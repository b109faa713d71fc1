/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_kernels.h"

#include "../train/cuda/kernels/host.h"

#include <reduce/ops.h>

#include <math.h>
#include <stdlib.h>

const uint32_t grids[NGRID] = { UINT32_MAX, 1, 3 };
const enum plait_dtype types[3] = { PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_FLOAT16 };

static uint32_t most_blocks;

static void launch(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    const struct plait_cuda_host *host = train_cuda_host_find(train_kernels[kernel].name);

    (void)context;
    assert_non_null(host);
    assert_int_equal(host->bytes, train_kernels[kernel].bytes);
    assert_true(blocks > 0);
    host->run(argument, blocks < most_blocks ? blocks : most_blocks);
}

struct train_launcher on_host(uint32_t most)
{
    most_blocks = most;
    return (struct train_launcher){ launch, NULL, most };
}

enum { BESIDE = 64 };

struct array array_make(enum plait_dtype type, uint64_t n, bool aligned)
{
    struct array a = { .n = n, .type = type };

    a.size = type == PLAIT_FLOAT32 ? 4 : type == PLAIT_UINT8 ? 1 : 2;
    a.memory = aligned_alloc(BESIDE, (n * a.size / BESIDE + 4) * BESIDE);
    assert_non_null(a.memory);
    memset(a.memory, 0xff, (n * a.size / BESIDE + 4) * BESIDE);
    a.at = a.memory + BESIDE + (aligned ? 0 : a.size > 1 ? 8 : 1);
    memset(a.at, 0, n * a.size);
    return a;
}

struct array array_copy(const struct array *a)
{
    struct array b = array_make(a->type, a->n, (uintptr_t)a->at % 16 == 0);

    memcpy(b.at, a->at, a->n * a->size);
    return b;
}

void array_free(struct array *a)
{
    const char *end = a->memory + (a->n * a->size / BESIDE + 4) * BESIDE;

    for (const char *p = a->memory; p < end; p++)
        if ((p < (char *)a->at || p >= (char *)a->at + a->n * a->size) && *p != (char)0xff)
            fail_msg("byte %td beside an array of %lu has changed", p - (char *)a->at, (unsigned long)a->n);
    free(a->memory);
    a->memory = NULL;
}

double array_get(const struct array *a, uint64_t k)
{
    const uint16_t half = a->size == 2 ? ((const uint16_t *)a->at)[k] : 0;

    return a->type == PLAIT_FLOAT32   ? (double)((const float *)a->at)[k]
           : a->type == PLAIT_UINT8   ? ((const uint8_t *)a->at)[k]
           : a->type == PLAIT_FLOAT16 ? (double)from_narrow_f32(half, &f16)
                                      : (double)from_bf16_f32(half);
}

void array_set(struct array *a, uint64_t k, double value)
{
    if (a->type == PLAIT_FLOAT32)
        ((float *)a->at)[k] = (float)value;
    else if (a->type == PLAIT_UINT8)
        ((uint8_t *)a->at)[k] = (uint8_t)value;
    else
        ((uint16_t *)a->at)[k] =
            (uint16_t)(a->type == PLAIT_FLOAT16 ? to_narrow_f32((float)value, &f16) : to_bf16_f32((float)value));
}

void array_set_bits(struct array *a, uint64_t k, uint32_t bits)
{
    if (a->size == 4)
        ((uint32_t *)a->at)[k] = bits;
    else
        ((uint16_t *)a->at)[k] = (uint16_t)bits;
}

/* Box and Muller's. */
double draw_normal(uint64_t *state)
{
    const double u = ((double)(random_next(state) >> 11) + 1) / 0x1p53, v = (double)(random_next(state) >> 11) / 0x1p53;

    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

void array_draw(struct array *a, uint64_t *state, double mean, double deviation)
{
    for (uint64_t k = 0; k < a->n; k++)
        array_set(a, k, mean + deviation * draw_normal(state));
}

void assert_equal_bits(const struct array *a, const struct array *b)
{
    assert_int_equal(a->n * a->size, b->n * b->size);
    assert_memory_equal(a->at, b->at, a->n * a->size);
}

double rounding(enum plait_dtype type)
{
    return type == PLAIT_FLOAT32 ? 0x1p-24 : type == PLAIT_FLOAT16 ? 0x1p-11 : 0x1p-8;
}

double rounded(enum plait_dtype type, double value)
{
    struct array one = array_make(type, 1, true);

    array_set(&one, 0, value);
    value = array_get(&one, 0);
    array_free(&one);
    return value;
}

void assert_near(const struct array *a, const double *values, double most)
{
    const double least = a->type == PLAIT_FLOAT16 ? 0x1p-25 : 0; /* half the smallest denormal */

    for (uint64_t k = 0; k < a->n; k++) {
        const double got = array_get(a, k), room = most * (1 + fabs(values[k])) + rounding(a->type) * fabs(values[k]);

        if (!(fabs(got - values[k]) <= room + least) && !(isnan(got) && isnan(values[k])) && got != values[k])
            fail_msg("element %lu of %lu, type %d: %.9g instead of %.9g", (unsigned long)k, (unsigned long)a->n,
                     (int)a->type, got, values[k]);
    }
}
