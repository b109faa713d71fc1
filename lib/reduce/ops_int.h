/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of one integer type. Parameters, undefined at the end: T, and FN(x) for the functions' names. Overflow
 * wraps, so sums and products are computed unsigned; the compiler narrows them.
 */

PLAIT_DEVICE static inline T FN(sum)(T a, T b)
{
    return (T)((uint64_t)a + (uint64_t)b);
}

PLAIT_DEVICE static inline T FN(prod)(T a, T b)
{
    return (T)((uint64_t)a * (uint64_t)b);
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
#undef FN
