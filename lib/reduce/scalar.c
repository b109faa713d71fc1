/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference kernels, in plain C for any processor. */
#include "ops.h"

#define HALF_V                 float
#define HALF_LANES             1
#define HALF_VN(name)          name##_f32
#define HALF_GET_WIDE(p, k)    (*(p))
#define HALF_PUT_WIDE(p, v, k) (*(p) = (v))
#define GET_F16(p, k)          from_narrow_f32(*(p), &f16)
#define PUT_F16(p, v, k)       (*(p) = (uint16_t)to_narrow_f32(v, &f16))
#define GET_BF16(p, k)         from_bf16_f32(*(p))
#define PUT_BF16(p, v, k)      (*(p) = (uint16_t)to_bf16_f32(v))
#define GET_E4M3(p, k)         from_narrow_f32(*(p), &e4m3)
#define PUT_E4M3(p, v, k)      (*(p) = (uint8_t)to_narrow_f32(v, &e4m3))
#define GET_E5M2(p, k)         from_narrow_f32(*(p), &e5m2)
#define PUT_E5M2(p, v, k)      (*(p) = (uint8_t)to_narrow_f32(v, &e5m2))
#include "set.h"

const struct plait_kernels plait_kernels_scalar = KERNELS("scalar");
