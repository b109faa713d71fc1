/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic on one element: what sum, prod, min and max mean. All kernel sets are made of these
 * or give the same bits. Include it after the file's own instruction set is fixed: every function
 * is static, so that no set can borrow another's code.
 *
 * quotient  the sum divided by the number of ranks
 * clean     any NaN becomes the quiet one without payload; applied to every result
 */
#ifndef PLAIT_LIB_REDUCE_OPS_H
#define PLAIT_LIB_REDUCE_OPS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Device code (cuda/kernels/) has the same arithmetic. */
#ifdef __CUDACC__
#define PLAIT_DEVICE __device__
#else
#define PLAIT_DEVICE
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "float and double must not have excess precision");
#endif

/* In float, which vectorises: of 8-bit numbers the quotient is at least 2^-8 away from the next integer. */
#define T              int8_t
#define U              uint8_t
#define FN(name)       name##_i8
#define QUOTIENT(v, n) (int8_t)((float)(v) / (float)(n))
#include "ops_int.h"

#define T              uint8_t
#define U              uint8_t
#define FN(name)       name##_u8
#define QUOTIENT(v, n) (uint8_t)((float)(v) / (float)(n))
#include "ops_int.h"

#define T        int32_t
#define U        uint32_t
#define FN(name) name##_i32
/* In double, which vectorises: the quotient is at least 2^-32 away from the next integer, so it is exact. */
#define QUOTIENT(v, n) (int32_t)((double)(v) / (double)(n))
#include "ops_int.h"

#define T              uint32_t
#define U              uint32_t
#define FN(name)       name##_u32
#define QUOTIENT(v, n) (uint32_t)((double)(v) / (double)(n))
#include "ops_int.h"

#define T              int64_t
#define U              uint64_t
#define FN(name)       name##_i64
#define QUOTIENT(v, n) (v) / (int64_t)(n)
#include "ops_int.h"

#define T              uint64_t
#define U              uint64_t
#define FN(name)       name##_u64
#define QUOTIENT(v, n) (v) / (uint64_t)(n)
#include "ops_int.h"

#define T        float
#define U        uint32_t
#define FN(name) name##_f32
#define QUIET    0x7fc00000
#include "ops_float.h"

#define T        double
#define U        uint64_t
#define FN(name) name##_f64
#define QUIET    0x7ff8000000000000
#include "ops_float.h"

/*
 * The 8-bit floats (OFP8) beside fp32, for conversions with masks and no branches. A denormal put behind the point of
 * `least` is found by subtracting `least`; other numbers get another exponent bias. The other way round, adding `unit`,
 * whose last bit in fp32 is the smallest denormal, rounds there; others are rounded by an integer addition. Limiting to
 * `most` first is the saturation.
 */
struct f8_format {
    float most, least, unit; /* largest finite number, smallest normal one */
    uint32_t bias;           /* difference of the exponents' biases, in place */
    int shift;               /* between the last bits of the fractions */
    uint32_t special, nan;   /* from here on: infinity and NaN; the canonical NaN */
};
PLAIT_DEVICE static const struct f8_format e4m3 = { 448, 0x1p-6f, 0x1p14f, 0x3c000000, 20, 0x7f, 0x7f };
PLAIT_DEVICE static const struct f8_format e5m2 = { 57344, 0x1p-14f, 0x1p7f, 0x38000000, 21, 0x7c, 0x7e };

#endif
