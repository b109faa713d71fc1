/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of the caller's memory that must not overlap. */
#ifndef PLAIT_LIB_BASE_RANGES_H
#define PLAIT_LIB_BASE_RANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct plait_range {
    uintptr_t start, end; /* addresses; start < end */
    uint32_t number;      /* returned in `pair` */
};

static inline int plait_by_start(const void *a, const void *b)
{
    const struct plait_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Do two of them overlap? pair: their numbers, the lower one first. Sorts `ranges`. */
static inline bool plait_ranges_overlap(struct plait_range *ranges, uint32_t n, uint32_t pair[2])
{
    qsort(ranges, n, sizeof *ranges, plait_by_start);
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t a = ranges[i - 1].number, b = ranges[i].number;
        if (ranges[i].start >= ranges[i - 1].end)
            continue;
        pair[0] = a < b ? a : b;
        pair[1] = a < b ? b : a;
        return true;
    }
    return false;
}

#endif
