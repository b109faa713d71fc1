/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free memory that is in pieces.
 *
 * Linux gives out the smallest free blocks first, so that whoever allocates first gets single pages from all over the
 * memory, and whoever comes later whole megabytes. That alone made the same Open MPI 10 % slower at 16 and 64 MiB in
 * the first process than in the third (docs/benchmark.md). So the pieces are taken before any backend starts.
 */
#ifndef PLAIT_BENCH_FRAGMENTS_H
#define PLAIT_BENCH_FRAGMENTS_H

#include <stddef.h>
#include <stdio.h>

#define FRAGMENTS_FREE   "/proc/buddyinfo"
#define FRAGMENTS_BLOCKS 9 /* of one page, of two, and so on to less than 2 MiB, a page table */

/* Bytes of free blocks that are smaller than a page table, of all nodes; 0 where the file says nothing. */
size_t fragments_in(FILE *buddyinfo);

/*
 * Takes all of them, but no more than `most` bytes, until this process ends or calls again. *pieces: what there was; 0: not known (only
 * root may read it). Returns the bytes that were taken.
 */
size_t fragments_take(size_t most, size_t *pieces);

#endif
