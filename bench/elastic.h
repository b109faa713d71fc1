/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf elastic: rounds of elastic averaging, mode after mode. Each mode has processes of its own, as servers are
 * ranks too, or the launcher's; in a round every worker computes (a timed sleep) and exchanges its weights once.
 */
#ifndef PLAIT_BENCH_ELASTIC_H
#define PLAIT_BENCH_ELASTIC_H

#include "options.h"

#define ELASTIC_MAX_TURNS 100

/* What a mode's processes write, in memory that they share; those of a launcher, each in its own and then gathered. */
struct elastic_figures {
    uint32_t nworker, nserver;
    struct plait_unique_id id;
    double turn[ELASTIC_MAX_TURNS]; /* seconds of a round, rank 0's; workers meet before and after each turn */
    double allreduce;               /* sync2: seconds of an all-reduce of as many bytes, median */
    double behind[MAX_RANKS];       /* mean of each worker */
    uint64_t behind_max[MAX_RANKS];
    size_t slots[MAX_RANKS];    /* bytes, of each server */
    double lost[MAX_RANKS];     /* hogwild, of each server: forces minus movement of its centre */
    char error[MAX_RANKS][256]; /* "" for none */
};

/*
 * One rank of a mode: 0, or what went wrong is in figures->error.
 *
 * all  the launcher's ranks, of which the first are the mode's; NULL: they meet at figures->id
 */
int elastic_rank(const struct options *o, enum plait_elastic_mode mode, uint32_t rank, struct plait_comm *all,
                 struct elastic_figures *f);

/* All modes asked for, a table and a plot; the program's exit status. */
int elastic_run(const struct options *o);

#endif
