/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels for AVX-512 F, BW, DQ and VL. The compiler vectorises the loops; 16- and 8-bit floats are in vector types.
 * The conversion of AVX512_BF16 flushes denormals, so bfloat16 uses integer arithmetic.
 */
#include <immintrin.h>

#define HALF_LANES       16
#define HALF_BITS        __m256i
#define HALF_FROM_F16(v) _mm512_cvtph_ps(v)
#define HALF_TO_F16(v)   _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define HALF_FROM_U16(v) _mm512_cvtepu16_epi32(v)
#define HALF_TO_U16(v)   _mm512_cvtepi32_epi16(v)
#define HALF_FROM_U8(v)  _mm512_cvtepu8_epi32(v)
#define HALF_TO_U8(v)    _mm512_cvtepi32_epi8(v)
#include "vector.h"

#define STREAM_LINE(d, s) _mm512_stream_si512((__m512i *)(void *)(d), _mm512_loadu_si512(s))
#define STREAM_FENCE()    _mm_sfence()
#include "set.h"

const struct plait_kernels plait_kernels_avx512 = KERNELS("avx512");
