/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines a kernel from its body (body.h). */
#ifndef PLAIT_TRAIN_CUDA_KERNEL_CUH
#define PLAIT_TRAIN_CUDA_KERNEL_CUH

/*
 * The argument is read in constant memory. Shared memory that a body does not use is not allocated. resident: blocks
 * that run on a multiprocessor at once, at least.
 */
#define TRAIN_KERNEL(name, args, resident)                                                   \
    extern "C" __global__ void __launch_bounds__(TRAIN_THREADS, resident)                    \
        name(const __grid_constant__ struct args argument)                                   \
    {                                                                                        \
        __shared__ union train_shared shared;                                                \
        const struct plait_where at = { threadIdx.x, TRAIN_THREADS, blockIdx.x, gridDim.x }; \
        const uint32_t nphase = name##_phases(&argument, &at);                               \
                                                                                             \
        for (uint32_t phase = 0; phase < nphase; phase++) {                                  \
            if (phase > 0)                                                                   \
                __syncthreads();                                                             \
            name##_body(&argument, phase, &at, &shared);                                     \
        }                                                                                    \
    }

#endif
