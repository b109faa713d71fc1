/* SPDX-License-Identifier: BSD-3-Clause */
/* Narrow floating-point numbers for the libraries' stand-ins, and how these reach the driver's. */
#ifndef PLAIT_TESTS_STANDIN_NUMBERS_H
#define PLAIT_TESTS_STANDIN_NUMBERS_H

#include "standin_ask.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* A variable of a test; it may change between calls. */
static inline int64_t standin_setting(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? strtoll(value, NULL, 10) : otherwise;
}

/* A function of the process's driver, which is to be the stand-in. */
static inline void *standin_driver(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* Is a context current on this thread? */
static inline int standin_has_context(void)
{
    int (*current)(void **);
    void *context = NULL;

    *(void **)&current = standin_driver("cuCtxGetCurrent");
    return current != NULL && current(&context) == 0 && context != NULL;
}

static inline float from_bf16(uint16_t bits)
{
    const uint32_t word = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &word, sizeof value);
    return value;
}

/* To nearest even. */
static inline uint16_t to_bf16(float value)
{
    uint32_t word;

    memcpy(&word, &value, sizeof word);
    if (value != value)
        return 0x7fc0;
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static inline float from_fp16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float sign = bits >> 15 != 0 ? -1.0f : 1.0f;

    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf((float)fraction, -24) : ldexpf((float)(1024 + fraction), exponent - 25));
}

/* To nearest even, as rintf() rounds. */
static inline uint16_t to_fp16(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const float size = fabsf(value);
    int exponent;

    if (value != value)
        return 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < ldexpf(1, -14))
        return sign | (uint16_t)rintf(ldexpf(size, 24));
    frexpf(size, &exponent); /* 0.5 to below 1 */
    return (uint16_t)(sign | (((unsigned)(exponent + 13) << 10) + (unsigned)rintf(ldexpf(size, 11 - exponent))));
}

#endif
