/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels for AVX-512 F, BW, DQ and VL. The compiler vectorises the loops; 16- and 8-bit floats are in vector types.
 * The conversion of AVX512_BF16 flushes denormals, so bfloat16 uses integer arithmetic.
 */
#include <immintrin.h>

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

#define STREAM_LINE(d, s) _mm512_stream_si512((__m512i *)(void *)(d), _mm512_loadu_si512(s))
#define STREAM_FENCE()    _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx512 = KERNELS("avx512");
