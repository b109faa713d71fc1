/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic on one element: the definitions of sum, prod, min and max. All kernel sets use these functions or give
 * the same bits. Include this header after the file's own instruction set is fixed. Every function is static, so that
 * no set uses another set's code.
 *
 * quotient  the sum divided by the number of ranks
 * clean     turns any NaN into the quiet NaN without payload; applied to every result
 */
#ifndef PLAIT_LIB_REDUCE_OPS_H
#define PLAIT_LIB_REDUCE_OPS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Device code (cuda/kernels/) uses the same arithmetic. */
#ifdef __CUDACC__
#define PLAIT_DEVICE __device__
#else
#define PLAIT_DEVICE
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "float and double must not have excess precision");
#endif

#define EACH "ops_int.h"
#include "integers.h"

/*
 * Parameters of float16 and of the 8-bit floats (OFP8), for conversions with masks instead of branches. To fp32: a
 * denormal's fraction is placed in the fraction of `least`; subtracting `least` then normalises it. Other numbers get
 * another exponent bias. From fp32: the last bit of `unit` is the smallest denormal, so adding `unit` rounds denormals.
 * An integer addition rounds other numbers. Values are first limited to `most`.
 */
struct narrow_format {
    float most;            /* largest finite number; of a type with infinity, the smallest that becomes it */
    float least;           /* smallest normal number */
    float unit;            /* its last bit is the smallest denormal number */
    uint32_t bias;         /* difference of the exponent biases, at the exponent's place in fp32 */
    int shift;             /* fraction bits of fp32 beyond those of this type */
    int left;              /* 32 minus the bits of this type */
    uint32_t special, nan; /* lowest encoding of infinity or NaN; the canonical NaN */
};
PLAIT_DEVICE static const struct narrow_format f16 = { 0x1p16f, 0x1p-14f, 0x1p-1f, 0x38000000, 13, 16, 0x7c00, 0x7e00 };
PLAIT_DEVICE static const struct narrow_format e4m3 = { 448, 0x1p-6f, 0x1p14f, 0x3c000000, 20, 24, 0x7f, 0x7f };
PLAIT_DEVICE static const struct narrow_format e5m2 = { 57344, 0x1p-14f, 0x1p7f, 0x38000000, 21, 24, 0x7c, 0x7e };

#define T        float
#define U        uint32_t
#define S        int32_t
#define FN(name) name##_f32
#define QUIET    0x7fc00000
#define NARROW
#include "ops_float.h"

#define T        double
#define U        uint64_t
#define S        int64_t
#define FN(name) name##_f64
#define QUIET    0x7ff8000000000000
#include "ops_float.h"

#endif
