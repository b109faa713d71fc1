/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2 and F16C. The compiler vectorises the loops; 16- and 8-bit floats are in vector types. */
#include <immintrin.h>

#define HALF_LANES           8
#define HALF_SELECT(c, a, b) _mm256_blendv_ps(b, a, (__m256)(c))
#include "vector.h"

static inline floats get_f32(const float *p, size_t k)
{
    floats v = { 0 };

    memcpy(&v, p, k * sizeof *p);
    return v;
}

static inline void put_f32(float *p, floats v, size_t k)
{
    memcpy(p, &v, k * sizeof *p);
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
    if (k == 8)
        _mm_storeu_si128((__m128i *)(void *)p, v);
    else
        memcpy(p, &v, k * sizeof *p);
}

static inline floats get_f16(const uint16_t *p, size_t k)
{
    return _mm256_cvtph_ps(get_u16x8(p, k));
}

static inline void put_f16(uint16_t *p, floats v, size_t k)
{
    put_u16x8(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), k);
}

static inline words get_u16(const uint16_t *p, size_t k)
{
    return (words)_mm256_cvtepu16_epi32(get_u16x8(p, k));
}

static inline __m128i pack_u16(words v)
{
    return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
}

static inline void put_u16(uint16_t *p, words v, size_t k)
{
    put_u16x8(p, pack_u16(v), k);
}

static inline words get_u8(const uint8_t *p, size_t k)
{
    uint8_t part[8] = { 0 };

    memcpy(part, p, k);
    return (words)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)part));
}

static inline void put_u8(uint8_t *p, words v, size_t k)
{
    const __m128i bytes = _mm_packus_epi16(pack_u16(v), pack_u16(v));

    memcpy(p, &bytes, k);
}

static inline void stream_line(unsigned char *d, const unsigned char *s)
{
    for (int i = 0; i < 64; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(d + i), _mm256_loadu_si256((const __m256i *)(const void *)(s + i)));
}

#define STREAM_LINE    stream_line
#define STREAM_FENCE() _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx2 = KERNELS("avx2");
