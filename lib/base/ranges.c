/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranges.h"

#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
    const struct plait_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

bool plait_ranges_overlap(struct plait_range *ranges, uint32_t n, uint32_t pair[2])
{
    qsort(ranges, n, sizeof *ranges, by_start);
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
