/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduction, conversion and copy kernels, chosen once per process by instruction set.
 *
 * Every kernel of a set gives the same bits as the scalar one. They expect the default floating
 * point environment; plait_fpenv_enter() makes it so.
 */
#ifndef PLAIT_LIB_REDUCE_H
#define PLAIT_LIB_REDUCE_H

#include <plait/coll.h>

#include <stdbool.h>

/*
 * dst[i] = the canonical combination E(n) = E(m) op E(n-m), m the largest power of two below n, of
 * src[0][i] .. src[n-1][i], for `count` elements.
 *
 * dst      may equal any src exactly; no other overlap
 * nsrc     1 .. 1024; 1 copies (and divides)
 * divisor  0, or (sum only, n >= 1) the number the sum is divided by before it is rounded: avg
 * 16-bit floats: operands are widened, all n are combined in fp32, rounded once. Any NaN result of
 * a combination is the quiet NaN without payload; with n == 1 and divisor 0 the bits are copied.
 */
typedef void (*plait_reduce_fn)(void *dst, const void *const *src, uint32_t nsrc, size_t count, uint32_t divisor);

struct plait_kernels {
    const char *isa;                                 /* "scalar", "avx2", "avx512" */
    plait_reduce_fn reduce[PLAIT_NDTYPE][PLAIT_NOP]; /* empty cells: unsupported; AVG's are empty, use SUM */
    /* 16-bit float types only: to and from fp32, round to nearest even, NaN becomes the quiet NaN. */
    void (*widen[PLAIT_NDTYPE])(float *dst, const void *src, size_t count);
    void (*narrow[PLAIT_NDTYPE])(void *dst, const float *src, size_t count);
    /* Copy past the caches; the data is visible to others after a later release store. */
    void (*stream)(void *dst, const void *src, size_t bytes);
};

/* The set for this processor, or the one named by `isa` ("": best). NULL: unknown name or not supported here. */
const struct plait_kernels *plait_kernels_find(const char *isa);

/*
 * Combinations whose operands or result may be fp32 stand-ins of a 16-bit type (round=once over
 * several steps). Bit i of wide_src: src[i] is float[count]. wide_dst: dst is float[count], not rounded.
 * dst may start where any src starts, also one of the other width.
 * For other types, and where nothing is wide, the same as kernels->reduce.
 */
void plait_reduce_mixed(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op, void *dst,
                        bool wide_dst, const void *const *src, uint64_t wide_src, uint32_t nsrc, size_t count,
                        uint32_t divisor);

/* Default rounding, no flushing of denormals, no traps; leave() restores what the caller had. */
uint32_t plait_fpenv_enter(void);
void plait_fpenv_leave(uint32_t saved);

#endif
