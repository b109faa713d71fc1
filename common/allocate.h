/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, or the end of the program with status 1 and a message. Thread: any. */
#ifndef PLAIT_COMMON_ALLOCATE_H
#define PLAIT_COMMON_ALLOCATE_H

#include <stddef.h>

/** n elements of `size` bytes, zeroed; free() frees them. */
void *allocate(size_t n, size_t size);

/** As realloc(), to n elements of `size` bytes. */
void *grow(void *array, size_t n, size_t size);

#endif
