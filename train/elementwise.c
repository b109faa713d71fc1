/* SPDX-License-Identifier: BSD-3-Clause */
#include "elementwise.h"

#include <assert.h>
#include <string.h>

enum {
    CHUNK = 8192, /* elements that a thread takes at a time */
    PART = 1024   /* columns that are summed at a time */
};

/*
 * The compiler vectorises these loops for AVX-512, AVX2 and the baseline. The resolver that picks one runs too early
 * for code of the thread sanitizer.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define AVX512 "arch=x86-64-v4"
#else
#define AVX512 "arch=skylake-avx512" /* not matched by processors of other makers */
#endif
#define VECTORS __attribute__((target_clones(AVX512, "avx2", "default")))
#else
#define VECTORS
#endif

/* bf16 is the upper half of an fp32; rounding is to nearest even, and NaNs stay NaNs. */
static inline float widened(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t rounded(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

VECTORS static void add_f32(float *restrict a, const float *restrict b, const float *restrict out, size_t n)
{
    (void)out;
    for (size_t k = 0; k < n; k++)
        a[k] += b[k];
}

VECTORS static void add_bf16(uint16_t *restrict a, const uint16_t *restrict b, const uint16_t *restrict out, size_t n)
{
    (void)out;
    for (size_t k = 0; k < n; k++)
        a[k] = rounded(widened(a[k]) + widened(b[k]));
}

/* A NaN stays a NaN: x < 0 ? 0 : x. */
VECTORS static void add_relu_f32(float *restrict a, const float *restrict b, const float *restrict out, size_t n)
{
    (void)out;
    for (size_t k = 0; k < n; k++) {
        const float sum = a[k] + b[k];

        a[k] = sum < 0 ? 0 : sum;
    }
}

VECTORS static void add_relu_bf16(uint16_t *restrict a, const uint16_t *restrict b, const uint16_t *restrict out,
                                  size_t n)
{
    (void)out;
    for (size_t k = 0; k < n; k++) {
        const float sum = widened(a[k]) + widened(b[k]);

        a[k] = rounded(sum < 0 ? 0 : sum);
    }
}

VECTORS static void mask_f32(float *restrict a, const float *restrict b, const float *restrict out, size_t n)
{
    (void)b;
    for (size_t k = 0; k < n; k++)
        a[k] = out[k] > 0 ? a[k] : 0;
}

VECTORS static void mask_bf16(uint16_t *restrict a, const uint16_t *restrict b, const uint16_t *restrict out, size_t n)
{
    (void)b;
    for (size_t k = 0; k < n; k++)
        a[k] = (int16_t)out[k] > 0 ? a[k] : 0;
}

VECTORS static void add_mask_f32(float *restrict a, const float *restrict b, const float *restrict out, size_t n)
{
    for (size_t k = 0; k < n; k++)
        a[k] = out[k] > 0 ? a[k] + b[k] : 0;
}

VECTORS static void add_mask_bf16(uint16_t *restrict a, const uint16_t *restrict b, const uint16_t *restrict out,
                                  size_t n)
{
    for (size_t k = 0; k < n; k++)
        a[k] = (int16_t)out[k] > 0 ? rounded(widened(a[k]) + widened(b[k])) : 0;
}

typedef void loop_f32(float *restrict a, const float *restrict b, const float *restrict out, size_t n);
typedef void loop_bf16(uint16_t *restrict a, const uint16_t *restrict b, const uint16_t *restrict out, size_t n);

struct loops {
    loop_f32 *f32;
    loop_bf16 *bf16;
};

static void run(struct loops loops, struct elements e, unsigned threads, void *a, const void *b, const void *out)
{
    const size_t nchunk = (e.n + CHUNK - 1) / CHUNK, size = precision_size(e.precision);

#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t k = 0; k < nchunk; k++) {
        const size_t at = k * CHUNK * size, n = k + 1 < nchunk ? CHUNK : e.n - k * CHUNK;
        void *x = (char *)a + at;
        const void *y = b == NULL ? NULL : (const char *)b + at, *z = out == NULL ? NULL : (const char *)out + at;

        if (e.precision == PRECISION_BF16)
            loops.bf16(x, y, z, n);
        else
            loops.f32(x, y, z, n);
    }
}

void elements_add(struct elements e, unsigned threads, void *a, const void *b)
{
    run((struct loops){ add_f32, add_bf16 }, e, threads, a, b, NULL);
}

void elements_add_relu(struct elements e, unsigned threads, void *a, const void *b)
{
    run((struct loops){ add_relu_f32, add_relu_bf16 }, e, threads, a, b, NULL);
}

void elements_back_relu(struct elements e, unsigned threads, void *a, const void *b, const void *out)
{
    if (b == NULL)
        run((struct loops){ mask_f32, mask_bf16 }, e, threads, a, NULL, out);
    else
        run((struct loops){ add_mask_f32, add_mask_bf16 }, e, threads, a, b, out);
}

VECTORS static void round_to(uint16_t *restrict to, const float *restrict from, size_t n)
{
    for (size_t k = 0; k < n; k++)
        to[k] = rounded(from[k]);
}

/* Of some of the columns; `more` is the distance between rows. */
static void sum_rows(float *restrict to, const float *restrict from, size_t rows, size_t more, size_t n)
{
    memset(to, 0, n * sizeof *to);
    for (size_t r = 0; r < rows; r++)
        add_f32(to, from + r * more, NULL, n);
}

void elements_sum(struct device *device, const struct device_sum *s)
{
    const size_t size = precision_size(s->type);
    float sums[PART];

    (void)device;
    assert(!s->add || s->type == PRECISION_FP32);
    for (size_t at = 0, n; at < s->columns; at += n) {
        void *to = (char *)s->to + at * size;
        const float *from = s->from + at;

        n = s->columns - at < PART ? s->columns - at : PART;
        if (s->rows > 1) {
            sum_rows(sums, from, s->rows, s->columns, n);
            from = sums;
        }
        if (s->type == PRECISION_BF16)
            round_to(to, from, n);
        else if (s->add)
            add_f32(to, from, NULL, n);
        else
            memcpy(to, from, n * sizeof *from);
    }
}

void elements_multiply(struct device *device, float *to, const float *from, const double *factors, size_t n)
{
    (void)device;
    for (size_t k = 0; k < n; k++)
        to[k] = (float)(from[k] * factors[k]);
}

void elements_move(struct device *device, const struct device_move *m)
{
    (void)device;
    for (size_t k = 0; k < m->n; k++)
        m->to[k] += m->weight * (m->factor * m->towards[k] - m->to[k]);
}

/* Infinities and NaNs have all exponent bits set. */
bool elements_finite(struct elements e, const void *a)
{
    const uint16_t *half = a;
    const uint32_t *word = a;

    for (size_t k = 0; k < e.n; k++)
        if (e.precision == PRECISION_BF16 ? (half[k] & 0x7f80) == 0x7f80 : (word[k] & 0x7f800000) == 0x7f800000)
            return false;
    return true;
}
