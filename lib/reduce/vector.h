/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16- and 8-bit floats in vector registers: the arithmetic of ops_float.h in the vector types of GCC and Clang. For the
 * sets with vector instructions. Their file defines HALF_LANES and, where the compiler finds no instruction for it,
 * HALF_SELECT(c, a, b): elements of a where c holds, else of b. It then defines loads and stores of k elements:
 * get_f32() and put_f32(), get_f16() and put_f16(), and those of integers get_u16(), put_u16(), get_u8() and put_u8().
 */
#ifndef PLAIT_LIB_REDUCE_VECTOR_H
#define PLAIT_LIB_REDUCE_VECTOR_H

#include "ops.h"

typedef float floats __attribute__((vector_size(4 * HALF_LANES)));
typedef int32_t ints __attribute__((vector_size(4 * HALF_LANES)));
typedef uint32_t words __attribute__((vector_size(4 * HALF_LANES)));

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

#define HALF_V            floats
#define HALF_VN(name)     name##_wide
#define HALF_GET_WIDE     get_f32
#define HALF_PUT_WIDE     put_f32
#define GET_F16           get_f16
#define PUT_F16           put_f16
#define GET_BF16(p, k)    from_bf16_wide(get_u16(p, k))
#define PUT_BF16(p, v, k) put_u16(p, to_bf16_wide(v), k)
#define GET_E4M3(p, k)    from_narrow_wide(get_u8(p, k), &e4m3)
#define PUT_E4M3(p, v, k) put_u8(p, to_narrow_wide(v, &e4m3), k)
#define GET_E5M2(p, k)    from_narrow_wide(get_u8(p, k), &e5m2)
#define PUT_E5M2(p, v, k) put_u8(p, to_narrow_wide(v, &e5m2), k)

#endif
