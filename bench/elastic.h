/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf elastic: rounds of elastic averaging, one mode after the other. Each mode runs in processes of its own,
 * since servers are ranks too, or in the launcher's. In a round every worker computes (a timed sleep) and exchanges its
 * weights once.
 */
#ifndef PLAIT_BENCH_ELASTIC_H
#define PLAIT_BENCH_ELASTIC_H

#include "options.h"

#define ELASTIC_MAX_TURNS 100

/* The shared memory of a mode's processes; under a launcher each process has its own, and all are gathered. */
struct elastic_figures {
    uint32_t nworker, nserver;
    struct plait_unique_id id;
    double
        turn[ELASTIC_MAX_TURNS]; /* seconds of a round on rank 0; workers have a barrier before and after each turn */
    double allreduce;            /* sync2: median seconds of an all-reduce of as many bytes */
    double behind[MAX_RANKS];    /* of each worker: mean */
    uint64_t behind_max[MAX_RANKS];
    size_t slots[MAX_RANKS];    /* bytes, of each server */
    double lost[MAX_RANKS];     /* hogwild, of each server: forces minus the centre's movement */
    _Atomic uint64_t done;      /* rounds of all workers, so far */
    char error[MAX_RANKS][256]; /* "" for none */
};

/*
 * Run one rank of a mode. Returns 0, or 1 with the error in figures->error.
 *
 * all  the launcher's ranks, of which the first are the mode's; NULL: they meet at figures->id
 */
int elastic_rank(const struct options *o, enum plait_elastic_mode mode, uint32_t rank, struct plait_comm *all,
                 struct elastic_figures *f);

/* Run all chosen modes, with a table. Returns the program's exit status. */
int elastic_run(const struct options *o);

#endif
