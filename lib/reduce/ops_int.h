/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of one integer type. Parameters, undefined at the end: T, the unsigned type U of the same size, FN(x) for
 * the functions' names, and QUOTIENT(v, n). Overflow wraps, so sums and products are computed unsigned.
 */

PLAIT_DEVICE static inline T FN(sum)(T a, T b)
{
    return (T)((U)a + (U)b);
}

PLAIT_DEVICE static inline T FN(prod)(T a, T b)
{
    return (T)((U)a * (U)b);
}

PLAIT_DEVICE static inline T FN(min)(T a, T b)
{
    return a < b ? a : b;
}

PLAIT_DEVICE static inline T FN(max)(T a, T b)
{
    return a > b ? a : b;
}

PLAIT_DEVICE static inline T FN(quotient)(T v, uint32_t divisor)
{
    return QUOTIENT(v, divisor);
}

PLAIT_DEVICE static inline T FN(clean)(T v)
{
    return v;
}

#undef T
#undef U
#undef FN
#undef QUOTIENT
