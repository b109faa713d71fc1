/* SPDX-License-Identifier: BSD-3-Clause */
/* plait_reduce_TYPE_body() and plait_reduce_TYPE_scale() of every type, and plait_scale_body(). */
#ifndef PLAIT_CUDA_REDUCE_BODY_H
#define PLAIT_CUDA_REDUCE_BODY_H

#include "list_body.h"

#define T          int8_t
#define W          int8_t
#define NAME(x)    plait_reduce_int8_##x
#define ARITH(x)   x##_i8
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    ((uint8_t)(v))
#define OF_BITS(u) ((int8_t)(u))
#include "reduce_tmpl.h"

#define T          uint8_t
#define W          uint8_t
#define NAME(x)    plait_reduce_uint8_##x
#define ARITH(x)   x##_u8
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    ((uint8_t)(v))
#define OF_BITS(u) ((uint8_t)(u))
#include "reduce_tmpl.h"

#define T          int32_t
#define W          int32_t
#define NAME(x)    plait_reduce_int32_##x
#define ARITH(x)   x##_i32
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    ((uint32_t)(v))
#define OF_BITS(u) ((int32_t)(u))
#include "reduce_tmpl.h"

#define T          uint32_t
#define W          uint32_t
#define NAME(x)    plait_reduce_uint32_##x
#define ARITH(x)   x##_u32
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    ((uint32_t)(v))
#define OF_BITS(u) ((uint32_t)(u))
#include "reduce_tmpl.h"

#define T          int64_t
#define W          int64_t
#define NAME(x)    plait_reduce_int64_##x
#define ARITH(x)   x##_i64
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    ((uint64_t)(v))
#define OF_BITS(u) ((int64_t)(u))
#include "reduce_tmpl.h"

#define T          uint64_t
#define W          uint64_t
#define NAME(x)    plait_reduce_uint64_##x
#define ARITH(x)   x##_u64
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    ((uint64_t)(v))
#define OF_BITS(u) ((uint64_t)(u))
#include "reduce_tmpl.h"

#define T uint16_t
#define W float
#define NARROW
#define NAME(x)    plait_reduce_float16_##x
#define ARITH(x)   x##_f32
#define GET(v)     plait_get_f16(v)
#define PUT(v)     plait_put_f16(v)
#define BITS(v)    ((uint16_t)(v))
#define OF_BITS(u) ((uint16_t)(u))
#include "reduce_tmpl.h"

#define T          float
#define W          float
#define NAME(x)    plait_reduce_float32_##x
#define ARITH(x)   x##_f32
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    bits_f32(v)
#define OF_BITS(u) from_bits_f32((uint32_t)(u))
#include "reduce_tmpl.h"

#define T          double
#define W          double
#define NAME(x)    plait_reduce_float64_##x
#define ARITH(x)   x##_f64
#define GET(v)     (v)
#define PUT(v)     (v)
#define BITS(v)    bits_f64(v)
#define OF_BITS(u) from_bits_f64(u)
#include "reduce_tmpl.h"

#define T uint16_t
#define W float
#define NARROW
#define NAME(x)    plait_reduce_bfloat16_##x
#define ARITH(x)   x##_f32
#define GET(v)     from_bf16_f32(v)
#define PUT(v)     (uint16_t) to_bf16_f32(v)
#define BITS(v)    ((uint16_t)(v))
#define OF_BITS(u) ((uint16_t)(u))
#include "reduce_tmpl.h"

#define T uint8_t
#define W float
#define NARROW
#define NAME(x)    plait_reduce_float8e4m3_##x
#define ARITH(x)   x##_f32
#define GET(v)     from_narrow_f32(v, &e4m3)
#define PUT(v)     (uint8_t) to_narrow_f32(v, &e4m3)
#define BITS(v)    ((uint8_t)(v))
#define OF_BITS(u) ((uint8_t)(u))
#include "reduce_tmpl.h"

#define T uint8_t
#define W float
#define NARROW
#define NAME(x)    plait_reduce_float8e5m2_##x
#define ARITH(x)   x##_f32
#define GET(v)     from_narrow_f32(v, &e5m2)
#define PUT(v)     (uint8_t) to_narrow_f32(v, &e5m2)
#define BITS(v)    ((uint8_t)(v))
#define OF_BITS(u) ((uint8_t)(u))
#include "reduce_tmpl.h"

BODY uint32_t plait_reduce_phases(const struct plait_cuda_list *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

BODY uint32_t plait_scale_phases(const struct plait_cuda_scale *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

BODY void plait_scale_body(const struct plait_cuda_scale *a, uint32_t phase, const struct plait_where *at,
                           double *shared)
{
    (void)phase, (void)shared;
    switch (a->type) {
    case PLAIT_INT8:
        plait_reduce_int8_scale(a, at);
        return;
    case PLAIT_UINT8:
        plait_reduce_uint8_scale(a, at);
        return;
    case PLAIT_INT32:
        plait_reduce_int32_scale(a, at);
        return;
    case PLAIT_UINT32:
        plait_reduce_uint32_scale(a, at);
        return;
    case PLAIT_INT64:
        plait_reduce_int64_scale(a, at);
        return;
    case PLAIT_UINT64:
        plait_reduce_uint64_scale(a, at);
        return;
    case PLAIT_FLOAT16:
        plait_reduce_float16_scale(a, at);
        return;
    case PLAIT_FLOAT32:
        plait_reduce_float32_scale(a, at);
        return;
    case PLAIT_FLOAT64:
        plait_reduce_float64_scale(a, at);
        return;
    case PLAIT_BFLOAT16:
        plait_reduce_bfloat16_scale(a, at);
        return;
    case PLAIT_FLOAT8E4M3:
        plait_reduce_float8e4m3_scale(a, at);
        return;
    case PLAIT_FLOAT8E5M2:
        plait_reduce_float8e5m2_scale(a, at);
        return;
    default:
        return;
    }
}

#endif
