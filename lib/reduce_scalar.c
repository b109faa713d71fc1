/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference kernels, in plain C for any processor. */
#include "reduce_ops.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Denormals are whole multiples of 2^-24; the other numbers get another exponent bias, infinities and NaN the largest exponent. */
static inline float get_f16(const uint16_t *p, size_t k)
{
    const uint32_t h = *p & 0x7fff;
    const uint32_t denormal = bits_f32((float)(int32_t)h * 0x1p-24f);
    const uint32_t normal = (h << 13) + (112u << 23);
    const uint32_t number = h < 0x0400 ? denormal : normal;

    (void)k;
    return from_bits_f32((h >= 0x7c00 ? h << 13 | 0x7f800000 : number) | (uint32_t)(*p & 0x8000) << 16);
}

/*
 * Round to nearest even. Below 2^-14 the unit of a half is 2^-24, which is also the last bit of 0.5f:
 * adding 0.5f rounds there. Others are rounded by an integer addition, whose carry may reach infinity.
 */
static inline void put_f16(uint16_t *p, float v, size_t k)
{
    const uint32_t sign = bits_f32(v) >> 16 & 0x8000;
    const uint32_t u = bits_f32(v) & 0x7fffffff;
    const uint32_t denormal = bits_f32(from_bits_f32(u) + 0.5f) - 0x3f000000;
    const uint32_t normal = (u - (112u << 23) + 0x0fff + (u >> 13 & 1)) >> 13;
    const uint32_t number = u < 0x38800000 ? denormal : normal;
    const uint32_t special = u > 0x7f800000 ? 0x7e00 : 0x7c00;

    (void)k;
    *p = (uint16_t)(sign | (u >= 0x47800000 ? special : number));
}

static inline float get_bf16(const uint16_t *p, size_t k)
{
    (void)k;
    return from_bits_f32((uint32_t)*p << 16);
}

/* The only NaN that comes here is the clean one, which the rounding leaves as it is. */
static inline void put_bf16(uint16_t *p, float v, size_t k)
{
    const uint32_t u = bits_f32(v);

    (void)k;
    *p = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void stream(void *dst, const void *src, size_t bytes)
{
#ifdef __SSE2__
    unsigned char *d = dst;
    const unsigned char *s = src;
    const size_t head = -(uintptr_t)d % 64;

    if (bytes >= 128) {
        memcpy(d, s, head);
        d += head, s += head, bytes -= head;
        for (; bytes >= 64; d += 64, s += 64, bytes -= 64)
            for (int i = 0; i < 64; i += 16)
                _mm_stream_si128((__m128i *)(void *)(d + i), _mm_loadu_si128((const __m128i *)(const void *)(s + i)));
        _mm_sfence();
    }
    if (bytes > 0)
        memcpy(d, s, bytes);
#else
    if (bytes > 0)
        memcpy(dst, src, bytes);
#endif
}

#define HALF_V float
#define HALF_LANES 1
#define HALF_VN(name) name##_f32
#include "reduce_set.h"

const struct plait_kernels plait_kernels_scalar = KERNELS("scalar");
