/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process holds, for tests that it does not grow. */
#ifndef PLAIT_TESTS_USAGE_H
#define PLAIT_TESTS_USAGE_H

#include <stddef.h>

struct usage {
    int descriptors, mappings; /* but the heap's */
    size_t resident;           /* bytes that are not shared */
    /* Bytes of memory behind it. A peer's last looks at a block that is gone bring pages of zeros back; the next block
     * in this place takes them. */
    size_t arena;
    size_t heap; /* bytes in use: the caller's */
};

/* heap: as each test counts it, before this function takes any. */
struct usage usage_now(size_t heap);

#endif
