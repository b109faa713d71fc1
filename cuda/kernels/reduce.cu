/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_body.h"

#include "kernel.cuh"

#define REDUCE(type)                                                                                 \
    PLAIT_KERNEL(plait_reduce_##type, plait_cuda_list, PLAIT_CUDA_THREADS, plait_reduce_phases,      \
                 plait_reduce_##type##_body)

REDUCE(int8)
REDUCE(uint8)
REDUCE(int32)
REDUCE(uint32)
REDUCE(int64)
REDUCE(uint64)
REDUCE(float16)
REDUCE(float32)
REDUCE(float64)
REDUCE(bfloat16)
REDUCE(float8e4m3)
REDUCE(float8e5m2)

PLAIT_KERNEL(plait_scale, plait_cuda_scale, PLAIT_CUDA_THREADS, plait_scale_phases, plait_scale_body)
PLAIT_KERNEL(plait_copy, plait_cuda_list, PLAIT_CUDA_THREADS, plait_copy_phases, plait_copy_body)
