/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of one backend share with the coordinator: a memfd that the coordinator makes and
 * passes to each rank. It holds the list of buffers, a barrier among the ranks and their times.
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
    uint32_t width;   /* bytes per element that every buffer has room for */
    uint32_t unalign; /* elements by which every buffer is moved off its alignment */
    bool inplace;     /* operations never need a buffer of their own for what comes in */
    bool apart;       /* not shared: of one rank, which a launcher has started */
    bool yield;       /* more ranks than processors: give the processor away while waiting */
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
    _Alignas(64) double begin;    /* of stage_begin() */
    _Alignas(64) uint64_t data[]; /* elements of each tensor, then seconds of each rank and iteration */
};

/* Make one with room for `ntensor` buffers. NULL with errno; *fd is the memfd. */
struct stage *stage_create(uint32_t nrank, uint32_t ntensor, int *fd);

/* Map one that another process made. NULL with errno. */
struct stage *stage_map(int fd);

void stage_unmap(struct stage *s);

/* [ntensor] elements of each tensor. */
uint64_t *stage_counts(struct stage *s);

/* [STAGE_ITERATIONS] seconds that this rank spent in each iteration. */
double *stage_times(struct stage *s, uint32_t rank);

/* In the place of its times: something that another rank may have done. */
void stage_mark(struct stage *s, uint32_t rank, bool done);
bool stage_marked(struct stage *s, uint32_t rank);

/* Return when all ranks have called it. */
void stage_barrier(struct stage *s);

/*
 * The same, but they return at one moment, each with its clock (plait_clock()): who comes last to a barrier is the first to leave
 * it, by the time that a line takes, and so who has little to do in an operation would begin the next one late. Where ranks
 * share a processor, none can wait for a moment: then it is the barrier.
 */
double stage_begin(struct stage *s);

#endif
