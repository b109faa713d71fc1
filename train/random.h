/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers computed from a key, so that they depend on no order: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef PLAIT_TRAIN_RANDOM_H
#define PLAIT_TRAIN_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The state of a separate stream for (a, b, c). */
static inline uint64_t random_stream(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = a;

    state = random_next(&state) ^ b;
    state = random_next(&state) ^ c;
    return random_next(&state);
}

/* From low up to, but not including, high. */
static inline double random_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(random_next(state) >> 11) * 0x1p-53;
}

/* 0 to n - 1; the bias of n / 2^64 does not matter here. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}

#endif
