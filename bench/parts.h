/* SPDX-License-Identifier: BSD-3-Clause */
/* Block sizes of a buffer of a v-form, as Plait's functions and MPI's take them. */
#ifndef PLAIT_BENCH_PARTS_H
#define PLAIT_BENCH_PARTS_H

#include <plait/plan.h>

#include <stdbool.h>

struct parts {
    size_t *count;
    int *elements, *start; /* as MPI takes counts and displacements */
};

/* Allocate for `n` ranks. Returns false when out of memory; call parts_finish() even then. */
bool parts_init(struct parts *p, uint32_t n);
void parts_finish(struct parts *p);

/*
 * The block sizes of one side of a collective, written into `room`; NULLs when all blocks have one size, or the side is
 * empty.
 */
struct parts parts_of(enum plait_coll coll, uint32_t nrank, uint64_t count, const struct plait_side *side,
                      const struct parts *room);

#endif
