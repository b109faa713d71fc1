/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room reduce: kernels that reduce, convert and copy.
 *
 * There is one set of kernels per instruction set (scalar C, AVX2, AVX-512). A process chooses its set once, from the
 * processor's features or PLAIT_ISA. Each kernel is one loop, compiled once per type (tmpl.h).
 *
 * The room promises: every kernel of a set gives the same bits as the scalar one. Results are rounded to nearest,
 * ties to even. NaN results are canonical (docs/types.md).
 *
 * Kernels expect the default floating point environment, which plait_fpenv_enter() sets. They allocate nothing and
 * know neither ranks nor plans.
 */
#ifndef PLAIT_LIB_REDUCE_REDUCE_H
#define PLAIT_LIB_REDUCE_REDUCE_H

#include <plait/coll.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Parameters of a reduction besides type and operator. */
struct plait_how {
    uint32_t divisor; /* avg: divides the sum before rounding; 0: partial sum of an average, or any other op */
    /* For a user function: */
    enum plait_dtype type;
    void (*combine)(void *inout, const void *in, size_t count, enum plait_dtype type, void *context);
    void *context;
};

/*
 * dst[i] = the canonical combination E(n) = E(m) op E(n-m), m the largest power of two below n, of
 * src[0][i] .. src[n-1][i], for `count` elements.
 *
 * dst      may equal any src exactly; no other overlap
 * nsrc     n: 1 .. 1024; 1 copies (and divides)
 * 16- and 8-bit floats: all n operands are widened and combined in fp32; the result is rounded once. Any NaN result is
 * the quiet NaN without payload. With n == 1 and divisor 0 the bits are copied.
 */
typedef void (*plait_reduce_fn)(void *dst, const void *const *src, uint32_t nsrc, size_t count,
                                const struct plait_how *how);

/*
 * An optimiser's step on fp32 weights w, momenta v and gradients g, rounded after every operation:
 *
 *     d = gradient g + decay w;  v = momentum v + d;  w = w - rate (nesterov ? momentum v + d : v)
 */
struct plait_update {
    float gradient, decay, momentum, rate;
    bool nesterov;
};

struct plait_kernels {
    const char *isa;                                 /* "scalar", "avx2", "avx512" */
    plait_reduce_fn reduce[PLAIT_NDTYPE][PLAIT_NOP]; /* except premulsum and user */
    /* dst[i] = src[i] * *scalar, rounded to the type; dst may equal src. */
    void (*scale[PLAIT_NDTYPE])(void *dst, const void *src, size_t count, const void *scalar);
    /*
     * 16- and 8-bit float types only: to and from fp32, multiplied by a factor in fp32. Round to nearest even; NaN
     * becomes the quiet NaN.
     */
    void (*widen[PLAIT_NDTYPE])(float *dst, const void *src, size_t count, float factor);
    void (*narrow[PLAIT_NDTYPE])(void *dst, const float *src, size_t count, float factor);
    /* memcpy(), one cache line at a time; see plait_copy(). */
    void (*copy)(void *dst, const void *src, size_t bytes);
    /* Copies with streaming stores; stream_end() must precede the release store that publishes the data. */
    void (*stream)(void *dst, const void *src, size_t bytes);
    void (*stream_end)(void);
    /* The sum of the squares of `count` floats. It is finite exactly when all of them are. */
    double (*squares)(const float *src, size_t count);
    /* The arrays do not overlap. */
    void (*update)(float *w, float *v, const float *g, size_t count, const struct plait_update *u);
};

/* lib/meson.build gives each set its compiler flags. Without PLAIT_HAVE_SIMD only the first exists. */
extern const struct plait_kernels plait_kernels_scalar, plait_kernels_avx2, plait_kernels_avx512;

/* The set named by `isa`; "": the best for this processor. NULL: unknown name or not supported here. */
const struct plait_kernels *plait_kernels_find(const char *isa);

#define PLAIT_COPY_MEMCPY 2048  /* bytes up to which glibc's memcpy() is a loop over vectors */
#define PLAIT_COPY_LOOP   16384 /* bytes up to which `copy` is at least as fast as glibc's `rep movsb` */

/*
 * memcpy() without its slow cases. Above 2 KiB, glibc copies by `rep movsb`, which starts slowly. On AMD Zen 3 and
 * Zen 4 it runs at 1/16 of its rate if dst's offset in the page is 1 to 15 bytes above src's, and at 3/4 up to 63 bytes
 * (https://sourceware.org/bugzilla/show_bug.cgi?id=30994). Such offsets occur in v-forms.
 */
static inline void plait_copy(const struct plait_kernels *k, void *dst, const void *src, size_t bytes)
{
    const size_t further = ((uintptr_t)dst - (uintptr_t)src) % 4096;

    if (__builtin_expect(bytes > PLAIT_COPY_MEMCPY, 0) && (bytes <= PLAIT_COPY_LOOP || (further > 0 && further < 64)))
        k->copy(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

/*
 * The kernel that reduces elements of `type` with `op`; NULL: none. For premulsum it sums operands that are already
 * multiplied. A user function is called piece by piece.
 */
plait_reduce_fn plait_reduce_find(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op);

/*
 * Reduction whose operands or result may be fp32 in place of a 16- or 8-bit type (round=once over several steps).
 * Bit i of wide_src: src[i] is float[count]. wide_dst: dst is float[count], not rounded. dst may start at the address
 * of any src, also of one of the other width. For other types, or if nothing is wide, it calls plait_reduce_find()'s.
 */
void plait_reduce_mixed(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op, void *dst,
                        bool wide_dst, const void *const *src, uint64_t wide_src, uint32_t nsrc, size_t count,
                        const struct plait_how *how);

/* enter() sets default rounding, no flushing of denormals, no traps. leave() restores the caller's settings. */
uint32_t plait_fpenv_enter(void);
void plait_fpenv_leave(uint32_t saved);

#endif
