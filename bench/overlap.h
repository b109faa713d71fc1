/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Overlap of a collective with computation, after OSU's benchmarks of non-blocking collectives: start, compute for as
 * long as the blocking operation takes, wait. The overlap is the part of the blocking operation's time that this saves
 * against running both one after the other.
 *
 * The computation's time is that of the same work alone. OSU reads the clock around the computation while the operation
 * runs; what a progress thread takes from it then counts as computation, and hides.
 */
#ifndef PLAIT_BENCH_OVERLAP_H
#define PLAIT_BENCH_OVERLAP_H

#include "measure.h"

struct overlap { /* one row */
    enum place place;
    uint32_t backend;
    enum computation computation;
    enum work_kind kind;
    double blocking, compute, total; /* seconds: medians of single iterations of the slowest rank, then of the rounds */
    double percent;                  /* median of the rounds */
};

/* The percentage of the operation's time that ran beside the computation, 0 to 100. Times in any unit. */
double overlap_percent(double blocking, double compute, double total);

/* The driver of the operation while the rank computes: "nobody", "tests", "thread". */
const char *overlap_driver(enum work_kind kind);

/* Measure and verify; adds to the cell's rows. false: a rank failed or the run was interrupted. */
bool overlap_measure(struct bench *b, struct cell *c);

void overlap_report_head(const struct bench *b);
void overlap_report_cell(const struct bench *b, const struct cell *c);

#endif
