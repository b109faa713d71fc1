/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of one IEEE type, or of a vector of floats. Parameters, undefined at the end:
 *
 *   T        the type
 *   U, S     the integers of the same size, unsigned and signed
 *   FN(x)    the name of this type's functions
 *   QUIET    the bits of the canonical NaN
 * For a vector also:
 *   E        the type of its elements
 *   ALL(x)   a U with x in every element
 *   MASK(c)  a U with all bits set in the elements where the comparison c holds, else none
 *   SELECT(c, a, b), CHOOSE(m, a, b)  the elements of a where c holds, or the mask m is set, else of b; of type T, U
 * NARROW, with float and vectors: define the conversions of 16- and 8-bit floats.
 *
 * In min and max, the comparison selects b when the operands are equal or one is a NaN. Equal operands have equal bits,
 * except zeros: there "or" gives -0 (min) and "and" gives +0 (max). A NaN in a must win. Compilers turn the masks into
 * MINPS and two compares.
 */
#ifndef E
#define E               T
#define ALL(x)          (x)
#define MASK(c)         (-(U)(c))
#define SELECT(c, a, b) ((c) ? (a) : (b))
#define CHOOSE(m, a, b) (((a) & (m)) | ((b) & ~(m)))
#endif

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
    const U less = FN(bits)(SELECT(a < b, a, b));
    const U zero = FN(bits)(a) & MASK(a == b);

    return SELECT(a != a, a, FN(from_bits)(less | zero));
}

PLAIT_DEVICE static inline T FN(max)(T a, T b)
{
    const U more = FN(bits)(SELECT(a > b, a, b));
    const U zero = FN(bits)(a) | MASK(a != b);

    return SELECT(a != a, a, FN(from_bits)(more & zero));
}

PLAIT_DEVICE static inline T FN(quotient)(T v, uint32_t divisor)
{
    return v / (E)divisor;
}

PLAIT_DEVICE static inline T FN(clean)(T v)
{
    return SELECT(v != v, FN(from_bits)(ALL(QUIET)), v);
}

#ifdef NARROW
PLAIT_DEVICE static inline T FN(from_bf16)(U half)
{
    return FN(from_bits)(half << 16);
}

/* v is never a NaN other than the canonical one, which rounding leaves unchanged. */
PLAIT_DEVICE static inline U FN(to_bf16)(T v)
{
    const U u = FN(bits)(v);

    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

/* See struct narrow_format. */
PLAIT_DEVICE static inline T FN(from_narrow)(U bits, const struct narrow_format *f)
{
    const U size = bits & 0x7fffffffu >> f->left;
    const U sign = bits << f->left & 0x80000000;
    const U shifted = size << f->shift;
    const U denormal = FN(bits)(FN(from_bits)(shifted + bits_f32(f->least)) - f->least);
    const U number = CHOOSE(MASK((S)size < 1 << (23 - f->shift)), denormal, shifted + f->bias);
    const U special = MASK((S)size >= (int32_t)f->special) & 0x7f800000;

    return FN(from_bits)(sign | number | special);
}

PLAIT_DEVICE static inline U FN(to_narrow)(T v, const struct narrow_format *f)
{
    const U sign = FN(bits)(v) >> f->left & (1u << (31 - f->left));
    const U size = FN(bits)(v) & 0x7fffffff;
    const U u = CHOOSE(MASK(FN(from_bits)(size) < f->most), size, ALL(bits_f32(f->most)));
    const T limited = FN(from_bits)(u);
    const U denormal = FN(bits)(limited + f->unit) - bits_f32(f->unit);
    const uint32_t half = (1u << (f->shift - 1)) - 1;
    const U normal = (u - f->bias + half + (u >> f->shift & 1)) >> f->shift;
    const U number = CHOOSE(MASK(limited < f->least), denormal, normal);

    return CHOOSE(MASK(v != v), ALL(f->nan), sign | number);
}
#undef NARROW
#endif

#undef T
#undef E
#undef U
#undef S
#undef FN
#undef QUIET
#undef ALL
#undef MASK
#undef SELECT
#undef CHOOSE
