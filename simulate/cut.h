/* SPDX-License-Identifier: BSD-3-Clause */
/* The best cuts of tensors into buckets, from times; a pure function. */
#ifndef PLAIT_SIMULATE_CUT_H
#define PLAIT_SIMULATE_CUT_H

#include <plait/status.h>

#include <stdint.h>

#define PLAIT_MOST_CUT_TENSORS 4096 /* for which cuts are computed: O(n^2) times for each bucket */

struct plait_timeline {  /* in any unit of time */
    uint32_t n;          /* tensors, at least 1, in the order of their registration */
    const double *ready; /* [n] from the step's start, at least 0 */
    /* The exchange of tensors first to end - 1 as one bucket. It never takes less with more tensors on either side. */
    double (*time)(const void *context, uint32_t first, uint32_t end);
    const void *context;
};

/*
 * Find buckets of neighbouring tensors such that the last exchange ends as early as possible, and among those the
 * fewest. An exchange begins when its tensors are ready and the one before has ended.
 *
 * cuts  [n] gets the first tensors of all buckets but the first
 * end   gets the end of the last exchange
 * Errors: PLAIT_ERR_NOMEM
 */
enum plait_status plait_cut(const struct plait_timeline *t, uint32_t *cuts, uint32_t *ncut, double *end);

#endif
