/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes: of memory, and as settings and command lines write them: "64K", "1M". */
#ifndef PLAIT_LIB_BASE_BYTES_H
#define PLAIT_LIB_BASE_BYTES_H

#include "ascii.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>

#define PLAIT_MOST_BYTES  ((size_t)1 << 47) /* the address space of a process */
#define PLAIT_LINE        64                /* of a cache line; aligns data that must not share one */
#define PLAIT_ROUND_UP(n) (((n) + PLAIT_LINE - 1) & ~(size_t)(PLAIT_LINE - 1)) /* to whole cache lines */

/*
 * Digits, then at most one of B, K, M, G (1, 2^10, 2^20, 2^30), also KB and KiB and so on; either case. False on
 * anything else and on overflow.
 */
static inline bool plait_parse_bytes(const char *text, size_t *out)
{
    size_t value = 0;
    int shift = 0;

    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(value, (size_t)10, &value) ||
            __builtin_add_overflow(value, (size_t)(*text - '0'), &value))
            return false;
    switch (plait_upper(*text)) {
    case 'G':
        shift += 10;
        /* fall through */
    case 'M':
        shift += 10;
        /* fall through */
    case 'K':
        shift += 10;
        text++;
        text += plait_upper(text[0]) == 'I' && plait_upper(text[1]) == 'B';
    }
    text += plait_upper(*text) == 'B';
    if (*text != '\0' || __builtin_mul_overflow(value, (size_t)1 << shift, &value))
        return false;
    *out = value;
    return true;
}

#endif
