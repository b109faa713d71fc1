/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels for AVX-512 F, BW, DQ and VL. The compiler vectorises the loops; 16- and 8-bit floats use intrinsics.
 * The conversion of AVX512_BF16 flushes denormals, so bfloat16 uses integer arithmetic.
 */
#include "ops.h"

#include <immintrin.h>
#include <stdbool.h>

static inline __m512 get_f32x16(const float *p, size_t k)
{
    return k == 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps((__mmask16)((1u << k) - 1), p);
}

static inline void put_f32x16(float *p, __m512 v, size_t k)
{
    if (k == 16)
        _mm512_storeu_ps(p, v);
    else
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << k) - 1), v);
}

static inline __m512 sum_f32x16(__m512 a, __m512 b)
{
    return _mm512_add_ps(a, b);
}

static inline __m512 prod_f32x16(__m512 a, __m512 b)
{
    return _mm512_mul_ps(a, b);
}

/* Same result as min_f32(): MINPS returns b when either operand is a NaN or both are zero. */
static inline __m512 min_f32x16(__m512 a, __m512 b)
{
    const __mmask16 equal = _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
    const __m512 number = _mm512_mask_or_ps(_mm512_min_ps(a, b), equal, a, b);

    return _mm512_mask_mov_ps(number, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

static inline __m512 max_f32x16(__m512 a, __m512 b)
{
    const __mmask16 equal = _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
    const __m512 number = _mm512_mask_and_ps(_mm512_max_ps(a, b), equal, a, b);

    return _mm512_mask_mov_ps(number, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

static inline __m512 quotient_f32x16(__m512 v, uint32_t divisor)
{
    return _mm512_div_ps(v, _mm512_set1_ps((float)divisor));
}

static inline __m512 clean_f32x16(__m512 v)
{
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));

    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
}

static inline __m256i get_u16x16(const uint16_t *p, size_t k)
{
    return k == 16 ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                   : _mm256_maskz_loadu_epi16((__mmask16)((1u << k) - 1), p);
}

static inline void put_u16x16(uint16_t *p, __m256i v, size_t k)
{
    if (k == 16)
        _mm256_storeu_si256((__m256i *)(void *)p, v);
    else
        _mm256_mask_storeu_epi16(p, (__mmask16)((1u << k) - 1), v);
}

static inline __m512 get_f16(const uint16_t *p, size_t k)
{
    return _mm512_cvtph_ps(get_u16x16(p, k));
}

static inline void put_f16(uint16_t *p, __m512 v, size_t k)
{
    put_u16x16(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), k);
}

static inline __m512 get_bf16(const uint16_t *p, size_t k)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(get_u16x16(p, k)), 16));
}

static inline void put_bf16(uint16_t *p, __m512 v, size_t k)
{
    const __m512i u = _mm512_castps_si512(v);
    const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    const __m512i half = _mm512_mask_mov_epi32(_mm512_set1_epi32(0x7fff), odd, _mm512_set1_epi32(0x8000));
    const __m512i up = _mm512_add_epi32(u, half);

    put_u16x16(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)), k);
}

/* See struct f8_format. */
static inline __attribute__((always_inline)) __m512 get_f8(const uint8_t *p, size_t k, const struct f8_format *f)
{
    const __m128i bytes = k == 16 ? _mm_loadu_si128((const __m128i *)(const void *)p)
                                  : _mm_maskz_loadu_epi8((__mmask16)((1u << k) - 1), p);
    const __m512i byte = _mm512_cvtepu8_epi32(bytes);
    const __m512i size = _mm512_and_si512(byte, _mm512_set1_epi32(0x7f));
    const __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(byte, size), 24);
    const __m512i shifted = _mm512_sll_epi32(size, _mm_cvtsi32_si128(f->shift));
    const __m512i behind = _mm512_add_epi32(shifted, _mm512_set1_epi32((int)bits_f32(f->least)));
    const __m512 denormal = _mm512_sub_ps(_mm512_castsi512_ps(behind), _mm512_set1_ps(f->least));
    const __mmask16 few = _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(1 << (23 - f->shift)));
    const __mmask16 special = _mm512_cmpge_epi32_mask(size, _mm512_set1_epi32((int)f->special));
    const __m512i normal = _mm512_add_epi32(shifted, _mm512_set1_epi32((int)f->bias));
    const __m512i number = _mm512_mask_mov_epi32(normal, few, _mm512_castps_si512(denormal));
    const __m512i all = _mm512_mask_or_epi32(number, special, number, _mm512_set1_epi32(0x7f800000));

    return _mm512_castsi512_ps(_mm512_or_si512(all, sign));
}

static inline __attribute__((always_inline)) void put_f8(uint8_t *p, __m512 v, size_t k, const struct f8_format *f)
{
    const __m128i shift = _mm_cvtsi32_si128(f->shift);
    const __m512i bits = _mm512_castps_si512(v), minus = _mm512_set1_epi32((int)0x80000000);
    const __m512i sign = _mm512_srli_epi32(_mm512_and_si512(bits, minus), 24);
    const __m512 limited =
        _mm512_min_ps(_mm512_castsi512_ps(_mm512_andnot_si512(minus, bits)), _mm512_set1_ps(f->most));
    const __m512i u = _mm512_castps_si512(limited);
    const __m512i denormal = _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(limited, _mm512_set1_ps(f->unit))),
                                              _mm512_set1_epi32((int)bits_f32(f->unit)));
    const __m512i odd = _mm512_and_si512(_mm512_srl_epi32(u, shift), _mm512_set1_epi32(1));
    const __m512i half = _mm512_set1_epi32((1 << (f->shift - 1)) - 1 - (int)f->bias);
    const __m512i normal = _mm512_srl_epi32(_mm512_add_epi32(_mm512_add_epi32(u, half), odd), shift);
    const __mmask16 few = _mm512_cmp_ps_mask(limited, _mm512_set1_ps(f->least), _CMP_LT_OQ);
    const __m512i number = _mm512_or_si512(sign, _mm512_mask_mov_epi32(normal, few, denormal));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_mask_mov_epi32(number, nan, _mm512_set1_epi32((int)f->nan)));

    if (k == 16)
        _mm_storeu_si128((__m128i *)(void *)p, bytes);
    else
        _mm_mask_storeu_epi8(p, (__mmask16)((1u << k) - 1), bytes);
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
#define SCALED_SQUARES(name, T, get)                                                               \
    static double name(float *dst, const void *from, size_t count, float factor, bool past)        \
    {                                                                                              \
        const __m512 by = _mm512_set1_ps(factor);                                                  \
        __m512d low = _mm512_setzero_pd(), high = low;                                             \
        const T *src = from;                                                                       \
                                                                                                   \
        for (size_t i = 0; i < count; i += 16) {                                                   \
            const size_t n = count - i < 16 ? count - i : 16;                                      \
            const __m512 v = _mm512_maskz_mul_ps((__mmask16)((1u << n) - 1), get(src + i, n), by); \
            const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));                          \
            const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));                       \
            if (past)                                                                              \
                _mm512_stream_ps(dst + i, v);                                                      \
            else                                                                                   \
                put_f32x16(dst + i, v, n);                                                         \
            low = _mm512_fmadd_pd(a, a, low);                                                      \
            high = _mm512_fmadd_pd(b, b, high);                                                    \
        }                                                                                          \
        return sum_of_lanes(low, high);                                                            \
    }
SCALED_SQUARES(scaled_squares_f32, float, get_f32x16)
SCALED_SQUARES(scaled_squares_f16, uint16_t, get_f16)
SCALED_SQUARES(scaled_squares_bf16, uint16_t, get_bf16)

#define SCALED_SQUARES_KERNELS                                                      \
    {                                                                               \
        [PLAIT_FLOAT32] = scaled_squares_f32, [PLAIT_FLOAT16] = scaled_squares_f16, \
        [PLAIT_BFLOAT16] = scaled_squares_bf16                                      \
    }
#define HALF_V            __m512
#define HALF_LANES        16
#define HALF_VN(name)     name##_f32x16
#define HALF_GET_WIDE     get_f32x16
#define HALF_PUT_WIDE     put_f32x16
#define GET_F16           get_f16
#define PUT_F16           put_f16
#define GET_BF16          get_bf16
#define PUT_BF16          put_bf16
#define GET_E4M3(p, k)    get_f8(p, k, &e4m3)
#define PUT_E4M3(p, v, k) put_f8(p, v, k, &e4m3)
#define GET_E5M2(p, k)    get_f8(p, k, &e5m2)
#define PUT_E5M2(p, v, k) put_f8(p, v, k, &e5m2)
#define STREAM_LINE(d, s) _mm512_stream_si512((__m512i *)(void *)(d), _mm512_loadu_si512(s))
#define STREAM_FENCE()    _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx512 = KERNELS("avx512");
