/* SPDX-License-Identifier: BSD-3-Clause */
/* Source: Collet, the xxHash algorithm description (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). */
#include "xxh64.h"

#include <string.h>

#define PRIME1 UINT64_C(0x9e3779b185ebca87)
#define PRIME2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME3 UINT64_C(0x165667b19e3779f9)
#define PRIME4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME5 UINT64_C(0x27d4eb2f165667c5)

enum { BLOCK = sizeof((struct xxh64 *)0)->block };

static uint64_t rotated(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t mixed(uint64_t lane, uint64_t word)
{
    return rotated(lane + word * PRIME2, 31) * PRIME1;
}

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

void xxh64_begin(struct xxh64 *h)
{
    *h = (struct xxh64){ .lane = { PRIME1 + PRIME2, PRIME2, 0, -PRIME1 } };
}

/* Whole blocks. */
static void add_blocks(struct xxh64 *h, const uint8_t *at, size_t n)
{
    uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2], d = h->lane[3];

    for (; n > 0; n--, at += BLOCK) {
        a = mixed(a, word_at(at));
        b = mixed(b, word_at(at + 8));
        c = mixed(c, word_at(at + 16));
        d = mixed(d, word_at(at + 24));
    }
    h->lane[0] = a;
    h->lane[1] = b;
    h->lane[2] = c;
    h->lane[3] = d;
}

void xxh64_add(struct xxh64 *h, const void *data, size_t bytes)
{
    const size_t kept = h->total % BLOCK;
    const uint8_t *at = data;

    if (bytes == 0)
        return;
    h->total += bytes;
    if (kept > 0) {
        const size_t n = bytes < BLOCK - kept ? bytes : BLOCK - kept;
        memcpy(h->block + kept, at, n);
        if (kept + n < BLOCK)
            return;
        add_blocks(h, h->block, 1);
        at += n;
        bytes -= n;
    }
    add_blocks(h, at, bytes / BLOCK);
    memcpy(h->block, at + bytes / BLOCK * BLOCK, bytes % BLOCK);
}

/* The words, the half word and the bytes behind the last block. */
static uint64_t with_rest(uint64_t hash, const uint8_t *at, size_t n)
{
    uint32_t half;

    for (; n >= 8; n -= 8, at += 8)
        hash = rotated(hash ^ mixed(0, word_at(at)), 27) * PRIME1 + PRIME4;
    if (n >= 4) {
        memcpy(&half, at, sizeof half);
        hash = rotated(hash ^ half * PRIME1, 23) * PRIME2 + PRIME3;
        n -= 4;
        at += 4;
    }
    for (; n > 0; n--, at++)
        hash = rotated(hash ^ *at * PRIME5, 11) * PRIME1;
    return hash;
}

uint64_t xxh64_end(const struct xxh64 *h)
{
    static const unsigned by[] = { 1, 7, 12, 18 };
    uint64_t hash = 0;

    for (unsigned k = 0; k < 4; k++)
        hash += rotated(h->lane[k], by[k]);
    for (unsigned k = 0; k < 4; k++)
        hash = (hash ^ mixed(0, h->lane[k])) * PRIME1 + PRIME4;
    if (h->total < BLOCK)
        hash = PRIME5;
    hash = with_rest(hash + h->total, h->block, h->total % BLOCK);
    hash = (hash ^ hash >> 33) * PRIME2;
    hash = (hash ^ hash >> 29) * PRIME3;
    return hash ^ hash >> 32;
}
