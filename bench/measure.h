/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring cells. A cell is one size, type, operator and root of one collective; it has two halves, out of place and
 * in place. A peer that has several algorithms tries each before a half, and takes the fastest that is right.
 *
 * Within a half every backend takes a turn in each of several rounds, so that a drift of the machine
 * hits all of them. The ratio to a peer is formed per round, from midmeans that were taken within
 * a fraction of a second of each other; the median of these paired ratios is the half's ratio.
 */
#ifndef PLAIT_BENCH_MEASURE_H
#define PLAIT_BENCH_MEASURE_H

#include "guard.h"
#include "limits.h"
#include "options.h"
#include "ranks.h"
#include "starts.h"
#include "stats.h"

struct overlap;
struct fusion_row;

#define MAX_BACKENDS (1 + MAX_PEERS) /* 0 is plait */
#define MAX_ROUNDS   100
#define LARGE_BUFFER ((uint64_t)1 << 20) /* bytes: caches do not hold it, and where its pages lie matters */

struct outcome {                         /* of one backend in one half */
    bool measured;                       /* false: the backend lacks the type or operator */
    uint32_t algorithm;                  /* the backend's, see struct backend; 0: its own choice */
    char algorithm_name[64];             /* "" for that */
    struct series times;                 /* seconds per iteration, the slowest rank's */
    double round[MAX_ROUNDS];            /* seconds: the midmean of its iterations */
    double stream[MAX_ROUNDS];           /* seconds per operation back to back, over ranks as -a says */
    double cpu[MAX_ROUNDS];              /* processor seconds per operation and rank */
    double ratio, ratio_low, ratio_high; /* peers: plait / peer per round: median, least, most; 0: none */
    uint64_t wrong;
};

struct half {
    bool measured;
    struct guarded guarded;
    struct outcome outcome[MAX_BACKENDS];
    uint32_t best; /* the peer with the least midmean; 0: none */
};

struct cell {
    enum plait_dtype type;
    enum plait_op op;              /* PLAIT_NOP where nothing is combined */
    int64_t root;                  /* -1: the collective has none */
    uint64_t count;                /* as in Plait's function, over all tensors of the cell */
    uint64_t bytes;                /* size as nccl-tests counts it */
    uint64_t each;                 /* count of every tensor; 0: their own */
    uint64_t min_count, max_count; /* tensors of the cell, see struct command */
    char label[48];                /* class of tensors; "" in a sweep */
    char when[24];
    struct half half[NPLACE];
    /* With --overlap, see overlap.h: */
    struct overlap *overlap;
    size_t noverlap;
    /* Of plait-perf fusion, see fusion.h: */
    enum plait_dtype payload;
    bool own; /* gradients are not in buckets */
    struct fusion_row *row;
    size_t nrow;
};

struct bench {
    const struct options *options;
    int argc;
    char **argv;
    char started[24];
    struct ranks ranks[MAX_BACKENDS];
    uint32_t nbackend;
    struct guard guard;
    struct limits limits;
    size_t pieces, taken; /* see fragments.h */
    struct starts starts; /* of --starts */
    /* The table that is being measured: */
    const struct collective *coll;
    struct cell *cell;
    size_t ncell;
    uint64_t wrong; /* elements, plait's */
};

struct task { /* one half of one cell */
    struct bench *bench;
    struct cell *cell;
    enum place place;
    struct step step;                  /* what an iteration is; zeroes: operations */
    struct work work;                  /* what is measured; zeroes: the blocking operation */
    uint32_t iterations[MAX_BACKENDS]; /* per round */
};

/* What the ranks of a backend are told. */
struct command measure_command(const struct task *t, uint32_t backend, enum verb verb, uint32_t iterations);

/* Does the cell have this half? */
bool measure_wants(const struct bench *b, enum place place);

/* Verify, and count what is wrong in the half's outcome. *able: the backend can do this at all. */
bool measure_check(struct task *t, uint32_t backend, bool *able);

/* Warm up; the seconds of one iteration. */
bool measure_warm_up(struct task *t, uint32_t backend, double *seconds);

/* How many iterations a round has when one takes so long. */
uint32_t measure_iterations(const struct options *o, double seconds);

/* Add to `times` the seconds of t->iterations[backend] single iterations, the slowest rank's. */
bool measure_times(struct task *t, uint32_t backend, struct series *times);

/* "2026-11-28 02:53:56" */
void time_of_day(char out[24]);

/* Measure and verify both halves. false: a rank failed or the run was interrupted. */
bool measure_cell(struct bench *b, struct cell *c);

void cell_finish(struct cell *c);

/*
 * The halves that were measured, in the order of the table: each call gives one more; NULL: there is none.
 *
 * at     0 at first, then as it was left
 * c      its cell
 * place  which half of it
 */
const struct half *measure_next(const struct bench *b, size_t *at, const struct cell **c, enum place *place);

/* Median over rounds of the time column, or of processor time with -C. */
double outcome_time(const struct bench *b, const struct outcome *o);

/* Statistics of the iterations, without those of -K. */
struct stats outcome_stats(const struct bench *b, const struct outcome *o);

#endif
