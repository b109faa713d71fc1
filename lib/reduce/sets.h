/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel sets; lib/meson.build gives each its compiler flags. */
#ifndef PLAIT_LIB_REDUCE_SETS_H
#define PLAIT_LIB_REDUCE_SETS_H

#include "reduce.h"

#include "build.h"

extern const struct plait_kernels plait_kernels_scalar;
#if PLAIT_HAVE_SIMD
extern const struct plait_kernels plait_kernels_avx2;
extern const struct plait_kernels plait_kernels_avx512;
#endif

#endif
