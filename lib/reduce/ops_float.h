/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of one IEEE type. Parameters, undefined at the end: T, the unsigned type U of the same size, FN(x) for the
 * functions' names, and QUIET, the bits of the canonical NaN.
 *
 * In min and max, the comparison selects b when the operands are equal or one is a NaN. Equal operands have equal bits,
 * except zeros: there "or" gives -0 (min) and "and" gives +0 (max). A NaN in a must win. Compilers turn the masks into
 * MINPS and two compares.
 */

PLAIT_DEVICE static inline U FN(bits)(T v)
{
    U u;

    memcpy(&u, &v, sizeof u);
    return u;
}

PLAIT_DEVICE static inline T FN(from_bits)(U u)
{
    T v;

    memcpy(&v, &u, sizeof v);
    return v;
}

PLAIT_DEVICE static inline T FN(sum)(T a, T b)
{
    return a + b;
}

PLAIT_DEVICE static inline T FN(prod)(T a, T b)
{
    return a * b;
}

PLAIT_DEVICE static inline T FN(min)(T a, T b)
{
    const U less = FN(bits)(a < b ? a : b);
    const U zero = FN(bits)(a) & -(U)(a == b);

    return a != a ? a : FN(from_bits)(less | zero);
}

PLAIT_DEVICE static inline T FN(max)(T a, T b)
{
    const U more = FN(bits)(a > b ? a : b);
    const U zero = FN(bits)(a) | -(U)(a != b);

    return a != a ? a : FN(from_bits)(more & zero);
}

PLAIT_DEVICE static inline T FN(quotient)(T v, uint32_t divisor)
{
    return v / (T)divisor;
}

PLAIT_DEVICE static inline T FN(clean)(T v)
{
    return v != v ? FN(from_bits)(QUIET) : v;
}

#undef T
#undef U
#undef FN
#undef QUIET
