/* SPDX-License-Identifier: BSD-3-Clause */
/* The table on standard output, with nccl-tests' columns and then Plait's, and the summaries. */
#ifndef PLAIT_BENCH_REPORT_H
#define PLAIT_BENCH_REPORT_H

#include "measure.h"

void report_begin(const struct bench *b);
void report_cell(const struct bench *b, const struct cell *c);

/* Print the summaries. complete: the whole table was measured. Returns false when NCCL_TESTS_MIN_BW was not reached. */
bool report_end(const struct bench *b, bool complete);

/* The path of one of several files: "sweep.svg" and "allgather" give "sweep-allgather.svg". */
void report_path(const char *path, const char *part, char *out, size_t room);

/* On a terminal, one line of standard error that the next call overwrites. */
void report_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A backend's name in a column: "plait", "ob1". */
const char *report_peer(const struct bench *b, uint32_t backend);

/* Algorithm and bus bandwidth in bytes per second. */
double algorithm_bandwidth(const struct cell *c, double seconds);
double bus_bandwidth(const struct bench *b, const struct cell *c, double seconds);

/* Mean bus bandwidth of all halves in GB/s, as nccl-tests prints it. */
double average_bandwidth(const struct bench *b);

#endif
