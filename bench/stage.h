/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage: shared memory of the coordinator and the ranks of one backend, in a memfd that the coordinator creates and
 * passes to each rank. It holds the list of buffers, a barrier among the ranks, and their times.
 */
#ifndef PLAIT_BENCH_STAGE_H
#define PLAIT_BENCH_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAGE_ITERATIONS 4096 /* times that one command can record per rank */

struct stage {
    size_t bytes; /* of the mapping */
    uint32_t nrank;
    uint32_t ntensor;
    uint32_t width;   /* bytes per element for which every buffer has room */
    uint32_t unalign; /* elements by which every buffer is offset from its alignment */
    bool inplace;     /* operations need no separate input buffer */
    bool apart;       /* not shared: of a single rank that a launcher started */
    bool yield;       /* more ranks than processors: yield while waiting */
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
    _Alignas(64) _Atomic bool cut;        /* a rank has ended: no rank waits at the barrier any more */
    _Alignas(64) _Atomic uint64_t passes; /* of rank 0, so far */
    _Alignas(64) double begin;            /* of stage_begin() */
    _Alignas(64) uint64_t data[];         /* elements of each tensor, then seconds of each rank and iteration */
};

/* Create a stage for `ntensor` buffers. NULL with errno; *fd is the memfd. */
struct stage *stage_create(uint32_t nrank, uint32_t ntensor, int *fd);

/* Map a stage that another process created. NULL with errno. */
struct stage *stage_map(int fd);

void stage_unmap(struct stage *s);

/* [ntensor] elements of each tensor. */
uint64_t *stage_counts(struct stage *s);

/* [STAGE_ITERATIONS] seconds of each iteration of this rank. */
double *stage_times(struct stage *s, uint32_t rank);

/* A flag of each rank that the others can read; it uses the memory of the rank's times. */
void stage_mark(struct stage *s, uint32_t rank, bool done);
bool stage_marked(struct stage *s, uint32_t rank);

/* Return when all ranks have called it, or a rank has ended: its next operation tells which. */
void stage_barrier(struct stage *s);

/*
 * The same, but all ranks return at one moment, each with its clock. Else the last rank to reach a barrier leaves it
 * first, by the latency of a cache line, and a rank with little to do in an operation would begin the next one late.
 * Ranks that share a processor cannot spin, so then this is a plain barrier.
 */
double stage_begin(struct stage *s);

#endif
