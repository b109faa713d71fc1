/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floats of a type known at run time, as float32. A warp converts a row of elements: n of each lane, all of which are
 * loaded before the first is used. Lanes take turns by units, which are 16 bytes of the narrowest type in play: element
 * j of a lane is element j % unit of unit j / unit * 32 + lane. Which elements are a lane's, and their order, depends
 * on types alone, so sums over them do not depend on addresses.
 */
#ifndef PLAIT_CUDA_WIDTHS_H
#define PLAIT_CUDA_WIDTHS_H

#include "body.h"

typedef uint64_t __attribute__((may_alias)) plait_bits64;
typedef uint32_t __attribute__((may_alias)) plait_bits32;
typedef uint16_t __attribute__((may_alias)) plait_bits16;

BODY uint32_t plait_size_of(uint32_t type)
{
    switch (type) {
#define PLAIT_X(symbol, value, bytes, name) \
    case symbol:                            \
        return bytes;
        PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
    default:
        return 0;
    }
}

BODY bool plait_is_narrow(uint32_t type)
{
    return type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT8E4M3 || type == PLAIT_FLOAT8E5M2;
}

/* ---- Rows ------------------------------------------------------------------------------------------------- */

struct plait_row {
    uint32_t lane;
    uint32_t shift; /* a unit has 1 << shift elements: 4, 8 or 16 */
    uint32_t least; /* size of the narrowest type there may be */
    uint32_t left;  /* elements from the row's first on */
    bool wide;      /* all arrays are known to be accessed by lines */
};

/* The shift, if the narrowest type has `size` bytes. */
BODY uint32_t plait_shift_of(uint32_t size)
{
    return size == 4 ? 2 : size == 2 ? 3 : 4;
}

/* The index in the row of element j of the lane. */
BODY uint32_t plait_row_at(const struct plait_row *r, uint32_t j)
{
    return (((j >> r->shift) * PLAIT_CUDA_WARP + r->lane) << r->shift) + (j & ((1U << r->shift) - 1));
}

/* May the array be accessed by lines? There is no part of a unit then. */
BODY bool plait_row_is_wide(const struct plait_row *r, const void *p, uint32_t n)
{
    return r->wide || (plait_is_line(p) && (r->left >= n * PLAIT_CUDA_WARP || (r->left & ((1U << r->shift) - 1)) == 0));
}

/* A lane's elements as bits, one after the other: word[] of n * size bytes. Those that are not there are 0. */
BODY void plait_lines_get(uint32_t *word, const char *p, uint32_t size, const struct plait_row *r, uint32_t n)
{
    const uint32_t each = (uint32_t)sizeof(struct plait_line) / size;

    UNROLL for (uint32_t l = 0; l < n / each; l++)
    {
        const uint32_t i = plait_row_at(r, l * each);
        struct plait_line line = { { 0, 0, 0, 0 } };
        if (i < r->left)
            line = plait_line_get(p + (uint64_t)i * size);
        UNROLL for (uint32_t k = 0; k < 4; k++) word[4 * l + k] = line.word[k];
    }
}

BODY void plait_lines_put(char *p, const uint32_t *word, uint32_t size, const struct plait_row *r, uint32_t n)
{
    const uint32_t each = (uint32_t)sizeof(struct plait_line) / size;

    UNROLL for (uint32_t l = 0; l < n / each; l++)
    {
        const uint32_t i = plait_row_at(r, l * each);
        const struct plait_line line = { { word[4 * l], word[4 * l + 1], word[4 * l + 2], word[4 * l + 3] } };
        if (i < r->left)
            plait_line_put(p + (uint64_t)i * size, line);
    }
}

/*
 * The same for float32 in units of two lines. The device writes sectors of 32 bytes, so two neighbours exchange lines:
 * first both write the unit of the even lane, then that of the odd one.
 */
BODY void plait_pairs_put(char *p, const uint32_t *word, const struct plait_row *r, uint32_t n)
{
#ifdef __CUDACC__
    const bool odd = r->lane % 2 != 0;

    UNROLL for (uint32_t l = 0; l < n / 8; l++)
    {
        const uint32_t *first = word + 8 * l, *second = first + 4;
        const uint32_t even = (l * PLAIT_CUDA_WARP + r->lane - odd) * 8;
        uint32_t got[4];
        UNROLL for (uint32_t k = 0; k < 4; k++) got[k] = __shfl_xor_sync(0xffffffff, odd ? first[k] : second[k], 1);
        const struct plait_line mine = { { odd ? got[0] : first[0], odd ? got[1] : first[1], odd ? got[2] : first[2],
                                           odd ? got[3] : first[3] } };
        const struct plait_line other = { { odd ? second[0] : got[0], odd ? second[1] : got[1],
                                            odd ? second[2] : got[2], odd ? second[3] : got[3] } };
        if (even < r->left)
            plait_line_put(p + (uint64_t)even * 4 + odd * 16, mine);
        if (even + 8 < r->left)
            plait_line_put(p + (uint64_t)even * 4 + 32 + odd * 16, other);
    }
#else
    plait_lines_put(p, word, 4, r, n);
#endif
}

BODY void plait_bits_get(uint32_t *word, const char *p, uint32_t size, const struct plait_row *r, uint32_t n)
{
    UNROLL for (uint32_t j = 0; j < n; j++)
    {
        const uint32_t i = plait_row_at(r, j), bit = j * size % 4 * 8;
        uint32_t bits = 0;
        if (i < r->left)
            bits = size == 4   ? ((const plait_bits32 *)(const void *)p)[i]
                   : size == 2 ? ((const plait_bits16 *)(const void *)p)[i]
                               : ((const uint8_t *)p)[i];
        word[j * size / 4] = (bit == 0 ? 0 : word[j * size / 4]) | bits << bit;
    }
}

BODY void plait_bits_put(char *p, const uint32_t *word, uint32_t size, const struct plait_row *r, uint32_t n)
{
    UNROLL for (uint32_t j = 0; j < n; j++)
    {
        const uint32_t i = plait_row_at(r, j), bits = word[j * size / 4] >> j * size % 4 * 8;
        if (i >= r->left)
            continue;
        if (size == 4)
            ((plait_bits32 *)(void *)p)[i] = bits;
        else if (size == 2)
            ((plait_bits16 *)(void *)p)[i] = (uint16_t)bits;
        else
            ((uint8_t *)p)[i] = (uint8_t)bits;
    }
}

/* Units of 8 elements of one byte. */
BODY void plait_octets_get(uint32_t *word, const char *p, const struct plait_row *r, uint32_t n)
{
    UNROLL for (uint32_t l = 0; l < n / 8; l++)
    {
        const uint32_t i = plait_row_at(r, l * 8);
        const uint64_t bits = i < r->left ? *(const plait_bits64 *)(const void *)(p + i) : 0;
        word[2 * l] = (uint32_t)bits;
        word[2 * l + 1] = (uint32_t)(bits >> 32);
    }
}

BODY void plait_octets_put(char *p, const uint32_t *word, const struct plait_row *r, uint32_t n)
{
    UNROLL for (uint32_t l = 0; l < n / 8; l++)
    {
        const uint32_t i = plait_row_at(r, l * 8);
        if (i < r->left)
            *(plait_bits64 *)(void *)(p + i) = word[2 * l] | (uint64_t)word[2 * l + 1] << 32;
    }
}

BODY void plait_some_get(uint32_t *word, const char *p, uint32_t size, const struct plait_row *r, uint32_t n)
{
    if (plait_row_is_wide(r, p, n) && size == 1 && r->shift == 3)
        plait_octets_get(word, p, r, n);
    else if (plait_row_is_wide(r, p, n))
        plait_lines_get(word, p, size, r, n);
    else
        plait_bits_get(word, p, size, r, n);
}

BODY void plait_some_put(char *p, const uint32_t *word, uint32_t size, const struct plait_row *r, uint32_t n)
{
    if (!plait_row_is_wide(r, p, n))
        plait_bits_put(p, word, size, r, n);
    else if (size == 1 && r->shift == 3)
        plait_octets_put(p, word, r, n);
    else if (size == 4 && r->shift == 3)
        plait_pairs_put(p, word, r, n);
    else
        plait_lines_put(p, word, size, r, n);
}

/*
 * Kernels choose a constant shift (PLAIT_BY_SIZE), so that offsets are constants and word[] is in registers. Each
 * branch below has a constant size; those that `least` excludes are not compiled.
 */
BODY void plait_row_get(uint32_t *word, const char *p, uint32_t size, const struct plait_row *r, uint32_t n)
{
    GLOBAL(p);
    if (size == 4 || r->least == 4)
        plait_some_get(word, p, 4, r, n);
    else if (size == 2 || r->least == 2)
        plait_some_get(word, p, 2, r, n);
    else
        plait_some_get(word, p, 1, r, n);
}

BODY void plait_row_put(char *p, const uint32_t *word, uint32_t size, const struct plait_row *r, uint32_t n)
{
    GLOBAL(p);
    if (size == 4 || r->least == 4)
        plait_some_put(p, word, 4, r, n);
    else if (size == 2 || r->least == 2)
        plait_some_put(p, word, 2, r, n);
    else
        plait_some_put(p, word, 1, r, n);
}

/* Calls f with the size of the narrowest type as a constant. */
#define PLAIT_BY_SIZE(size, f) ((size) == 4 ? f(4) : (size) == 2 ? f(2) : f(1))

/* ---- Bits to numbers and back --------------------------------------------------------------------------------- */

BODY uint16_t plait_half_of(const uint32_t *word, uint32_t j)
{
    return (uint16_t)(word[j / 2] >> j % 2 * 16);
}

BODY uint8_t plait_byte_of(const uint32_t *word, uint32_t j)
{
    return (uint8_t)(word[j / 4] >> j % 4 * 8);
}

BODY void plait_widen(float *v, uint32_t type, const uint32_t *word, const struct plait_row *r, uint32_t n)
{
    if (type == PLAIT_FLOAT32 || r->least == 4)
        UNROLL for (uint32_t j = 0; j < n; j++) v[j] = from_bits_f32(word[j]);
    else if (type == PLAIT_FLOAT16)
        UNROLL for (uint32_t j = 0; j < n; j++) v[j] = plait_get_f16(plait_half_of(word, j));
    else if (type == PLAIT_BFLOAT16 || r->least == 2)
        UNROLL for (uint32_t j = 0; j < n; j++) v[j] = from_bf16_f32(plait_half_of(word, j));
    else if (type == PLAIT_FLOAT8E4M3)
        UNROLL for (uint32_t j = 0; j < n; j++) v[j] = from_narrow_f32(plait_byte_of(word, j), &e4m3);
    else
        UNROLL for (uint32_t j = 0; j < n; j++) v[j] = from_narrow_f32(plait_byte_of(word, j), &e5m2);
}

/* word[j * size / 4] gets bits. */
BODY void plait_half_to(uint32_t *word, uint32_t j, uint32_t bits)
{
    word[j / 2] = j % 2 == 0 ? bits : word[j / 2] | bits << 16;
}

BODY void plait_byte_to(uint32_t *word, uint32_t j, uint32_t bits)
{
    word[j / 4] = j % 4 == 0 ? bits : word[j / 4] | bits << j % 4 * 8;
}

BODY void plait_narrow(uint32_t *word, uint32_t type, const float *v, const struct plait_row *r, uint32_t n)
{
    if (type == PLAIT_FLOAT32 || r->least == 4)
        UNROLL for (uint32_t j = 0; j < n; j++) word[j] = bits_f32(v[j]);
    else if (type == PLAIT_FLOAT16)
        UNROLL for (uint32_t j = 0; j < n; j++) plait_half_to(word, j, plait_put_f16(v[j]));
    else if (type == PLAIT_BFLOAT16 || r->least == 2)
        UNROLL for (uint32_t j = 0; j < n; j++) plait_half_to(word, j, to_bf16_f32(v[j]));
    else if (type == PLAIT_FLOAT8E4M3)
        UNROLL for (uint32_t j = 0; j < n; j++) plait_byte_to(word, j, to_narrow_f32(v[j], &e4m3));
    else
        UNROLL for (uint32_t j = 0; j < n; j++) plait_byte_to(word, j, to_narrow_f32(v[j], &e5m2));
}

#endif
