/* SPDX-License-Identifier: BSD-3-Clause */
/* Of a buffer whose parts differ in size, how many elements each has, as Plait's functions and MPI's take them. */
#ifndef PLAIT_BENCH_PARTS_H
#define PLAIT_BENCH_PARTS_H

#include <plait/plan.h>

#include <stdbool.h>

struct parts {
    size_t *count;
    int *elements, *start; /* as MPI takes them */
};

/* Room for those of `n` ranks. false: out of memory. parts_finish() in either case. */
bool parts_init(struct parts *p, uint32_t n);
void parts_finish(struct parts *p);

/* A side's of a collective of `count` elements, written into `room`; NULLs if its parts do not differ, or it has none. */
struct parts parts_of(enum plait_coll coll, uint32_t nrank, uint64_t count, const struct plait_side *side,
                      const struct parts *room);

#endif
