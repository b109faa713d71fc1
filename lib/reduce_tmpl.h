/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops over one element type, included once per type and instruction set. Needs
 *
 *   T        the stored type
 *   V        a unit: what is computed with, one value or a vector register of values
 *   LANES    elements per unit
 *   FN(x)    the name of this type's functions; FN(get) and FN(put) exist: load and store k <= LANES elements
 *   VN(x)    the name of the unit's arithmetic: sum, prod, min, max, quotient, clean
 *   HALF     defined for 16-bit floats: also make FN(widen) and FN(narrow)
 *
 * and undefines them all. With LANES == 1 the compiler vectorises. dst may be one of the sources,
 * element for element, so there is no restrict; "omp simd" tells the compiler that no other overlap exists.
 *
 * Up to four sources are combined in registers. More go in blocks that stay in the first-level
 * cache: groups of four are pushed on a stack of partial results, merged like the digits of a binary
 * counter, which is the canonical order E(n). A merge waits for the next group, so that two partial
 * results are left for the loop that writes dst. Each source is read once and dst is written once.
 */

/* The canonical combination of the g sources' units at element i. */
static inline __attribute__((always_inline)) V FN(leaf)(const T *const s[4], unsigned g, size_t i, size_t k,
                                                        V (*op)(V, V))
{
    V v = FN(get)(s[0] + i, k);

    if (g >= 2)
        v = op(v, FN(get)(s[1] + i, k));
    if (g == 3)
        v = op(v, FN(get)(s[2] + i, k));
    if (g == 4)
        v = op(v, op(FN(get)(s[2] + i, k), FN(get)(s[3] + i, k)));
    return v;
}

/* d = the combination of g sources, from memory to memory. */
static inline __attribute__((always_inline)) void FN(direct)(T *d, const T *const s[4], unsigned g, size_t count,
                                                             V (*op)(V, V))
{
    const size_t full = count - count % LANES;

#pragma omp simd
    for (size_t i = 0; i < full; i += LANES)
        FN(put)(d + i, VN(clean)(FN(leaf)(s, g, i, LANES, op)), LANES);
    if (full < count)
        FN(put)(d + full, VN(clean)(FN(leaf)(s, g, full, count - full, op)), count - full);
}

/* acc = the combination of g sources, as units. */
static inline __attribute__((always_inline)) void FN(group)(V *restrict acc, const T *const s[4], unsigned g,
                                                            size_t count, V (*op)(V, V))
{
    const size_t nunit = count / LANES;

#pragma omp simd
    for (size_t j = 0; j < nunit; j++)
        acc[j] = FN(leaf)(s, g, j * LANES, LANES, op);
    if (nunit * LANES < count)
        acc[nunit] = FN(leaf)(s, g, nunit * LANES, count - nunit * LANES, op);
}

/* As group, for g known when running only. */
static inline __attribute__((always_inline)) void FN(push)(V *restrict acc, const void *const *src, unsigned g,
                                                           size_t offset, size_t count, V (*op)(V, V))
{
    const T *s[4] = { NULL };

    for (unsigned i = 0; i < g; i++)
        s[i] = (const T *)src[i] + offset;
    if (g == 4)
        FN(group)(acc, s, 4, count, op);
    else if (g == 3)
        FN(group)(acc, s, 3, count, op);
    else if (g == 2)
        FN(group)(acc, s, 2, count, op);
    else
        FN(group)(acc, s, 1, count, op);
}

static inline __attribute__((always_inline)) void FN(merge)(V *restrict a, const V *restrict b, size_t nunit,
                                                            V (*op)(V, V))
{
#pragma omp simd
    for (size_t j = 0; j < nunit; j++)
        a[j] = op(a[j], b[j]);
}

/* The last merge writes dst. */
static inline __attribute__((always_inline)) void FN(finish)(T *restrict d, const V *restrict a, const V *restrict b,
                                                             size_t count, V (*op)(V, V))
{
    const size_t nunit = count / LANES;

#pragma omp simd
    for (size_t j = 0; j < nunit; j++)
        FN(put)(d + j * LANES, VN(clean)(op(a[j], b[j])), LANES);
    if (nunit * LANES < count)
        FN(put)(d + nunit * LANES, VN(clean)(op(a[nunit], b[nunit])), count - nunit * LANES);
}

static void FN(divide)(T *restrict d, const V *restrict a, size_t count, uint32_t divisor)
{
    const size_t nunit = count / LANES;

#pragma omp simd
    for (size_t j = 0; j < nunit; j++)
        FN(put)(d + j * LANES, VN(clean)(VN(quotient)(a[j], divisor)), LANES);
    if (nunit * LANES < count)
        FN(put)(d + nunit * LANES, VN(clean)(VN(quotient)(a[nunit], divisor)), count - nunit * LANES);
}

/* Any number of sources, or an average. */
static inline __attribute__((always_inline)) void FN(blocks)(T *d, const void *const *src, uint32_t nsrc, size_t count,
                                                             uint32_t divisor, V (*op)(V, V))
{
    enum { UNITS = 2048 / sizeof(V), BLOCK = UNITS * LANES };
    _Alignas(64) V stack[9][UNITS]; /* 1024 sources are 256 groups: at most 8 digits and the newest group */

    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t here = count - at < BLOCK ? count - at : BLOCK;
        const size_t nunit = (here + LANES - 1) / LANES;
        unsigned depth = 0;

        for (uint32_t g = 0; 4 * g < nsrc; g++) {
            for (uint32_t digit = g; g > 0 && digit % 2 == 0; digit /= 2, depth--)
                FN(merge)(stack[depth - 2], stack[depth - 1], nunit, op);
            FN(push)(stack[depth++], src + 4 * g, nsrc - 4 * g < 4 ? nsrc - 4 * g : 4, at, here, op);
        }
        for (; depth > (divisor != 0 ? 1 : 2); depth--)
            FN(merge)(stack[depth - 2], stack[depth - 1], nunit, op);
        if (divisor != 0)
            FN(divide)(d + at, stack[0], here, divisor);
        else
            FN(finish)(d + at, stack[0], stack[1], here, op);
    }
}

static inline __attribute__((always_inline)) void FN(reduce)(void *dst, const void *const *src, uint32_t nsrc,
                                                             size_t count, uint32_t divisor, V (*op)(V, V))
{
    const T *const s[4] = { src[0], nsrc > 1 ? src[1] : NULL, nsrc > 2 ? src[2] : NULL, nsrc > 3 ? src[3] : NULL };

    assert(nsrc >= 1 && nsrc <= 1024);
    if (divisor != 0 || nsrc > 4)
        FN(blocks)(dst, src, nsrc, count, divisor, op);
    else if (nsrc == 2)
        FN(direct)(dst, s, 2, count, op);
    else if (nsrc == 3)
        FN(direct)(dst, s, 3, count, op);
    else if (nsrc == 4)
        FN(direct)(dst, s, 4, count, op);
    else if (dst != src[0] && count > 0)
        memcpy(dst, src[0], count * sizeof(T));
}

static void FN(reduce_sum)(void *dst, const void *const *src, uint32_t nsrc, size_t count, uint32_t divisor)
{
    FN(reduce)(dst, src, nsrc, count, divisor, VN(sum));
}

static void FN(reduce_prod)(void *dst, const void *const *src, uint32_t nsrc, size_t count, uint32_t divisor)
{
    assert(divisor == 0);
    FN(reduce)(dst, src, nsrc, count, 0, VN(prod));
}

static void FN(reduce_max)(void *dst, const void *const *src, uint32_t nsrc, size_t count, uint32_t divisor)
{
    assert(divisor == 0);
    FN(reduce)(dst, src, nsrc, count, 0, VN(max));
}

static void FN(reduce_min)(void *dst, const void *const *src, uint32_t nsrc, size_t count, uint32_t divisor)
{
    assert(divisor == 0);
    FN(reduce)(dst, src, nsrc, count, 0, VN(min));
}

#ifdef HALF
static void FN(widen)(float *restrict dst, const void *restrict src, size_t count)
{
    const size_t full = count - count % LANES;
    const T *s = src;

#pragma omp simd
    for (size_t i = 0; i < full; i += LANES)
        VN(put)(dst + i, VN(clean)(FN(get)(s + i, LANES)), LANES);
    if (full < count)
        VN(put)(dst + full, VN(clean)(FN(get)(s + full, count - full)), count - full);
}

static void FN(narrow)(void *restrict dst, const float *restrict src, size_t count)
{
    const size_t full = count - count % LANES;
    T *d = dst;

#pragma omp simd
    for (size_t i = 0; i < full; i += LANES)
        FN(put)(d + i, VN(clean)(VN(get)(src + i, LANES)), LANES);
    if (full < count)
        FN(put)(d + full, VN(clean)(VN(get)(src + full, count - full)), count - full);
}
#endif

#undef T
#undef V
#undef LANES
#undef FN
#undef VN
#undef HALF
