/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measured buffers other than library memory: malloc's, or, with --memory same, the same pages for a rank in every
 * backend. On a virtual machine the placement of pages changes a large cell's time by a tenth to a half for the life of
 * a process. Equal programs differ by that much, and the best of several is the luckiest.
 */
#ifndef PLAIT_BENCH_BUFFERS_H
#define PLAIT_BENCH_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * In the coordinator: processes started from now on use the same pages, or, with same false, malloc's memory. May be
 * called again. Returns false with errno.
 */
bool buffers_choose(bool same, uint32_t nrank);

/* In a rank's thread, before it allocates buffers. Returns false with errno when the chosen pages cannot be opened. */
bool buffers_begin(uint32_t rank);

/* In that thread: memory aligned to 4096 bytes. NULL: out of memory. Freed pages are not used again. */
void *buffers_alloc(size_t bytes);
void buffers_free(void *memory); /* NULL is allowed */

#endif
