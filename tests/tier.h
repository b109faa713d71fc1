/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much a test tries: PLAIT_TEST_TIER is `full` (every case, minutes), `light` (fewer sizes and rank counts of the same
 * code: what the short run under sanitizers takes) or unset.
 */
#ifndef PLAIT_TESTS_TIER_H
#define PLAIT_TESTS_TIER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool tier_is(const char *name)
{
    const char *tier = getenv("PLAIT_TEST_TIER");
    return tier != NULL && strcmp(tier, name) == 0;
}

static inline bool full(void)
{
    return tier_is("full");
}

static inline bool light(void)
{
    return tier_is("light");
}

#endif
