/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2 and F16C. The compiler vectorises the loops; 16- and 8-bit floats are in vector types. */
#include <immintrin.h>

#define HALF_LANES           8
#define HALF_SELECT(c, a, b) _mm256_blendv_ps(b, a, (__m256)(c))
#define HALF_BITS            __m128i
#define HALF_FROM_F16(v)     _mm256_cvtph_ps(v)
#define HALF_TO_F16(v)       _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define HALF_FROM_U16(v)     _mm256_cvtepu16_epi32(v)
#define HALF_TO_U16(v)       _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1))
#define HALF_FROM_U8(v)      _mm256_cvtepu8_epi32(v)
#define HALF_TO_U8(v)        _mm_packus_epi16(HALF_TO_U16(v), HALF_TO_U16(v))
#include "vector.h"

static inline void stream_line(unsigned char *d, const unsigned char *s)
{
    for (int i = 0; i < 64; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(d + i), _mm256_loadu_si256((const __m256i *)(const void *)(s + i)));
}

#define STREAM_LINE    stream_line
#define STREAM_FENCE() _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx2 = KERNELS("avx2");
