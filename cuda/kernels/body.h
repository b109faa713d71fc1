/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers of kernel bodies. nvcc compiles a body for the device, and a host compiler compiles it for tests:
 *
 *     BODY void NAME(const struct ARGS *a, uint32_t phase, const struct plait_where *at, double *shared)
 *
 * is the work of one thread in one phase. A block runs NAME_phases() phases. PLAIT_KERNEL: the threads of a block
 * synchronise between phases. PLAIT_WARPS: each warp works alone. `shared` has PLAIT_CUDA_SHARED elements for each
 * thread of the block; on the device one, and for PLAIT_KERNEL only.
 */
#ifndef PLAIT_CUDA_BODY_H
#define PLAIT_CUDA_BODY_H

#include "kernels.h"

#include <reduce/ops.h>

#ifndef __CUDACC__
#include <assert.h>
#endif
#include <stdbool.h>

#ifdef __CUDACC__
#define BODY      static __device__ __forceinline__
#define UNROLL    _Pragma("unroll")
#define UNROLL_BY _Pragma("unroll 8")
#define GLOBAL(p) \
    __builtin_assume(__isGlobal(p)) /* p is in global memory, which the compiler cannot see of a table's */
#else
#define BODY static inline __attribute__((always_inline))
#define UNROLL
#define UNROLL_BY
#define GLOBAL(p) ((void)(p))
#endif

struct plait_where {          /* of this thread */
    uint32_t thread, nthread; /* in the block */
    uint32_t block, nblock;
};

BODY uint64_t plait_thread(const struct plait_where *at)
{
    return (uint64_t)at->block * at->nthread + at->thread;
}

BODY uint64_t plait_nthread(const struct plait_where *at)
{
    return (uint64_t)at->nblock * at->nthread;
}

/* ---- Warps ------------------------------------------------------------------------------------------------ */

BODY uint32_t plait_lane(const struct plait_where *at)
{
    return at->thread % PLAIT_CUDA_WARP;
}

/*
 * The sum of *own over a warp, by a tree of a fixed shape. All lanes call it; true in the one lane that has the sum. On
 * the host lanes run one after the other: each leaves its own in `shared`, and the last one adds them up.
 */
BODY bool plait_warp_sum(double *own, const struct plait_where *at, double *shared)
{
#ifdef __CUDACC__
    (void)shared;
    UNROLL for (uint32_t half = PLAIT_CUDA_WARP / 2; half > 0; half /= 2) *own +=
        __shfl_down_sync(0xffffffff, *own, half);
    return plait_lane(at) == 0;
#else
    double *all = shared + (at->thread - plait_lane(at));

    all[plait_lane(at)] = *own;
    if (plait_lane(at) < PLAIT_CUDA_WARP - 1)
        return false;
    for (uint32_t half = PLAIT_CUDA_WARP / 2; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            all[i] += all[i + half];
    *own = all[0];
    return true;
#endif
}

/* sum + v * v. The product is exact, so the fused form has the same bits. */
BODY double plait_add_square(double sum, float v)
{
#ifdef __CUDACC__
    return __fma_rn((double)v, (double)v, sum);
#else
    return sum + (double)v * (double)v;
#endif
}

/* ---- Lines ------------------------------------------------------------------------------------------------ */

#ifndef __CUDACC__
extern _Thread_local uint64_t plait_cuda_nline; /* number of accesses to lines, for tests */
#endif

/* 16 bytes, in one access on a device. */
struct __attribute__((aligned(16), may_alias)) plait_line {
    uint32_t word[4];
};

BODY bool plait_is_line(const void *p)
{
    return (uintptr_t)p % sizeof(struct plait_line) == 0;
}

BODY struct plait_line plait_line_get(const void *p)
{
#ifdef __CUDACC__
    GLOBAL(p);
    const uint4 v = *(const uint4 *)p;

    return plait_line{ { v.x, v.y, v.z, v.w } };
#else
    assert(plait_is_line(p)); /* a device faults */
    plait_cuda_nline++;
    return *(const struct plait_line *)p;
#endif
}

BODY void plait_line_put(void *p, struct plait_line v)
{
#ifdef __CUDACC__
    GLOBAL(p);
    *(uint4 *)p = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
#else
    assert(plait_is_line(p));
    plait_cuda_nline++;
    *(struct plait_line *)p = v;
#endif
}

/* float16 by the device's instructions. Every NaN becomes the canonical one. */
BODY float plait_get_f16(uint16_t half)
{
#ifdef __CUDA_ARCH__
    float v;

    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(half));
    return v;
#else
    return from_narrow_f32(half, &f16);
#endif
}

BODY uint16_t plait_put_f16(float v)
{
#ifdef __CUDA_ARCH__
    uint16_t half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(v));
    return v != v ? (uint16_t)0x7e00 : half;
#else
    return (uint16_t)to_narrow_f32(v, &f16);
#endif
}

/* Elements of `size` bytes before the first 16-byte boundary, at most count. */
BODY uint64_t plait_head(const void *p, uint32_t size, uint64_t count)
{
    const uint64_t head = (16 - (uintptr_t)p % 16) % 16 / size;

    return head < count ? head : count;
}

#endif
