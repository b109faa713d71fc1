/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables over several starts of the ranks.
 *
 * What is decided once per start, such as where a process's pages lie, changes a large cell's time by a tenth for the
 * life of the process. Rounds repeat everything else (docs/benchmark.md, "Several starts"; Kalibera and Jones, Rigorous
 * benchmarking in reasonable time, ISMM 2013). So each start gives one time and one ratio, the median of its rounds,
 * and the medians of these over the starts are reported. The best peer is the one with the greatest median ratio: the
 * fastest peer of one start may have been lucky.
 */
#ifndef PLAIT_BENCH_STARTS_H
#define PLAIT_BENCH_STARTS_H

#include "options.h"
#include "stats.h"

struct bench;
struct starts_row;

struct starts { /* zeroed: none yet */
    uint64_t begun;
    char (*name)[32]; /* [nbackend] "plait", "ob1" */
    uint32_t nbackend;
    struct starts_row *row;
    size_t nrow, next; /* row where the next table of this start begins */
};

/* The ranks of all backends have been started. Each start must add the same tables in the same order. */
void starts_begin(struct starts *s, const struct bench *b);

/* Add the table that `b` has measured completely. */
void starts_add(struct starts *s, const struct bench *b);

/* Print a table for each collective that was added in several starts. */
void starts_report(const struct starts *s);

void starts_finish(struct starts *s);

#endif
