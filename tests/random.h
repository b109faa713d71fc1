/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers that follow from a seed: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef PLAIT_TESTS_RANDOM_H
#define PLAIT_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Below n; the seed is *state at first. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

#endif
