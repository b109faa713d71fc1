/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_CLOCK_H
#define PLAIT_LIB_CLOCK_H

#include <time.h>

/* Monotonic seconds. */
static inline double plait_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
