/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PLAIT_LAYOUT_COMPUTED: the first steps are measured, and buckets are computed from them.
 *
 * A layout is kept for PLAIT_COMPUTED_STEPS steps, of which the first is not counted. Then rank 0 computes the next
 * layout, and all ranks lay out their buckets anew. The last of PLAIT_COMPUTED_LAYOUTS computed layouts stays. Its
 * first steps are measured, too, to report what they expose.
 */
#ifndef PLAIT_LIB_FUSION_COMPUTED_H
#define PLAIT_LIB_FUSION_COMPUTED_H

#include "fusion.h"

enum { PLAIT_COMPUTED_COUNTED = 3, PLAIT_COMPUTED_STEPS = 1 + PLAIT_COMPUTED_COUNTED, PLAIT_COMPUTED_LAYOUTS = 2 };

/* Times of buckets, plait_clock(). */
struct plait_bucket_times {
    double begin, end; /* its packing began, its unpacking ended */
};

/*
 * Sums of the measured buckets of all layouts, for the line latency + bytes * rate: least squares, weighted such that
 * errors count as parts of the time.
 */
struct plait_fit {
    double w, wx, wxx, wt, wxt;
};

struct plait_computed {
    bool measuring;
    uint32_t base;                           /* rounds that had ended when the layout began */
    double *ready;                           /* [STEPS][ntensor] plait_clock() */
    double *vector;                          /* what the ranks exchange */
    uint32_t *cuts;                          /* [ntensor] of the layout that is made */
    double origin[PLAIT_COMPUTED_STEPS + 1]; /* the end of the step before: what ready times count from */
    struct plait_bucket_times *times;        /* [STEPS][ntensor], of buckets */
    struct plait_fit fit;
    struct plait_fusion_computed report;
};

/* Lay tensors out for the first steps. Frees nothing after an error; destroy() does. */
enum plait_status plait_computed_create(struct plait_fusion *f);
void plait_computed_destroy(struct plait_computed *c);

/* May this round begin? Not while the layout of the rounds before must still change. */
bool plait_computed_allows(const struct plait_fusion *f, uint32_t round);

/* The tensor is ready in its `round`. Any thread. */
void plait_computed_ready(struct plait_fusion *f, uint32_t tensor, uint32_t round);

/* Times of the bucket in its `round`, under the comm's lock; NULL: they are not measured. */
struct plait_bucket_times *plait_computed_times(struct plait_fusion *f, uint32_t bucket, uint32_t round);

/* The bucket's `round` has ended, under the comm's lock. */
void plait_computed_ended(struct plait_fusion *f, uint32_t bucket, uint32_t round);

/* All rounds that began have ended: if enough of them are measured, compute the next layout. Collective then. */
enum plait_status plait_computed_step(struct plait_fusion *f);

#endif
