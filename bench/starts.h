/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of ranks that were started several times.
 *
 * Where a process's pages lie, and what else is drawn once when it starts, makes a tenth of a large cell's time for as long
 * as it lives: rounds repeat all but that (docs/benchmark.md, "Several starts"; Kalibera and Jones, Rigorous benchmarking
 * in reasonable time, ISMM 2013). So a start gives one time and one ratio, the median of its rounds, and of these the
 * medians are reported. The best peer is the one with the greatest of them: the fastest of one start may have been lucky.
 */
#ifndef PLAIT_BENCH_STARTS_H
#define PLAIT_BENCH_STARTS_H

#include "options.h"
#include "stats.h"

struct bench;
struct starts_row;

struct starts { /* zeroes: none yet */
    uint64_t begun;
    char (*name)[32]; /* [nbackend] "plait", "ob1" */
    uint32_t nbackend;
    struct starts_row *row;
    size_t nrow, next; /* the first row of the next table of this start */
};

/* All backends' ranks have been started: their tables are the same ones, in the same order, as after the start before. */
void starts_begin(struct starts *s, const struct bench *b);

/* The table that `b` has measured, whole. */
void starts_add(struct starts *s, const struct bench *b);

/* A table for each collective that was added in several starts. */
void starts_report(const struct starts *s);

void starts_finish(struct starts *s);

#endif
