/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH64 of bytes that come in pieces: finds damage, not forgery. As `xxhsum -H64` and Python's xxhash.xxh64() have it, with seed 0. */
#ifndef PLAIT_TRAIN_XXH64_H
#define PLAIT_TRAIN_XXH64_H

#include <stddef.h>
#include <stdint.h>

struct xxh64 {
    uint64_t lane[4];
    uint64_t total;    /* bytes so far */
    uint8_t block[32]; /* the last total % 32 of them */
};

void xxh64_begin(struct xxh64 *hash);
void xxh64_add(struct xxh64 *hash, const void *data, size_t bytes);
uint64_t xxh64_end(const struct xxh64 *hash);

#endif
