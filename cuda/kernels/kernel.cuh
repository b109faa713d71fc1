/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines a kernel from its body (body.h). */
#ifndef PLAIT_CUDA_KERNEL_CUH
#define PLAIT_CUDA_KERNEL_CUH

enum { PLAIT_RESIDENT = 3 };

/* The argument is read in constant memory, without a copy for each thread. */
#define PLAIT_KERNEL(name, args, threads, phases, body)                                                      \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ struct args argument) \
    {                                                                                                        \
        __shared__ double shared[threads];                                                                   \
        const struct plait_where at = { threadIdx.x, threads, blockIdx.x, gridDim.x };                       \
        const uint32_t nphase = phases(&argument, &at);                                                      \
                                                                                                             \
        for (uint32_t phase = 0; phase < nphase; phase++) {                                                  \
            if (phase > 0)                                                                                   \
                __syncthreads();                                                                             \
            body(&argument, phase, &at, shared);                                                             \
        }                                                                                                    \
    }

/* The same, where each warp works alone. PLAIT_RESIDENT blocks run on a multiprocessor at once. */
#define PLAIT_WARPS(name, args, threads, phases, body)                                 \
    extern "C" __global__ void __launch_bounds__(threads, PLAIT_RESIDENT)              \
        name(const __grid_constant__ struct args argument)                             \
    {                                                                                  \
        const struct plait_where at = { threadIdx.x, threads, blockIdx.x, gridDim.x }; \
        const uint32_t nphase = phases(&argument, &at);                                \
                                                                                       \
        for (uint32_t phase = 0; phase < nphase; phase++)                              \
            body(&argument, phase, &at, NULL);                                         \
    }

#endif
