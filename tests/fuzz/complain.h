/* SPDX-License-Identifier: BSD-3-Clause */
/* A program's functions that the parsers call. Every error text begins with the file's name, "fuzz". */
#ifndef PLAIT_TESTS_FUZZ_COMPLAIN_H
#define PLAIT_TESTS_FUZZ_COMPLAIN_H

#include "fuzz.h"

#include "allocate.h"
#include "message.h"

#include <stdarg.h>

bool complain(const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    MUST(n > 0 && strncmp(text, "fuzz", 4) == 0);
    return false;
}

void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    MUST(memory != NULL);
    return memory;
}

#endif
