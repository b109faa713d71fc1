/* SPDX-License-Identifier: BSD-3-Clause */
/* FNV-1a (64 bits), for fingerprints that machines of one byte order compare; not secure against attackers. */
#ifndef PLAIT_LIB_BASE_HASH_H
#define PLAIT_LIB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define PLAIT_HASH_START 0xcbf29ce484222325ull

static inline uint64_t plait_hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

#endif
