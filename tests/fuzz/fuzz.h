/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzzers share. Each target is one file with LLVMFuzzerTestOneInput(); built with -Dfuzz=true it is a
 * libFuzzer program, else replay.c runs it over its corpus as an ordinary test.
 */
#ifndef PLAIT_TESTS_FUZZ_H
#define PLAIT_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An invariant. Not assert(): it must hold in every build. */
#define MUST(condition)                                                              \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* The input as a string of its own allocation, so that reading past its end is seen. Free it. */
static inline char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    MUST(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
