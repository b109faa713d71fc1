/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of kernels, user functions and reductions of mixed width, and the floating point environment. */
#include "reduce.h"

#include "build.h"

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

/* Fastest first. */
static const struct {
    const struct plait_kernels *kernels;
    bool (*supported)(void); /* NULL: by every processor */
} sets[] = {
#if PLAIT_HAVE_SIMD
    { &plait_kernels_avx512, has_avx512 },
    { &plait_kernels_avx2, has_avx2 },
#endif
    { &plait_kernels_scalar, NULL },
};

const struct plait_kernels *plait_kernels_find(const char *isa)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((isa[0] == '\0' || strcmp(isa, sets[i].kernels->isa) == 0) &&
            (sets[i].supported == NULL || sets[i].supported()))
            return sets[i].kernels;
    return NULL;
}

/* ---- Piece by piece -------------------------------------------------------------------------------- */

enum { PIECE = 4096 }; /* bytes combined at a time, so that partial results stay in L1 */

/* A combination of operands that no kernel reads as they lie, or for which there is none. */
struct pieces {
    const struct plait_kernels *k;
    enum plait_dtype type;
    plait_reduce_fn reduce; /* for fp32, to which operands of `type` are widened; NULL: the user's function */
    const void *const *src;
    uint64_t wide_src;
    const struct plait_how *how;
};

/* Operand s from element `at` on: where it lies, or widened in `room`. */
static const void *operand(const struct pieces *p, uint32_t s, size_t at, size_t count, void *room)
{
    const char *narrow = (const char *)p->src[s] + at * plait_dtype_size(p->type);

    if (p->reduce == NULL)
        return narrow;
    if (s < 64 && (p->wide_src >> s & 1) != 0)
        return (const float *)p->src[s] + at;
    p->k->widen[p->type](room, (const void *)narrow, count, 1);
    return room;
}

/* Returns the canonical combination of n operands from the first on: in `room`, or the only operand where it lies. */
static const void *combine(const struct pieces *p, uint32_t first, uint32_t n, size_t at, size_t count, void *room,
                           const struct plait_how *how)
{
    static const struct plait_how partial = { 0 };
    _Alignas(64) char right[PIECE];
    const void *part[2];
    uint32_t left = 1;

    if (n == 1)
        return operand(p, first, at, count, room);
    while (2 * left < n)
        left *= 2;
    part[0] = combine(p, first, left, at, count, room, &partial);
    part[1] = combine(p, first + left, n - left, at, count, right, &partial);
    if (p->reduce != NULL) {
        p->reduce(room, part, 2, count, how);
        return room;
    }
    if (part[0] != room)
        memcpy(room, part[0], count * plait_dtype_size(p->type));
    p->how->combine(room, part[1], count, p->type, p->how->context);
    return room;
}

static void reduce_user(void *dst, const void *const *src, uint32_t nsrc, size_t count, const struct plait_how *how)
{
    const struct pieces p = { .type = how->type, .src = src, .how = how };
    const size_t size = plait_dtype_size(how->type), most = PIECE / size;
    _Alignas(64) char room[PIECE];

    for (size_t at = 0; at < count; at += most) {
        const size_t here = count - at < most ? count - at : most;
        char *to = (char *)dst + at * size;
        const void *from = combine(&p, 0, nsrc, at, here, room, how);
        if (from != to)
            memcpy(to, from, here * size);
    }
}

plait_reduce_fn plait_reduce_find(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op)
{
    if (op == PLAIT_USER)
        return k->reduce[type][PLAIT_SUM] != NULL ? reduce_user : NULL;
    return k->reduce[type][op == PLAIT_PREMULSUM ? PLAIT_SUM : op];
}

void plait_reduce_mixed(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op, void *dst,
                        bool wide_dst, const void *const *src, uint64_t wide_src, uint32_t nsrc, size_t count,
                        const struct plait_how *how)
{
    enum { MOST = PIECE / sizeof(float) };
    const struct pieces p = { k, type, plait_reduce_find(k, PLAIT_FLOAT32, op), src, wide_src, how };
    const uint64_t asked = nsrc < 64 ? wide_src & ((UINT64_C(1) << nsrc) - 1) : wide_src;
    const size_t npiece = (count + MOST - 1) / MOST;
    _Alignas(64) float room[MOST];

    if (k->widen[type] == NULL || (asked == 0 && !wide_dst)) {
        plait_reduce_find(k, type, op)(dst, src, nsrc, count, how);
        return;
    }
    /* dst may be a source of the other width: write a wide dst from the end, a narrow dst from the start. */
    for (size_t i = 0; i < npiece; i++) {
        const size_t at = (wide_dst ? npiece - 1 - i : i) * MOST;
        const size_t here = count - at < MOST ? count - at : MOST;
        const void *only = combine(&p, 0, nsrc, at, here, room, how);

        if (nsrc == 1)
            p.reduce(room, &only, 1, here, how);
        if (wide_dst)
            memcpy((float *)dst + at, room, here * sizeof *room);
        else
            k->narrow[type]((char *)dst + at * plait_dtype_size(type), room, here, 1);
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
