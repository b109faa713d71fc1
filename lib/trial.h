/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing between two ways to write what other ranks will read: through the caches, or past them into memory.
 *
 * Between cores that share a cache the first is faster, between others the second, by factors either way, and a
 * virtual machine may change from one to the other while it runs. So neither a constant nor a measurement at
 * start-up decides: operations of one size try both, and again every PERIOD operations. What is timed is this
 * rank's own copying and reducing, not its waiting. Bits do not depend on it. The schedule counts operations of
 * the size, so that all ranks try at the same time.
 */
#ifndef PLAIT_LIB_TRIAL_H
#define PLAIT_LIB_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define PLAIT_TRIAL_PERIOD 64

struct plait_trial {
    uint32_t n;          /* operations so far */
    bool past_caches;    /* the way in use */
    bool trying;         /* the operation in progress uses the other way */
    double used, tried;  /* seconds of the last timed operations; used: the lesser of two */
};

/* Place of operation n in its round: 0 and 2 time the way in use, 1 the other. The first meets cold memory. */
static inline uint32_t plait_trial_place(uint32_t n)
{
    return n < PLAIT_TRIAL_PERIOD ? n - 1 : n % PLAIT_TRIAL_PERIOD;
}

/* Should this operation write past the caches? `timed`: report its seconds. */
static inline bool plait_trial_start(struct plait_trial *t, bool *timed)
{
    const uint32_t place = plait_trial_place(t->n++);

    *timed = place < 3;
    t->trying = place == 1;
    if (place == 0)
        t->used = 1e9;
    return t->past_caches != t->trying;
}

static inline void plait_trial_report(struct plait_trial *t, double seconds)
{
    if (t->trying)
        t->tried = seconds;
    else if (seconds < t->used)
        t->used = seconds;
    if (plait_trial_place(t->n - 1) == 2 && t->tried < 0.8 * t->used) /* for a clear gain only */
        t->past_caches = !t->past_caches;
}

#endif
