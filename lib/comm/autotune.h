/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing between cached and streaming stores, by online measurement.
 *
 * For data that other ranks read, cached stores are faster between cores that share a cache, streaming stores between
 * others, by factors either way. A virtual machine may move between the two while it runs. For results, streaming
 * stores save reading the overwritten cache lines, unless these are cached already. So neither a constant nor a
 * measurement at start-up decides: operations of one size try all four combinations in a *round*, which begins
 *
 * - with the second operation of a size, as the first meets cold memory (results alone: with operation LENT); with
 *   operation EARLY; every PERIOD operations;
 * - when large operations cost clearly more or less than the round measured. A wrong choice costs milliseconds there,
 *   and PERIOD operations are seconds. If that round changes nothing, the next one waits longer.
 *
 * Shared caches do not depend on size: a size with a clear finding tells all others, and the first round of later
 * sizes tests that only once.
 *
 * The time covers this rank's copying until the first message arrives, and everything after: waiting for a late rank
 * does not count, waiting for slow data does. Results are bitwise the same. All ranks try the same combination in the
 * same operation, so cheap writes that slow the readers do not look better than they are. Rounds therefore begin by
 * operation count, which all ranks know, or after an operation for which most ranks `wanted` one.
 *
 * Collectives that do not reduce try only the stores of results, each rank at its own operations: see results_alone.
 */
#ifndef PLAIT_LIB_COMM_AUTOTUNE_H
#define PLAIT_LIB_COMM_AUTOTUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits: streaming stores for shared data, for results. */
enum plait_store_mode { PLAIT_SHARED_PAST = 1, PLAIT_RESULT_PAST = 2, PLAIT_NWAY = 4 };

#define PLAIT_AUTOTUNE_PERIOD 128
#define PLAIT_AUTOTUNE_EARLY  32
#define PLAIT_AUTOTUNE_LENT \
    8 /* operations, mostly single copy (copy_mode.h), before the first round of results alone */
#define PLAIT_AUTOTUNE_PLACES  (2 * PLAIT_NWAY) /* operations of a full round: every combination in turn, twice */
#define PLAIT_AUTOTUNE_LEAST   8192             /* bytes; blocks of smaller vectors have too few cache lines to tell */
#define PLAIT_AUTOTUNE_ALONE   (512 << 10)      /* least bytes for results alone: shorter ones stay in caches */
#define PLAIT_AUTOTUNE_SIZES   28               /* sizes, by powers of two from LEAST; the last has all above */
#define PLAIT_AUTOTUNE_WATCHED (1 << 20)        /* bytes from which every operation is timed, at 0.2 us each */

struct plait_autotune {      /* for vectors of one size; all 0: none yet */
    uint32_t n;              /* operations so far */
    uint32_t start, places;  /* first operation and length of the last round */
    bool called;             /* ranks wanted the last round */
    uint32_t hold;           /* operations after a round in which no other may be wanted */
    uint32_t odd;            /* operations in a row with an unexpected cost */
    unsigned way, trying;    /* combination in use; that of the operation in progress */
    bool wanted;             /* this rank wants a round */
    double cost[PLAIT_NWAY]; /* least seconds per byte in this round */
    double expected;         /* seconds per byte; 0: not known */
};

struct plait_autotunes { /* of a comm, indexed by the logarithm of the vector's bytes */
    struct plait_autotune of[PLAIT_AUTOTUNE_SIZES];
    bool known;         /* a size has tried every combination */
    bool results_alone; /* without a reduction each rank tries stores for results only; copy_mode.h measures staging */
};

static inline struct plait_autotune *plait_autotune_of(struct plait_autotunes *all, size_t bytes)
{
    const int k = 63 - __builtin_clzll(bytes / PLAIT_AUTOTUNE_LEAST | 1);
    return &all->of[k < PLAIT_AUTOTUNE_SIZES ? k : PLAIT_AUTOTUNE_SIZES - 1];
}

/* The combination for an operation of `bytes`. *timed: its cost is to be reported. */
unsigned plait_autotune_start(struct plait_autotunes *all, size_t bytes, bool *timed);

/* Report the cost of a timed operation. */
void plait_autotune_report(struct plait_autotunes *all, size_t bytes, double seconds);

/* Begin a round with the next operation. Most ranks wanted one in the last operation, as all can see; fewer may just
 * have been delayed. Results alone: this rank wants one. */
void plait_autotune_again(struct plait_autotunes *all, size_t bytes);

#endif
