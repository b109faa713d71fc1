/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops over one element type, included once per type and instruction set. Parameters, undefined at the end:
 *
 *   T        the stored type
 *   FN(x)    the name of this type's functions
 *   GET(p, k), PUT(p, v, k)  16- and 8-bit floats only: load and store k elements as a unit of the instruction set's:
 *                            HALF_V, with HALF_LANES elements, HALF_VN(x), HALF_GET_WIDE and HALF_PUT_WIDE for float
 *
 * A unit of computation is V, one value or a vector register of LANES values; VN(x) names its arithmetic: sum, prod,
 * min, max, quotient, clean.
 *
 * With LANES == 1 the compiler vectorises. dst may equal one of the sources, element for element, so there is no
 * restrict. "omp simd" tells the compiler that no other overlap exists. Some compilers apply it only to accesses
 * written in the loop itself, hence GET and PUT are macros.
 *
 * Up to four sources are combined in registers. More sources are combined block by block, each small enough for L1.
 * Groups of four go onto a stack of partial results and merge like the digits of a binary counter, which gives the
 * canonical order E(n). A merge waits for the next group, so that two partial results remain for the loop that writes
 * dst. Each source is read once and dst is written once.
 */
#ifdef GET
#define V        HALF_V
#define LANES    HALF_LANES
#define VN       HALF_VN
#define GET_WIDE HALF_GET_WIDE
#define PUT_WIDE HALF_PUT_WIDE
#else
#define V            T
#define LANES        1
#define VN           FN
#define GET(p, k)    (*(p))
#define PUT(p, v, k) (*(p) = (v))
#endif

/* For each unit of `to`, and for what is left: store `value`, an expression of the k elements from element i on. */
#define EACH_UNIT(STORE, to, value)                                  \
    do {                                                             \
        const size_t full = count - count % LANES;                   \
        _Pragma("omp simd") for (size_t i = 0; i < full; i += LANES) \
        {                                                            \
            enum { k = LANES };                                      \
            STORE((to) + i, value, k);                               \
        }                                                            \
        for (size_t i = full, k = count - full; k > 0; k = 0)        \
            STORE((to) + i, value, k);                               \
    } while (0)

/* The canonical combination of the first g of four units. */
static inline __attribute__((always_inline)) V FN(leaf)(unsigned g, V a, V b, V c, V d, V (*op)(V, V))
{
    if (g == 1)
        return a;
    if (g == 2)
        return op(a, b);
    if (g == 3)
        return op(op(a, b), c);
    return op(op(a, b), op(c, d));
}

#define LEAF(i, k) FN(leaf)(g, GET(s[0] + (i), k), GET(s[1] + (i), k), GET(s[2] + (i), k), GET(s[3] + (i), k), op)

/* d = the combination of the first g of s, from memory to memory. The other pointers are valid but not read. */
static inline __attribute__((always_inline)) void FN(direct)(T *d, const T *const s[4], unsigned g, size_t count,
                                                             V (*op)(V, V))
{
    EACH_UNIT(PUT, d, VN(clean)(LEAF(i, k)));
}

/* acc = the combination of the first g of s, as units. */
static inline __attribute__((always_inline)) void FN(group)(V *restrict acc, const T *const s[4], unsigned g,
                                                            size_t count, V (*op)(V, V))
{
    const size_t nunit = count / LANES;

#pragma omp simd
    for (size_t j = 0; j < nunit; j++)
        acc[j] = LEAF(j * LANES, LANES);
    if (nunit * LANES < count)
        acc[nunit] = LEAF(nunit * LANES, count - nunit * LANES);
}

#undef LEAF

/* Same as group, for g known only at run time. */
static inline __attribute__((always_inline)) void FN(push)(V *restrict acc, const void *const *src, unsigned g,
                                                           size_t offset, size_t count, V (*op)(V, V))
{
    const T *s[4];

    for (unsigned i = 0; i < 4; i++)
        s[i] = (const T *)src[i < g ? i : 0] + offset;
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
    EACH_UNIT(PUT, d, VN(clean)(op(a[i / LANES], b[i / LANES])));
}

static void FN(divide)(T *restrict d, const V *restrict a, size_t count, uint32_t divisor)
{
    EACH_UNIT(PUT, d, VN(clean)(VN(quotient)(a[i / LANES], divisor)));
}

/* Any number of sources, or an average. */
static inline __attribute__((always_inline)) void FN(blocks)(T *d, const void *const *src, uint32_t nsrc, size_t count,
                                                             uint32_t divisor, V (*op)(V, V))
{
    enum { UNITS = 1536 / sizeof(V), BLOCK = UNITS * LANES };
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
    const T *const s[4] = { src[0], src[nsrc > 1 ? 1 : 0], src[nsrc > 2 ? 2 : 0], src[nsrc > 3 ? 3 : 0] };

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

/* The kernel of an operator: FN(reduce_sum) and so on. */
#define REDUCE(op, divisor)                                                                     \
    static void FN(reduce_##op)(void *dst, const void *const *src, uint32_t nsrc, size_t count, \
                                const struct plait_how *how)                                    \
    {                                                                                           \
        (void)how;                                                                              \
        FN(reduce)(dst, src, nsrc, count, divisor, VN(op));                                     \
    }
REDUCE(sum, how->divisor) /* also for averages */
REDUCE(prod, 0)
REDUCE(max, 0)
REDUCE(min, 0)
#undef REDUCE

static void FN(scale)(void *dst, const void *src, size_t count, const void *scalar)
{
    const T *s = src;
    T *d = dst, same[LANES];

    for (size_t i = 0; i < LANES; i++)
        memcpy(&same[i], scalar, sizeof(T));
    const V by = GET(same, LANES);
    EACH_UNIT(PUT, d, VN(clean)(VN(prod)(GET(s + i, k), by)));
}

#ifdef GET_WIDE
/* The factor in all lanes of a unit. */
static inline __attribute__((always_inline)) V FN(wide_factor)(float factor)
{
    float same[LANES];

    for (size_t i = 0; i < LANES; i++)
        same[i] = factor;
    return GET_WIDE(same, LANES);
}

static void FN(widen)(float *restrict dst, const void *restrict src, size_t count, float factor)
{
    const V by = FN(wide_factor)(factor);
    const T *s = src;

    EACH_UNIT(PUT_WIDE, dst, VN(clean)(VN(prod)(GET(s + i, k), by)));
}

static void FN(narrow)(void *restrict dst, const float *restrict src, size_t count, float factor)
{
    const V by = FN(wide_factor)(factor);
    T *d = dst;

    EACH_UNIT(PUT, d, VN(clean)(VN(prod)(GET_WIDE(src + i, k), by)));
}
#endif

#undef EACH_UNIT
#undef T
#undef V
#undef LANES
#undef FN
#undef VN
#undef GET
#undef PUT
#undef GET_WIDE
#undef PUT_WIDE
