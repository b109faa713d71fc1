/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room reduce: kernels that combine, convert and copy.
 *
 * There is one set of kernels per instruction set (scalar C, AVX2, AVX-512). A process chooses its set once, by what
 * the processor has or PLAIT_ISA asks for. Each kernel is one loop, compiled once per type (tmpl.h).
 *
 * The room promises: every kernel of a set gives the same bits as the scalar one. Results are rounded to nearest,
 * ties to even. NaNs are the library's own (docs/types.md).
 *
 * Kernels expect the default floating point environment; plait_fpenv_enter() makes it so. They allocate nothing and
 * know neither ranks nor plans.
 */
#ifndef PLAIT_LIB_REDUCE_REDUCE_H
#define PLAIT_LIB_REDUCE_REDUCE_H

#include <plait/coll.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* How elements are combined, beside type and operator. */
struct plait_how {
    uint32_t
        divisor; /* avg: the number the sum is divided by before it is rounded; 0: not yet, and with any other op */
    /* Of a user function: */
    enum plait_dtype type;
    void (*combine)(void *inout, const void *in, size_t count, enum plait_dtype type, void *context);
    void *context;
};

/*
 * dst[i] = the canonical combination E(n) = E(m) op E(n-m), m the largest power of two below n, of
 * src[0][i] .. src[n-1][i], for `count` elements.
 *
 * dst      may equal any src exactly; no other overlap
 * nsrc     1 .. 1024; 1 copies (and divides)
 * 16- and 8-bit floats: operands are widened, all n are combined in fp32, rounded once. Any NaN result of
 * a combination is the quiet NaN without payload; with n == 1 and divisor 0 the bits are copied.
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
    plait_reduce_fn reduce[PLAIT_NDTYPE][PLAIT_NOP]; /* all but premulsum and user */
    /* dst[i] = src[i] * *scalar, rounded to the type; dst may equal src. */
    void (*scale[PLAIT_NDTYPE])(void *dst, const void *src, size_t count, const void *scalar);
    /* 16- and 8-bit float types only: to and from fp32, round to nearest even, NaN becomes the quiet NaN. */
    void (*widen[PLAIT_NDTYPE])(float *dst, const void *src, size_t count);
    void (*narrow[PLAIT_NDTYPE])(void *dst, const float *src, size_t count);
    /* The same, multiplied by a factor in fp32. */
    void (*widen_by[PLAIT_NDTYPE])(float *dst, const void *src, size_t count, float factor);
    /*
     * dst[i] = src[i] * factor in one loop with squares() of dst; past: past the caches, whole lines to the beginning
     * of one, without stream_end(). May be NULL: there is no such loop for the type.
     */
    double (*look[PLAIT_NDTYPE])(float *dst, const void *src, size_t count, float factor, bool past);
    void (*narrow_by[PLAIT_NDTYPE])(void *dst, const float *src, size_t count, float factor);
    /*
     * The same of whole lines, past the caches to the beginning of one, without stream_end(). May be NULL, as `look`.
     */
    void (*pack[PLAIT_NDTYPE])(void *dst, const float *src, size_t count, float factor);
    /* As memcpy(), a line at a time; see plait_copy(). */
    void (*copy)(void *dst, const void *src, size_t bytes);
    /* Copy past the caches; the data is visible to others after a later release store. */
    void (*stream)(void *dst, const void *src, size_t bytes);
    /* The same in parts: visible so after stream_end(). */
    void (*stream_some)(void *dst, const void *src, size_t bytes);
    void (*stream_end)(void);
    /* The sum of the squares of `count` floats; not finite exactly when one of them is not. */
    double (*squares)(const float *src, size_t count);
    /* The arrays do not overlap. */
    void (*update)(float *w, float *v, const float *g, size_t count, const struct plait_update *u);
};

/* The set for this processor, or the one named by `isa` ("": best). NULL: unknown name or not supported here. */
const struct plait_kernels *plait_kernels_find(const char *isa);

static inline bool plait_copies_slowly(const void *dst, const void *src)
{
    const size_t further = ((uintptr_t)dst - (uintptr_t)src) % 4096;
    return further > 0 && further < 64;
}

#define PLAIT_COPY_MEMCPY 2048  /* bytes to which glibc's memcpy() is a loop of vectors; */
#define PLAIT_COPY_LOOP   16384 /* to which ours is at least as fast as what comes then */

/*
 * memcpy() without its slow places: glibc copies more than 2 KiB by `rep movsb`, which begins slowly, and which AMD's
 * Zen 3 and Zen 4 do at a sixteenth of their rate where the copy begins up to 15 bytes further in its page than the
 * original does in its own (https://sourceware.org/bugzilla/show_bug.cgi?id=30994), and at three quarters up to 63.
 * Parts of v-forms lie so.
 */
static inline void plait_copy(const struct plait_kernels *k, void *dst, const void *src, size_t bytes)
{
    if (__builtin_expect(bytes > PLAIT_COPY_MEMCPY, 0) && (bytes <= PLAIT_COPY_LOOP || plait_copies_slowly(dst, src)))
        k->copy(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

/*
 * What combines elements of `type` with `op`: premulsum sums what has been multiplied; user functions are called piece
 * by piece. NULL: there is none.
 */
plait_reduce_fn plait_reduce_find(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op);

/*
 * Combinations whose operands or result may be fp32 stand-ins of a 16- or 8-bit type (round=once over
 * several steps). Bit i of wide_src: src[i] is float[count]. wide_dst: dst is float[count], not rounded.
 * dst may start where any src starts, also one of the other width.
 * For other types, and where nothing is wide, the same as plait_reduce_find()'s.
 */
void plait_reduce_mixed(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op, void *dst,
                        bool wide_dst, const void *const *src, uint64_t wide_src, uint32_t nsrc, size_t count,
                        const struct plait_how *how);

/* Default rounding, no flushing of denormals, no traps; leave() restores what the caller had. */
uint32_t plait_fpenv_enter(void);
void plait_fpenv_leave(uint32_t saved);

#endif
