/* SPDX-License-Identifier: BSD-3-Clause */
/* Speeds of the machine, measured at both ends of a run, and the lower bound on an operation's time that follows. */
#ifndef PLAIT_BENCH_LIMITS_H
#define PLAIT_BENCH_LIMITS_H

#include "collectives.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NLEVEL 5

struct level {
    size_t bytes;              /* of all buffers together */
    double copy, reduce, read; /* payload bytes per second, all processors together */
    double others;             /* reading what the next processor has just written */
    double single_copy;        /* single copy of the next processor's memory through the kernel */
};

struct limits {
    char processor[64];
    uint32_t cpus;
    double latency, clock;      /* seconds: a cache line one way; one reading of the clock */
    struct level level[NLEVEL]; /* smallest first */
    int nlevel;
};

/*
 * most: bytes that an operation reads and writes on all ranks; levels above it are not measured. All levels take about
 * two seconds. 0: only name the processor, and leave the figures 0.
 */
void limits_measure(struct limits *out, double most);

/* Keep the better of each figure, so that a slow moment at one end of the run does not count. */
void limits_improve(struct limits *l, const struct limits *later);

/* Print lines that begin with #. */
void limits_print(const struct limits *l);

/*
 * A lower bound in seconds on an operation of `nrank` ranks; 0: not measured. It is the time of one cache line, plus
 * the longer of two times: reading every input and writing every output once, at the highest rate that copying or
 * reducing reached; and reading what must come from other ranks, at the rate of reading what others wrote (in an
 * all-reduce 2 (p-1)/p of the bytes for each processor).
 *
 * bytes  the size as nccl-tests counts it
 */
double limits_bound(const struct limits *l, const struct collective *coll, uint64_t bytes, uint32_t nrank);

#endif
