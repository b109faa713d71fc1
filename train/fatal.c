/* SPDX-License-Identifier: BSD-3-Clause */
#include "fatal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fatal(const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "plait-train: %s\n", text);
    exit(1);
}

void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    if (memory == NULL)
        fatal("no memory for %zu elements of %zu bytes; ask for smaller batches or a shorter queue", n, size);
    return memory;
}
