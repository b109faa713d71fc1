/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels for AVX-512 F, BW, DQ and VL. The compiler vectorises the loops; 16- and 8-bit floats are in vector types.
 * The conversion of AVX512_BF16 flushes denormals, so bfloat16 uses integer arithmetic.
 */
#include <immintrin.h>
#include <stdbool.h>

#define HALF_LANES 16
#include "vector.h"

/* The first k of 16 lanes. */
static inline __mmask16 first(size_t k)
{
    return (__mmask16)((1u << k) - 1);
}

static inline floats get_f32(const float *p, size_t k)
{
    return _mm512_maskz_loadu_ps(first(k), p);
}

static inline void put_f32(float *p, floats v, size_t k)
{
    _mm512_mask_storeu_ps(p, first(k), v);
}

static inline __m256i get_u16x16(const uint16_t *p, size_t k)
{
    return _mm256_maskz_loadu_epi16(first(k), p);
}

static inline void put_u16x16(uint16_t *p, __m256i v, size_t k)
{
    _mm256_mask_storeu_epi16(p, first(k), v);
}

static inline floats get_f16(const uint16_t *p, size_t k)
{
    return _mm512_cvtph_ps(get_u16x16(p, k));
}

static inline void put_f16(uint16_t *p, floats v, size_t k)
{
    put_u16x16(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), k);
}

static inline words get_u16(const uint16_t *p, size_t k)
{
    return (words)_mm512_cvtepu16_epi32(get_u16x16(p, k));
}

static inline void put_u16(uint16_t *p, words v, size_t k)
{
    put_u16x16(p, _mm512_cvtepi32_epi16((__m512i)v), k);
}

static inline words get_u8(const uint8_t *p, size_t k)
{
    return (words)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(k), p));
}

static inline void put_u8(uint8_t *p, words v, size_t k)
{
    _mm_mask_storeu_epi8(p, first(k), _mm512_cvtepi32_epi8((__m512i)v));
}

/* Adds the 16 running sums in the order of squares(). */
static inline double sum_of_lanes(__m512d low, __m512d high)
{
    const __m512d eight = _mm512_add_pd(low, high);
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* FMA gives the same bits as multiply and add, since the square of a float is exact in double. */
#define SCALED_SQUARES(name, T, GET)                                                        \
    static double name(float *dst, const void *from, size_t count, float factor, bool past) \
    {                                                                                       \
        const __m512 by = _mm512_set1_ps(factor);                                           \
        __m512d low = _mm512_setzero_pd(), high = low;                                      \
        const T *src = from;                                                                \
                                                                                            \
        for (size_t i = 0; i < count; i += 16) {                                            \
            const size_t n = count - i < 16 ? count - i : 16;                               \
            const __m512 v = _mm512_maskz_mul_ps(first(n), GET(src + i, n), by);            \
            const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));                   \
            const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));                \
            if (past)                                                                       \
                _mm512_stream_ps(dst + i, v);                                               \
            else                                                                            \
                put_f32(dst + i, v, n);                                                     \
            low = _mm512_fmadd_pd(a, a, low);                                               \
            high = _mm512_fmadd_pd(b, b, high);                                             \
        }                                                                                   \
        return sum_of_lanes(low, high);                                                     \
    }
SCALED_SQUARES(scaled_squares_f32, float, get_f32)
SCALED_SQUARES(scaled_squares_f16, uint16_t, get_f16)
SCALED_SQUARES(scaled_squares_bf16, uint16_t, GET_BF16)

#define STREAM_LINE(d, s) _mm512_stream_si512((__m512i *)(void *)(d), _mm512_loadu_si512(s))
#define STREAM_FENCE()    _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx512 =
    KERNELS("avx512", .scale_and_square = { [PLAIT_FLOAT32] = scaled_squares_f32,
                                            [PLAIT_FLOAT16] = scaled_squares_f16,
                                            [PLAIT_BFLOAT16] = scaled_squares_bf16 });
