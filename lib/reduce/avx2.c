/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2 and F16C. The compiler vectorises the loops; 16- and 8-bit floats use intrinsics. */
#include "ops.h"

#include <immintrin.h>

static inline __m256 get_f32x8(const float *p, size_t k)
{
    float part[8] = { 0 };

    if (k == 8)
        return _mm256_loadu_ps(p);
    memcpy(part, p, k * sizeof *p);
    return _mm256_loadu_ps(part);
}

static inline void put_f32x8(float *p, __m256 v, size_t k)
{
    float part[8];

    if (k == 8) {
        _mm256_storeu_ps(p, v);
    } else {
        _mm256_storeu_ps(part, v);
        memcpy(p, part, k * sizeof *p);
    }
}

static inline __m256 sum_f32x8(__m256 a, __m256 b)
{
    return _mm256_add_ps(a, b);
}

static inline __m256 prod_f32x8(__m256 a, __m256 b)
{
    return _mm256_mul_ps(a, b);
}

/* Same result as min_f32(): MINPS returns b when either operand is a NaN or both are zero. */
static inline __m256 min_f32x8(__m256 a, __m256 b)
{
    const __m256 equal = _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
    const __m256 number = _mm256_blendv_ps(_mm256_min_ps(a, b), _mm256_or_ps(a, b), equal);

    return _mm256_blendv_ps(number, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline __m256 max_f32x8(__m256 a, __m256 b)
{
    const __m256 equal = _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
    const __m256 number = _mm256_blendv_ps(_mm256_max_ps(a, b), _mm256_and_ps(a, b), equal);

    return _mm256_blendv_ps(number, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline __m256 quotient_f32x8(__m256 v, uint32_t divisor)
{
    return _mm256_div_ps(v, _mm256_set1_ps((float)divisor));
}

static inline __m256 clean_f32x8(__m256 v)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));

    return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

static inline __m128i get_u16x8(const uint16_t *p, size_t k)
{
    uint16_t part[8] = { 0 };

    if (k == 8)
        return _mm_loadu_si128((const __m128i *)(const void *)p);
    memcpy(part, p, k * sizeof *p);
    return _mm_loadu_si128((const __m128i *)(const void *)part);
}

static inline void put_u16x8(uint16_t *p, __m128i v, size_t k)
{
    uint16_t part[8];

    if (k == 8) {
        _mm_storeu_si128((__m128i *)(void *)p, v);
    } else {
        _mm_storeu_si128((__m128i *)(void *)part, v);
        memcpy(p, part, k * sizeof *p);
    }
}

static inline __m256 get_f16(const uint16_t *p, size_t k)
{
    return _mm256_cvtph_ps(get_u16x8(p, k));
}

static inline void put_f16(uint16_t *p, __m256 v, size_t k)
{
    put_u16x8(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), k);
}

static inline __m256 get_bf16(const uint16_t *p, size_t k)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(get_u16x8(p, k)), 16));
}

static inline void put_bf16(uint16_t *p, __m256 v, size_t k)
{
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i half = _mm256_srli_epi32(up, 16);

    put_u16x8(p, _mm_packus_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)), k);
}

/* See struct f8_format. */
static inline __attribute__((always_inline)) __m256 get_f8(const uint8_t *p, size_t k, const struct f8_format *f)
{
    uint8_t part[8] = { 0 };

    memcpy(part, p, k);
    const __m256i byte = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)part));
    const __m256i size = _mm256_and_si256(byte, _mm256_set1_epi32(0x7f));
    const __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(byte, size), 24);
    const __m256i shifted = _mm256_sll_epi32(size, _mm_cvtsi32_si128(f->shift));
    const __m256i behind = _mm256_add_epi32(shifted, _mm256_set1_epi32((int)bits_f32(f->least)));
    const __m256 denormal = _mm256_sub_ps(_mm256_castsi256_ps(behind), _mm256_set1_ps(f->least));
    const __m256 normal = _mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_set1_epi32((int)f->bias)));
    const __m256i few = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << (23 - f->shift)), size);
    const __m256 number = _mm256_blendv_ps(normal, denormal, _mm256_castsi256_ps(few));
    const __m256i special = _mm256_and_si256(_mm256_cmpgt_epi32(size, _mm256_set1_epi32((int)f->special - 1)),
                                             _mm256_set1_epi32(0x7f800000));

    return _mm256_or_ps(number, _mm256_castsi256_ps(_mm256_or_si256(sign, special)));
}

static inline __attribute__((always_inline)) void put_f8(uint8_t *p, __m256 v, size_t k, const struct f8_format *f)
{
    const __m128i shift = _mm_cvtsi32_si128(f->shift);
    const __m256 minus = _mm256_set1_ps(-0.0f);
    const __m256i sign = _mm256_srli_epi32(_mm256_castps_si256(_mm256_and_ps(v, minus)), 24);
    const __m256 limited = _mm256_min_ps(_mm256_andnot_ps(minus, v), _mm256_set1_ps(f->most));
    const __m256i u = _mm256_castps_si256(limited);
    const __m256i denormal = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(limited, _mm256_set1_ps(f->unit))),
                                              _mm256_set1_epi32((int)bits_f32(f->unit)));
    const __m256i odd = _mm256_and_si256(_mm256_srl_epi32(u, shift), _mm256_set1_epi32(1));
    const __m256i half = _mm256_set1_epi32((1 << (f->shift - 1)) - 1 - (int)f->bias);
    const __m256i normal = _mm256_srl_epi32(_mm256_add_epi32(_mm256_add_epi32(u, half), odd), shift);
    const __m256 few = _mm256_cmp_ps(limited, _mm256_set1_ps(f->least), _CMP_LT_OQ);
    const __m256i number = _mm256_blendv_epi8(normal, denormal, _mm256_castps_si256(few));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i byte = _mm256_blendv_epi8(_mm256_or_si256(sign, number), _mm256_set1_epi32((int)f->nan), nan);
    const __m128i two = _mm_packus_epi32(_mm256_castsi256_si128(byte), _mm256_extracti128_si256(byte, 1));
    uint8_t part[8];

    _mm_storel_epi64((__m128i *)(void *)part, _mm_packus_epi16(two, two));
    memcpy(p, part, k);
}

static inline void stream_line(unsigned char *d, const unsigned char *s)
{
    for (int i = 0; i < 64; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(d + i), _mm256_loadu_si256((const __m256i *)(const void *)(s + i)));
}

#define HALF_V            __m256
#define HALF_LANES        8
#define HALF_VN(name)     name##_f32x8
#define HALF_GET_WIDE     get_f32x8
#define HALF_PUT_WIDE     put_f32x8
#define GET_F16           get_f16
#define PUT_F16           put_f16
#define GET_BF16          get_bf16
#define PUT_BF16          put_bf16
#define GET_E4M3(p, k)    get_f8(p, k, &e4m3)
#define PUT_E4M3(p, v, k) put_f8(p, v, k, &e4m3)
#define GET_E5M2(p, k)    get_f8(p, k, &e5m2)
#define PUT_E5M2(p, v, k) put_f8(p, v, k, &e5m2)
#define STREAM_LINE       stream_line
#define STREAM_FENCE()    _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx2 = KERNELS("avx2");
