/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_BASE_CLOCK_H
#define PLAIT_LIB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/*
 * Seconds: a deadline of servers, which wait for workers without a limit. The wait still fails if a needed rank of
 * another host is unheard for the comm's own deadline.
 */
#define PLAIT_FOREVER 1e9

/* Monotonic nanoseconds; all processes of a machine share the clock. */
static inline uint64_t plait_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Monotonic seconds. */
static inline double plait_clock(void)
{
    return 1e-9 * (double)plait_clock_ns();
}

/* In a loop that waits for another processor. */
static inline void plait_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
