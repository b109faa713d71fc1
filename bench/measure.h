/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring cells. A cell is one size, type, operator and root of one collective. It has two halves, out of place and
 * in place. For a peer that has several algorithms each is tried before a half, and the fastest correct one is
 * measured.
 *
 * In each round of a half every backend takes a turn, so that a drift of the machine affects all of them. The ratio to
 * a peer is formed per round, from midmeans taken within a fraction of a second of each other. The median of these
 * paired ratios is the half's ratio.
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

#define MAX_BACKENDS (1 + MAX_PEERS) /* [0] is plait */
#define MAX_ROUNDS   100
#define LARGE_BUFFER ((uint64_t)1 << 20) /* bytes; beyond this, placement in physical memory matters */

struct outcome {               /* of one backend in one half */
    bool measured;             /* false: the backend lacks the type or operator */
    uint32_t algorithm;        /* as in backend.choose; 0: the backend's own choice */
    char algorithm_name[64];   /* "": its own choice */
    struct series times;       /* seconds per iteration of the slowest rank */
    double round[MAX_ROUNDS];  /* seconds: midmean of the round's iterations */
    double stream[MAX_ROUNDS]; /* seconds per operation, back to back, over ranks as -a says */
    double cpu[MAX_ROUNDS];    /* processor seconds per operation and rank */
    double ratio, ratio_low,
        ratio_high; /* peers: plait's time over the peer's in a round: median, least, most; 0: none */
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
    uint64_t count;                /* count argument of Plait's function, summed over the cell's tensors */
    uint64_t bytes;                /* size as nccl-tests counts it */
    uint64_t each;                 /* count of every operation; 0: that of each tensor */
    uint64_t min_count, max_count; /* range of tensors, see struct command */
    char label[48];                /* size class of tensors; "" in a sweep */
    char when[24];
    struct half half[NPLACE];
    /* With --overlap, see overlap.h: */
    struct overlap *overlap;
    size_t noverlap;
    /* Of plait-perf fusion, see fusion.h: */
    enum plait_dtype payload;
    bool own; /* gradients have their own memory */
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
    size_t pieces, taken; /* see fragments.h: bytes found, bytes held */
    struct starts starts; /* for --starts */
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
    struct step step;                  /* --step of fusion; zeroes: operations */
    struct work work;                  /* overlap; zeroes: the blocking operation */
    uint32_t iterations[MAX_BACKENDS]; /* per round */
};

/* The command that the ranks of a backend get. */
struct command measure_command(const struct task *t, uint32_t backend, enum verb verb, uint32_t iterations);

/* Is this half asked for, and does the collective have it? */
bool measure_wants(const struct bench *b, enum place place);

/* Verify, and add wrong elements to the half's outcome. *able: the backend supports this. */
bool measure_check(struct task *t, uint32_t backend, bool *able);

/* Warm up, and find the seconds of one iteration. */
bool measure_warm_up(struct task *t, uint32_t backend, double *seconds);

/* Iterations of a round when one takes this long. */
uint32_t measure_iterations(const struct options *o, double seconds);

/* Add the seconds of t->iterations[backend] single iterations to `times`, each of the slowest rank. */
bool measure_times(struct task *t, uint32_t backend, struct series *times);

/* "2026-11-28 02:53:56" */
void time_of_day(char out[24]);

/* Measure and verify both halves. false: a rank failed or the run was interrupted. */
bool measure_cell(struct bench *b, struct cell *c);

void cell_finish(struct cell *c);

/*
 * Iterate over the measured halves in the order of the table; NULL: no more.
 *
 * at     0 at first, then unchanged between calls
 * c      gets the cell
 * place  gets which half of it
 */
const struct half *measure_next(const struct bench *b, size_t *at, const struct cell **c, enum place *place);

/* Median over rounds of the time column, or of processor time with -C. */
double outcome_time(const struct bench *b, const struct outcome *o);

/* Statistics of the iterations, without the first -K. */
struct stats outcome_stats(const struct bench *b, const struct outcome *o);

#endif
