/* SPDX-License-Identifier: BSD-3-Clause */
/* float16 to and from fp32 in plain C, for any processor. */
#ifndef PLAIT_LIB_REDUCE_CONVERT_H
#define PLAIT_LIB_REDUCE_CONVERT_H

#include "ops.h"

PLAIT_DEVICE static inline uint32_t choose(uint32_t mask, uint32_t a, uint32_t b)
{
    return (a & mask) | (b & ~mask);
}

/*
 * float16 conversions use masks instead of branches, so that they vectorise. A denormal's fraction is placed in the
 * fraction of 2^-14; subtracting 2^-14 then normalises it. Other numbers only get another exponent bias.
 */
PLAIT_DEVICE static inline float from_f16(uint16_t half)
{
    const int32_t h = half & 0x7fff;
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t shifted = (uint32_t)h << 13;
    const uint32_t denormal = bits_f32(from_bits_f32(shifted + 0x38800000) - 0x1p-14f);
    const uint32_t number = choose(-(uint32_t)(h < 0x0400), denormal, shifted + 0x38000000);
    const uint32_t infinity = -(uint32_t)(h >= 0x7c00) & 0x7f800000;

    return from_bits_f32(sign | number | infinity);
}

/*
 * Rounds to nearest even. Below 2^-14 the unit of a float16 is 2^-24, which is also the last bit of 0.5f, so adding
 * 0.5f rounds there. An integer addition rounds other numbers. Its carry may reach infinity; all from 2^16 on become
 * infinity.
 */
PLAIT_DEVICE static inline uint16_t to_f16(float v)
{
    const uint32_t sign = bits_f32(v) >> 16 & 0x8000;
    const float size = from_bits_f32(bits_f32(v) & 0x7fffffff);
    const float limited = size < 0x1p16f ? size : 0x1p16f;
    const uint32_t u = bits_f32(limited);
    const uint32_t denormal = bits_f32(limited + 0.5f) - 0x3f000000;
    const uint32_t normal = (u - 0x38000000 + 0x0fff + (u >> 13 & 1)) >> 13;
    const uint32_t number = choose(-(uint32_t)(limited < 0x1p-14f), denormal, normal);
    const uint32_t nan = -(uint32_t)(v != v) & 0x0200;

    return (uint16_t)(sign | number | nan);
}

#endif
