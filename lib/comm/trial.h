/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing how to write: through the caches, or past them into memory.
 *
 * For what other ranks will read: between cores that share a cache the first is faster, between others the second,
 * by factors either way, and a virtual machine may change from one to the other while it runs. For results: past
 * the caches saves reading lines that are overwritten, unless they are cached already. So neither a constant
 * nor a measurement at start-up decides: operations of one size try all four combinations in a *round*, which comes
 *
 * - with the second operation of a size, as the first meets cold memory (of results alone with operation LENT); with
 * operation
 *   EARLY; every PERIOD operations;
 * - when large operations cost clearly more or less than the round promised. There a wrong way costs milliseconds,
 *   and PERIOD operations are seconds. A round that then changes nothing makes the next one wait longer.
 *
 * Whether cores share a cache is not a matter of size: a size that finds it out clearly tells the others, and
 * the first round of the sizes that come after it asks that only once.
 *
 * What is timed is this rank's copying until the first message comes, and everything from then on: waiting for
 * a rank that is late does not count, waiting for slow data does. Bits do not depend on it. All ranks try the same way
 * in the same operation, so one that writes cheaply at the cost of those who read does not look better than it
 * is: rounds begin at operations that all ranks know, by count, or after an operation for which most ranks `wanted`
 * one.
 *
 * Where nothing is combined only results are asked about, by each rank at its own operations: see results_alone.
 */
#ifndef PLAIT_LIB_COMM_TRIAL_H
#define PLAIT_LIB_COMM_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plait_way { PLAIT_SHARED_PAST = 1, PLAIT_RESULT_PAST = 2, PLAIT_NWAY = 4 }; /* bits */

#define PLAIT_TRIAL_PERIOD  128
#define PLAIT_TRIAL_EARLY   32
#define PLAIT_TRIAL_LENT    8 /* operations, mostly lent (lend.h), before the first round of results alone */
#define PLAIT_TRIAL_PLACES  (2 * PLAIT_NWAY) /* of a round: every way in turn, twice */
#define PLAIT_TRIAL_LEAST   8192             /* bytes; in smaller vectors the blocks are too few lines to tell */
#define PLAIT_TRIAL_ALONE   (512 << 10)      /* of results that alone are tried: shorter ones stay in caches */
#define PLAIT_TRIAL_SIZES   28               /* of vectors, from LEAST, by powers of two; the last one has all above */
#define PLAIT_TRIAL_WATCHED (1 << 20)        /* bytes; from here on every operation is timed, which costs 0.2 us */

struct plait_trial {         /* of the vectors of one size; all 0: none yet */
    uint32_t n;              /* operations so far */
    uint32_t start, places;  /* of the latest round: its first operation, how many */
    bool called;             /* it was: ranks wanted it */
    uint32_t hold;           /* operations after it in which no other is wanted */
    uint32_t odd;            /* operations in a row that did not cost what was expected */
    unsigned way, trying;    /* in use; in the operation in progress */
    bool wanted;             /* by this rank: a round */
    double cost[PLAIT_NWAY]; /* least seconds per byte in this round */
    double expected;         /* seconds per byte; 0: not known */
};

struct plait_trials { /* of a comm; by the logarithm of the vector's bytes */
    struct plait_trial of[PLAIT_TRIAL_SIZES];
    bool known;         /* a size has tried every way */
    bool results_alone; /* are tried, by each rank for itself: where nothing is combined lend.h measures how to stage */
};

static inline struct plait_trial *plait_trial_of(struct plait_trials *all, size_t bytes)
{
    const int k = 63 - __builtin_clzll(bytes / PLAIT_TRIAL_LEAST | 1);
    return &all->of[k < PLAIT_TRIAL_SIZES ? k : PLAIT_TRIAL_SIZES - 1];
}

/* How should this operation of `bytes` write? `timed`: report it. */
unsigned plait_trial_start(struct plait_trials *all, size_t bytes, bool *timed);

/* What a timed operation cost. */
void plait_trial_report(struct plait_trials *all, size_t bytes, double seconds);

/* Most ranks wanted a round in the operation just done, as all of them can see: the next one begins it. A few may have
 * been held up by something else. Of results alone: this rank wants one. */
void plait_trial_again(struct plait_trials *all, size_t bytes);

#endif
