/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Overlap of a collective with computation, after OSU's tests of MPI's non-blocking collectives: start, compute for as
 * long as the blocking operation takes, wait. In the part of the blocking operation's time by which that is shorter
 * than both one after the other, it went on beside the computation.
 *
 * The computation's time is that of the same work alone. OSU reads the clock around it while the operation goes on;
 * what a progress thread takes from it would then count as computation, and hide.
 */
#ifndef PLAIT_BENCH_OVERLAP_H
#define PLAIT_BENCH_OVERLAP_H

#include "measure.h"

struct overlap { /* one row */
    enum place place;
    uint32_t backend;
    enum computation computation;
    enum work_kind kind;
    double blocking, compute, total; /* seconds: medians of single iterations, the slowest rank's; of the rounds */
    double percent;                  /* median of the rounds */
};

/* Of the operation's time, how much went on beside the computation: 0 .. 100. Times in any unit. */
double overlap_percent(double blocking, double compute, double total);

/* What drives the operation while the rank computes: "nobody", "tests", "thread". */
const char *overlap_driver(enum work_kind kind);

/* Measure and verify; adds to the cell's rows. false: a rank failed or the run was interrupted. */
bool overlap_measure(struct bench *b, struct cell *c);

void overlap_report_head(const struct bench *b);
void overlap_report_cell(const struct bench *b, const struct cell *c);

#endif
