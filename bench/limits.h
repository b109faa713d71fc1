/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine can do, measured at both ends of a run, and the bound on an operation that follows. */
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
    double single_copy;        /* copying the next processor's memory through the kernel */
};

struct limits {
    char processor[64];
    uint32_t cpus;
    double latency, clock; /* seconds: a cache line one way; one reading of the clock */
    struct level level[NLEVEL];
};

/* Without `all` only the processor is named; the figures are 0. About a second with it. */
void limits_measure(struct limits *out, bool all);

/* Keep the better of each figure: measured at both ends of a run, they are less at the mercy of one moment. */
void limits_improve(struct limits *l, const struct limits *later);

/* Lines that begin with #. */
void limits_print(const struct limits *l);

/*
 * Seconds (0: not measured) below which an operation of `nrank` ranks cannot be expected, `bytes` being its size as
 * nccl-tests counts it: one cache line crosses, and then the longer of two: every input is read and every output
 * written once, at the highest rate of traffic that copying or reducing reached; and what must come from others, in an
 * all-reduce 2 (p-1)/p of the bytes to each processor, is fetched at the rate of reading what others wrote.
 */
double limits_bound(const struct limits *l, const struct collective *coll, uint64_t bytes, uint32_t nrank);

#endif
