/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats of a type known at run time, eight at a time, as float32. */
#ifndef PLAIT_CUDA_WIDTHS_H
#define PLAIT_CUDA_WIDTHS_H

#include "body.h"

enum { PLAIT_EIGHT = 8 };

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

BODY float plait_widen(uint32_t type, uint32_t bits)
{
    switch (type) {
    case PLAIT_FLOAT16:
        return plait_get_f16((uint16_t)bits);
    case PLAIT_BFLOAT16:
        return from_bf16((uint16_t)bits);
    case PLAIT_FLOAT8E4M3:
        return from_f8((uint8_t)bits, &e4m3);
    case PLAIT_FLOAT8E5M2:
        return from_f8((uint8_t)bits, &e5m2);
    default:
        return from_bits_f32(bits);
    }
}

BODY uint32_t plait_narrow(uint32_t type, float v)
{
    switch (type) {
    case PLAIT_FLOAT16:
        return plait_put_f16(v);
    case PLAIT_BFLOAT16:
        return to_bf16(v);
    case PLAIT_FLOAT8E4M3:
        return to_f8(v, &e4m3);
    case PLAIT_FLOAT8E5M2:
        return to_f8(v, &e5m2);
    default:
        return bits_f32(v);
    }
}

BODY float plait_one_get(uint32_t type, const void *p, uint64_t i)
{
    switch (plait_size_of(type)) {
    case 1:
        return plait_widen(type, ((const uint8_t *)p)[i]);
    case 2:
        return plait_widen(type, ((const uint16_t *)p)[i]);
    default:
        return ((const float *)p)[i];
    }
}

BODY void plait_one_put(uint32_t type, void *p, uint64_t i, float v)
{
    switch (plait_size_of(type)) {
    case 1:
        ((uint8_t *)p)[i] = (uint8_t)plait_narrow(type, v);
        return;
    case 2:
        ((uint16_t *)p)[i] = (uint16_t)plait_narrow(type, v);
        return;
    default:
        ((float *)p)[i] = v;
        return;
    }
}

/* Eight elements in few accesses: one or two of 16 bytes, for 8-bit floats two of 4. */
BODY bool plait_is_eight(const void *p, uint32_t size)
{
    return (uintptr_t)p % (size == 1 ? 4 : 16) == 0;
}

/* The bits of element k. */
BODY uint32_t plait_bits_of(const uint32_t *word, uint32_t size, uint32_t k)
{
    return size == 4 ? word[k] : size == 2 ? word[k / 2] >> k % 2 * 16 & 0xffff : word[k / 4] >> k % 4 * 8 & 0xff;
}

BODY void plait_words_get(uint32_t *word, const char *p, uint32_t size)
{
    if (size == 1) {
        word[0] = ((const uint32_t *)(const void *)p)[0];
        word[1] = ((const uint32_t *)(const void *)p)[1];
        return;
    }
    const struct plait_line first = plait_line_get(p), second = plait_line_get(size == 4 ? p + 16 : p);
    for (uint32_t w = 0; w < 4; w++) {
        word[w] = first.word[w];
        word[w + 4] = second.word[w];
    }
}

BODY void plait_words_put(char *p, const uint32_t *word, uint32_t size)
{
    if (size == 1) {
        ((uint32_t *)(void *)p)[0] = word[0];
        ((uint32_t *)(void *)p)[1] = word[1];
        return;
    }
    plait_line_put(p, (struct plait_line){ { word[0], word[1], word[2], word[3] } });
    if (size == 4)
        plait_line_put(p + 16, (struct plait_line){ { word[4], word[5], word[6], word[7] } });
}

/* v[0 .. n - 1] = elements i .. i + n - 1, n <= 8; the rest of v is 0. */
BODY void plait_eight_get(float *v, uint32_t type, const void *array, uint64_t i, uint32_t n)
{
    const uint32_t size = plait_size_of(type);
    const char *p = (const char *)array + i * size;
    uint32_t word[PLAIT_EIGHT] = { 0 };

    if (n == PLAIT_EIGHT && plait_is_eight(p, size)) {
        plait_words_get(word, p, size);
        UNROLL for (uint32_t k = 0; k < PLAIT_EIGHT; k++) v[k] = plait_widen(type, plait_bits_of(word, size, k));
        return;
    }
    UNROLL for (uint32_t k = 0; k < PLAIT_EIGHT; k++) if (k < n) v[k] = plait_one_get(type, p, k);
}

BODY void plait_eight_put(uint32_t type, void *array, uint64_t i, uint32_t n, const float *v)
{
    const uint32_t size = plait_size_of(type);
    char *p = (char *)array + i * size;
    uint32_t word[PLAIT_EIGHT] = { 0 };

    if (n == PLAIT_EIGHT && plait_is_eight(p, size)) {
        UNROLL for (uint32_t k = 0; k < PLAIT_EIGHT; k++)
        {
            const uint32_t bits = plait_narrow(type, v[k]);
            if (size == 4)
                word[k] = bits;
            else if (size == 2)
                word[k / 2] |= bits << k % 2 * 16;
            else
                word[k / 4] |= bits << k % 4 * 8;
        }
        plait_words_put(p, word, size);
        return;
    }
    UNROLL for (uint32_t k = 0; k < PLAIT_EIGHT; k++) if (k < n) plait_one_put(type, p, k, v[k]);
}

/* The value of v after it is stored. */
BODY float plait_stored(uint32_t type, float v)
{
    return plait_widen(type, plait_narrow(type, v));
}

#endif
