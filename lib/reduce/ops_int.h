/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of one integer type. Parameters, undefined at the end: T, the unsigned type U of the same size, and FN(x)
 * for the functions' names. Overflow wraps, so sums and products are computed unsigned.
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

/* Float and double vectorise, and are exact: a quotient that is no integer is at least 2^-8 (2^-32) below the next. */
PLAIT_DEVICE static inline T FN(quotient)(T v, uint32_t divisor)
{
    if (sizeof(T) == 1)
        return (T)((float)v / (float)divisor);
    return sizeof(T) == 4 ? (T)((double)v / (double)divisor) : (T)(v / (T)divisor);
}

PLAIT_DEVICE static inline T FN(clean)(T v)
{
    return v;
}

#undef T
#undef U
#undef FN
