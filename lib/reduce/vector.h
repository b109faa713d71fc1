/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16- and 8-bit floats in vector registers: the arithmetic of ops_float.h in the vector types of GCC and Clang. For the
 * sets with vector instructions. Their file defines HALF_LANES; HALF_BITS, a register of as many 16-bit numbers;
 * HALF_FROM_F16(v), HALF_TO_F16(v), and the same for U16 and U8, numbers that are widened to 32 bits and fit when they
 * are narrowed; and where the compiler finds no instruction for it, HALF_SELECT(c, a, b): elements of a where c holds,
 * else of b.
 */
#ifndef PLAIT_LIB_REDUCE_VECTOR_H
#define PLAIT_LIB_REDUCE_VECTOR_H

#include "ops.h"

typedef float floats __attribute__((vector_size(4 * HALF_LANES)));
typedef int32_t ints __attribute__((vector_size(4 * HALF_LANES)));
typedef uint32_t words __attribute__((vector_size(4 * HALF_LANES)));
typedef long long integers __attribute__((vector_size(4 * HALF_LANES))); /* of any elements, as intrinsics take them */

#ifndef HALF_SELECT
#define HALF_SELECT(c, a, b) ((floats)(((ints)(a) & (c)) | ((ints)(b) & ~(c))))
#endif

#define T               floats
#define E               float
#define U               words
#define S               ints
#define FN(name)        name##_wide
#define QUIET           0x7fc00000
#define ALL(x)          ((words){ 0 } + (x))
#define MASK(c)         ((words)(c))
#define SELECT(c, a, b) HALF_SELECT(c, a, b)
#define CHOOSE(m, a, b) ((words)HALF_SELECT((ints)(m), (floats)(a), (floats)(b)))
#define NARROW
#include "ops_float.h"

/* Loads and stores of k elements. A memcpy() of all lanes is one instruction. */

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

static inline HALF_BITS get_u16(const uint16_t *p, size_t k)
{
    HALF_BITS v = { 0 };

    memcpy(&v, p, k * sizeof *p);
    return v;
}

static inline void put_u16(uint16_t *p, HALF_BITS v, size_t k)
{
    memcpy(p, &v, k * sizeof *p);
}

static inline words get_u8(const uint8_t *p, size_t k)
{
    __m128i v = { 0 };

    memcpy(&v, p, k);
    return (words)HALF_FROM_U8(v);
}

static inline void put_u8(uint8_t *p, words w, size_t k)
{
    const __m128i v = HALF_TO_U8((integers)w);

    memcpy(p, &v, k);
}

#define HALF_V            floats
#define HALF_VN(name)     name##_wide
#define HALF_GET_WIDE     get_f32
#define HALF_PUT_WIDE     put_f32
#define GET_F16(p, k)     HALF_FROM_F16(get_u16(p, k))
#define PUT_F16(p, v, k)  put_u16(p, HALF_TO_F16(v), k)
#define GET_BF16(p, k)    from_bf16_wide((words)HALF_FROM_U16(get_u16(p, k)))
#define PUT_BF16(p, v, k) put_u16(p, HALF_TO_U16((integers)to_bf16_wide(v)), k)
#define GET_E4M3(p, k)    from_narrow_wide(get_u8(p, k), &e4m3)
#define PUT_E4M3(p, v, k) put_u8(p, to_narrow_wide(v, &e4m3), k)
#define GET_E5M2(p, k)    from_narrow_wide(get_u8(p, k), &e5m2)
#define PUT_E5M2(p, v, k) put_u8(p, to_narrow_wide(v, &e5m2), k)

#endif
