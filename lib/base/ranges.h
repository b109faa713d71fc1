/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of the caller's memory that must not overlap. */
#ifndef PLAIT_LIB_BASE_RANGES_H
#define PLAIT_LIB_BASE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct plait_range {
    uintptr_t start, end; /* addresses; start < end */
    uint32_t number;      /* returned in `pair` */
};

/* Do two of them overlap? pair: their numbers, the lower one first. Sorts `ranges`. */
bool plait_ranges_overlap(struct plait_range *ranges, uint32_t n, uint32_t pair[2]);

#endif
