/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kernels, the combinations of mixed width, and the floating point environment. */
#include "reduce.h"

#include "sets.h"

#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <xmmintrin.h>

/* The compiler's test asks the operating system too. It has no name for F16C everywhere. */
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

/* Best first. */
static const struct {
    const struct plait_kernels *kernels;
    bool (*supported)(void);
} sets[] = {
#ifdef __x86_64__
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

/* Up to SOURCES operands are widened side by side, CHUNK elements at a time: 16 KiB of scratch memory. */
enum { SOURCES = 16, CHUNK = 256 };

struct mixed {
    const struct plait_kernels *k;
    enum plait_dtype type;
    plait_reduce_fn reduce; /* of fp32 */
    size_t size;            /* of an element of `type` */
    uint64_t wide_src;
};

/* out[count <= CHUNK] = the canonical combination of src[first .. first + n - 1] from element `at` on. */
static void combine_few(const struct mixed *m, float *out, const void *const *src, uint32_t first, uint32_t n,
                        size_t at, size_t count, uint32_t divisor)
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
    m->reduce(out, part, n, count, divisor);
}

/* As combine_few for any n. There out may be one of the sources; here it may not. */
static void combine(const struct mixed *m, float *out, const void *const *src, uint32_t first, uint32_t n, size_t at,
                    size_t count, uint32_t divisor)
{
    _Alignas(64) float right[CHUNK];
    const void *const part[2] = { out, right };
    uint32_t left = 1;

    if (n <= SOURCES) {
        combine_few(m, out, src, first, n, at, count, divisor);
        return;
    }
    while (2 * left < n)
        left *= 2;
    combine(m, out, src, first, left, at, count, 0);
    combine(m, right, src, first + left, n - left, at, count, 0);
    m->reduce(out, part, 2, count, divisor);
}

void plait_reduce_mixed(const struct plait_kernels *k, enum plait_dtype type, enum plait_op op, void *dst,
                        bool wide_dst, const void *const *src, uint64_t wide_src, uint32_t nsrc, size_t count,
                        uint32_t divisor)
{
    const struct mixed m = { k, type, k->reduce[PLAIT_FLOAT32][op], plait_dtype_size(type), wide_src };
    const uint64_t asked = nsrc < 64 ? wide_src & ((UINT64_C(1) << nsrc) - 1) : wide_src;

    if (k->widen[type] == NULL || (asked == 0 && !wide_dst)) {
        k->reduce[type][op](dst, src, nsrc, count, divisor);
        return;
    }
    /* Where dst is a source of the other width, a wide dst is written from the end, a narrow one from the start. */
    const size_t nchunk = (count + CHUNK - 1) / CHUNK;
    for (size_t i = 0; i < nchunk; i++) {
        const size_t at = (wide_dst ? nchunk - 1 - i : i) * CHUNK;
        const size_t here = count - at < CHUNK ? count - at : CHUNK;
        _Alignas(64) float out[CHUNK];

        if (wide_dst && nsrc <= SOURCES) {
            combine_few(&m, (float *)dst + at, src, 0, nsrc, at, here, divisor);
            continue;
        }
        combine(&m, out, src, 0, nsrc, at, here, divisor);
        if (wide_dst)
            memcpy((float *)dst + at, out, here * sizeof *out);
        else
            k->narrow[type]((char *)dst + at * m.size, out, here);
    }
}

/*
 * x86: MXCSR's bits 0-5 are sticky flags, left alone; 0x1f80 is round to nearest, no flushing, all
 * exceptions masked. ARM: FPCR holds no flags, and 0 means the same.
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
