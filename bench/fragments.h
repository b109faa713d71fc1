/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free memory in small fragments.
 *
 * Linux hands out the smallest free blocks first. A process that allocates first gets scattered single pages, a later
 * one gets whole megabytes. That alone made the same Open MPI 10 % slower at 16 and 64 MiB in the first process than in
 * the third (docs/benchmark.md). So plait-perf takes the fragments before any backend starts.
 */
#ifndef PLAIT_BENCH_FRAGMENTS_H
#define PLAIT_BENCH_FRAGMENTS_H

#include <stddef.h>
#include <stdio.h>

#define FRAGMENTS_FREE "/proc/buddyinfo"
#define FRAGMENTS_BLOCKS \
    9 /* orders of free blocks: one page, two and so on, below the 2 MiB that one page table maps */

/* Bytes of free blocks smaller than 2 MiB, of all nodes; 0 when the file has none. */
size_t fragments_in(FILE *buddyinfo);

/*
 * Take these blocks, but no more than `most` bytes, until this process ends or calls again. Returns the bytes taken.
 *
 * pieces  gets the bytes that there were; 0: unknown (only root may read it)
 */
size_t fragments_take(size_t most, size_t *pieces);

#endif
