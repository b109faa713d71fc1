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

_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "float and double must not have excess precision");

#define T        int32_t
#define U        uint32_t
#define FN(name) name##_i32
/* In double, which vectorises: the quotient is at least 2^-32 away from the next integer, so it is exact. */
#define QUOTIENT(v, n) (int32_t)((double)(v) / (double)(n))
#include "ops_int.h"

#define T              int64_t
#define U              uint64_t
#define FN(name)       name##_i64
#define QUOTIENT(v, n) (v) / (int64_t)(n)
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

#endif
