/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of kernels, user functions, reductions of mixed width, and the floating point environment. */
#include "reduce.h"

#include "sets.h"

#include <string.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#if PLAIT_HAVE_SIMD
#include <cpuid.h>

/* __builtin_cpu_supports() also checks the operating system. Not every compiler knows "f16c", hence CPUID. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;

    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
           (c & bit_F16C) != 0;
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static bool always(void)
{
    return true;
}

/* Fastest first. */
static const struct {
    const struct plait_kernels *kernels;
    bool (*supported)(void);
} sets[] = {
#if PLAIT_HAVE_SIMD
    { &plait_kernels_avx512, has_avx512 },
    { &plait_kernels_avx2, has_avx2 },
#endif
    { &plait_kernels_scalar, always },
};

const struct plait_kernels *plait_kernels_find(const char *isa)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((isa[0] == '\0' || strcmp(isa, sets[i].kernels->isa) == 0) && sets[i].supported())
            return sets[i].kernels;
    return NULL;
}

/* ---- User functions -------------------------------------------------------------------------------- */

enum { PIECE = 4096 }; /* bytes combined at a time, so that partial results stay in L1 */

/* out = the canonical combination of `bytes` <= PIECE of src[0 .. n-1] from byte `at` on. out may alias src[0] only. */
static void combine_pieces(const struct plait_how *how, char *out, const void *const *src, uint32_t n, size_t at,
                           size_t bytes)
{
    _Alignas(64) char right[PIECE];
    const size_t count = bytes / plait_dtype_size(how->type);
    const char *first = (const char *)src[0] + at, *second = right;
    uint32_t left = 1;

    if (n == 1) {
        if (out != first)
            memcpy(out, first, bytes);
        return;
    }
    while (2 * left < n)
        left *= 2;
    combine_pieces(how, out, src, left, at, bytes);
    if (n - left == 1)
        second = (const char *)src[left] + at;
    else
        combine_pieces(how, right, src + left, n - left, at, bytes);
    how->combine(out, second, count, how->type, how->context);
}

static void reduce_user(void *dst, const void *const *src, uint32_t nsrc, size_t count, const struct plait_how *how)
{
    const size_t bytes = count * plait_dtype_size(how->type);
    _Alignas(64) char piece[PIECE];
    bool taken = false; /* dst is also a source other than src[0] */

    for (uint32_t i = 1; i < nsrc; i++)
        taken |= src[i] == dst;
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t here = bytes - at < PIECE ? bytes - at : PIECE;
        char *to = (char *)dst + at;
        combine_pieces(how, taken ? piece : to, src, nsrc, at, here);
        if (taken)
            memcpy(to, piece, here);
    }
}

plait_reduce_fn plait_reduce_find(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op)
{
    if (op == PLAIT_USER)
        return k->reduce[type][PLAIT_SUM] != NULL ? reduce_user : NULL;
    return k->reduce[type][op == PLAIT_PREMULSUM ? PLAIT_SUM : op];
}

/* ---- Mixed widths ---------------------------------------------------------------------------------- */

/* Up to SOURCES operands are widened side by side, CHUNK elements at a time. This takes 12 KiB of stack. */
enum { SOURCES = 16, CHUNK = 192 };

struct mixed {
    const struct plait_kernels *k;
    enum plait_dtype type;
    plait_reduce_fn reduce; /* for fp32 */
    size_t size;            /* bytes of an element of `type` */
    uint64_t wide_src;
};

/* out[count <= CHUNK] = the canonical combination of src[first .. first + n - 1] from element `at` on. */
static void combine_few(const struct mixed *m, float *out, const void *const *src, uint32_t first, uint32_t n,
                        size_t at, size_t count, const struct plait_how *how)
{
    _Alignas(64) float scratch[SOURCES][CHUNK];
    const void *part[SOURCES];

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = first + i;

        if (s < 64 && (m->wide_src >> s & 1) != 0) {
            part[i] = (const float *)src[s] + at;
        } else {
            m->k->widen[m->type](scratch[i], (const char *)src[s] + at * m->size, count);
            part[i] = scratch[i];
        }
    }
    m->reduce(out, part, n, count, how);
}

/* Same as combine_few() for any n, except that out must not be one of the sources. */
static void combine(const struct mixed *m, float *out, const void *const *src, uint32_t first, uint32_t n, size_t at,
                    size_t count, const struct plait_how *how)
{
    _Alignas(64) float right[CHUNK];
    const void *const part[2] = { out, right };
    const struct plait_how partial = { 0 };
    uint32_t left = 1;

    if (n <= SOURCES) {
        combine_few(m, out, src, first, n, at, count, how);
        return;
    }
    while (2 * left < n)
        left *= 2;
    combine(m, out, src, first, left, at, count, &partial);
    combine(m, right, src, first + left, n - left, at, count, &partial);
    m->reduce(out, part, 2, count, how);
}

void plait_reduce_mixed(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op, void *dst,
                        bool wide_dst, const void *const *src, uint64_t wide_src, uint32_t nsrc, size_t count,
                        const struct plait_how *how)
{
    const struct mixed m = { k, type, plait_reduce_find(k, PLAIT_FLOAT32, op), plait_dtype_size(type), wide_src };
    const uint64_t asked = nsrc < 64 ? wide_src & ((UINT64_C(1) << nsrc) - 1) : wide_src;

    if (k->widen[type] == NULL || (asked == 0 && !wide_dst)) {
        plait_reduce_find(k, type, op)(dst, src, nsrc, count, how);
        return;
    }
    /* dst may be a source of the other width: write a wide dst from the end, a narrow dst from the start. */
    const size_t nchunk = (count + CHUNK - 1) / CHUNK;
    for (size_t i = 0; i < nchunk; i++) {
        const size_t at = (wide_dst ? nchunk - 1 - i : i) * CHUNK;
        const size_t here = count - at < CHUNK ? count - at : CHUNK;
        _Alignas(64) float out[CHUNK];

        if (wide_dst && nsrc <= SOURCES) {
            combine_few(&m, (float *)dst + at, src, 0, nsrc, at, here, how);
            continue;
        }
        combine(&m, out, src, 0, nsrc, at, here, how);
        if (wide_dst)
            memcpy((float *)dst + at, out, here * sizeof *out);
        else
            k->narrow[type]((char *)dst + at * m.size, out, here);
    }
}

/* ---- Floating point environment -------------------------------------------------------------------- */

/*
 * x86: bits 0-5 of MXCSR are sticky flags and stay unchanged. 0x1f80 means round to nearest, no flushing of denormals,
 * all exceptions masked. ARM: FPCR holds no flags, and 0 means the same.
 */
uint32_t plait_fpenv_enter(void)
{
#ifdef __x86_64__
    const uint32_t saved = _mm_getcsr();

    if ((saved & ~0x3fu) != 0x1f80)
        _mm_setcsr(0x1f80 | (saved & 0x3f));
    return saved;
#elif defined __aarch64__
    uint64_t saved;

    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    if (saved != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0)) : "memory");
    return (uint32_t)saved;
#else
    return 0;
#endif
}

void plait_fpenv_leave(uint32_t saved)
{
#ifdef __x86_64__
    const uint32_t now = _mm_getcsr();

    if (((now ^ saved) & ~0x3fu) != 0)
        _mm_setcsr((saved & ~0x3fu) | (now & 0x3f));
#elif defined __aarch64__
    if (saved != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)saved) : "memory");
#else
    (void)saved;
#endif
}
