/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include "optim_body.h"
#include "reduce_body.h"

_Static_assert(sizeof(struct plait_cuda_copies) <= 4096 && sizeof(struct plait_cuda_list) <= 4096,
               "what a kernel's argument may have");

_Thread_local uint64_t plait_cuda_nline;

/* Run all phases of all blocks. */
#define HOST(name, args, threads, phases, body)                       \
    static void run_##name(const void *argument, uint32_t nblock)     \
    {                                                                 \
        const struct args *a = argument;                              \
        double shared[threads * PLAIT_CUDA_SHARED];                   \
                                                                      \
        for (uint32_t block = 0; block < nblock; block++) {           \
            struct plait_where at = { 0, threads, block, nblock };    \
            const uint32_t nphase = phases(a, &at);                   \
            for (uint32_t phase = 0; phase < nphase; phase++)         \
                for (at.thread = 0; at.thread < threads; at.thread++) \
                    body(a, phase, &at, shared);                      \
        }                                                             \
    }

#define REDUCE(type) \
    HOST(plait_reduce_##type, plait_cuda_list, PLAIT_CUDA_THREADS, plait_reduce_phases, plait_reduce_##type##_body)

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
HOST(plait_scale, plait_cuda_scale, PLAIT_CUDA_THREADS, plait_scale_phases, plait_scale_body)
HOST(plait_copy, plait_cuda_list, PLAIT_CUDA_THREADS, plait_copy_phases, plait_copy_body)
HOST(plait_copies, plait_cuda_copies, PLAIT_CUDA_THREADS, plait_copies_phases, plait_copies_body)
HOST(plait_pack, plait_cuda_pack, PLAIT_CUDA_THREADS, plait_pack_phases, plait_pack_body)
HOST(plait_unpack, plait_cuda_pack, PLAIT_CUDA_THREADS, plait_unpack_phases, plait_unpack_body)
HOST(plait_optim_squares, plait_cuda_optim, PLAIT_CUDA_THREADS, plait_optim_squares_phases, plait_optim_squares_body)
HOST(plait_optim_trust, plait_cuda_optim, PLAIT_CUDA_THREADS_TRUST, plait_optim_trust_phases, plait_optim_trust_body)
HOST(plait_optim_update, plait_cuda_optim, PLAIT_CUDA_THREADS, plait_optim_update_phases, plait_optim_update_body)

static const struct plait_cuda_host kernels[] = {
#define PLAIT_X(name, args, threads) { #name, sizeof(struct args), threads, run_##name },
    PLAIT_CUDA_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
};

const struct plait_cuda_host *plait_cuda_host_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
