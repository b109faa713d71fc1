/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash of a safetensors file, for reading and writing it. */
#ifndef PLAIT_TRAIN_SAFETENSORS_HASH_H
#define PLAIT_TRAIN_SAFETENSORS_HASH_H

#include "safetensors.h"

#define XXH_STATIC_LINKING_ONLY /* declares the state struct, for a state on the stack */
#include <xxhash.h>

/*
 * The header of our files begins with a hash of everything after the header's length, computed with zeros for its own
 * digits. It detects damage anywhere, also in the header.
 */
#define HASH   "xxh64" /* name of the note, and of the algorithm in `xxhsum` */
#define HASHED "{\"__metadata__\":{\"" HASH "\":\""
#define ZEROS  "0000000000000000"
enum { BEFORE = sizeof HASHED - 1, DIGITS = sizeof ZEROS - 1 };

void hash_print(const XXH64_state_t *hash, char out[DIGITS + 1]);

/* entry_bytes() of an entry that has been checked. */
uint64_t entry_known_bytes(const struct entry *e);

#endif
