/* SPDX-License-Identifier: BSD-3-Clause */
#include "allocate.h"

#include "program.h"

#include <stdlib.h>

static void *must(void *memory, size_t n, size_t size)
{
    if (memory == NULL)
        give_up(1, "no memory for %zu elements of %zu bytes", n, size);
    return memory;
}

void *allocate(size_t n, size_t size)
{
    return must(calloc(n > 0 ? n : 1, size), n, size);
}

void *grow(void *array, size_t n, size_t size)
{
    return must(realloc(array, n * size), n, size);
}
