/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers under measurement that are not the library's: malloc's; or, of the kind `same`, pages that a rank has in
 * every backend. Where a virtual machine's pages lie makes a tenth to a half of a large cell's time, for as long as a
 * process lives: programs that do the same differ by so much, and the best of several is the one that was lucky.
 */
#ifndef PLAIT_BENCH_BUFFERS_H
#define PLAIT_BENCH_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * In the coordinator, once or again: the processes that it starts from now on have the same pages, or, where same is
 * false, malloc's memory. false: see errno.
 */
bool buffers_choose(bool same, uint32_t nrank);

/* In a rank's thread, before its buffers: false: the pages that were chosen cannot be had, see errno. */
bool buffers_begin(uint32_t rank);

/* In that thread; aligned to 4096 bytes. NULL: out of memory. Given back, the same pages are nobody's again. */
void *buffers_alloc(size_t bytes);
void buffers_free(void *memory); /* NULL is allowed */

#endif
