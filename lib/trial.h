/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing how to write: through the caches, or past them into memory.
 *
 * For what other ranks will read: between cores that share a cache the first is faster, between others the second,
 * by factors either way, and a virtual machine may change from one to the other while it runs. For results: past
 * the caches saves reading lines that are overwritten, unless they are cached already. So neither a constant
 * nor a measurement at start-up decides: operations of one size try all four combinations, and again every
 * PERIOD operations. What is timed is this rank's copying until the first message comes, and everything from then
 * on: waiting for a rank that is late does not count, waiting for slow data does. Bits do not
 * depend on it. The schedule counts operations of the size, so that all ranks try the same way at the same
 * time: one that writes cheaply at the cost of those who read does not look better than it is.
 */
#ifndef PLAIT_LIB_TRIAL_H
#define PLAIT_LIB_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum plait_way { PLAIT_SHARED_PAST = 1, PLAIT_RESULT_PAST = 2, PLAIT_NWAY = 4 }; /* bits */

#define PLAIT_TRIAL_PERIOD 128
#define PLAIT_TRIAL_PLACES (2 * PLAIT_NWAY) /* of a round: every way in turn, twice */

struct plait_trial {
    uint32_t n;              /* operations so far */
    unsigned way, trying;    /* in use; in the operation in progress */
    double cost[PLAIT_NWAY]; /* least seconds per byte in this round */
};

/* Place of operation n in its round. The first operation meets cold memory and does not count. */
static inline uint32_t plait_trial_place(uint32_t n)
{
    return n < PLAIT_TRIAL_PERIOD ? n - 1 : n % PLAIT_TRIAL_PERIOD;
}

/* How should this operation write? `timed`: report it. */
static inline unsigned plait_trial_start(struct plait_trial *t, bool *timed)
{
    const uint32_t place = plait_trial_place(t->n++);

    *timed = place < PLAIT_TRIAL_PLACES;
    t->trying = *timed ? place % PLAIT_NWAY : t->way;
    for (unsigned w = 0; place == 0 && w < PLAIT_NWAY; w++)
        t->cost[w] = 1e9;
    return t->trying;
}

/* seconds: per byte of the vector, as sizes in one trial may differ by two */
static inline void plait_trial_report(struct plait_trial *t, double seconds)
{
    unsigned best = t->way;

    if (seconds < t->cost[t->trying])
        t->cost[t->trying] = seconds;
    if (plait_trial_place(t->n - 1) != PLAIT_TRIAL_PLACES - 1)
        return;
    for (unsigned w = 0; w < PLAIT_NWAY; w++)
        if (t->cost[w] < t->cost[best])
            best = w;
    if (t->cost[best] < 0.9 * t->cost[t->way]) /* for a clear gain only */
        t->way = best;
}

#endif
