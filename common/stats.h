/* SPDX-License-Identifier: BSD-3-Clause */
/* Order statistics of a few thousand values. */
#ifndef PLAIT_COMMON_STATS_H
#define PLAIT_COMMON_STATS_H

#include <stddef.h>

struct stats {
    double min, quartile, median, midmean, mean, p95, p99, max, stdev;
    size_t n;
};

/* A growing list of values. Zeroed means empty, also for series_finish(). */
struct series {
    double *x;
    size_t n, capacity;
};

void series_add(struct series *s, double x); /* out of memory ends the program */
void series_finish(struct series *s);

/* Statistics of x[0..n); all zero when n is 0. p95 and p99 are nearest-rank percentiles, as nccl-tests' are. */
struct stats stats_of(const double *x, size_t n);

double median_of(const double *x, size_t n);

/* A quarter of x[0..n) is less than it. */
double quartile_of(const double *x, size_t n);

/*
 * The midmean (Tukey): the mean of the middle half. It is as robust against outliers as the median, but finer than the
 * clock: with ticks of 10 ns a median of 0.2 us can only change by 5 %.
 */
double midmean_of(const double *x, size_t n);

#endif
