/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does while its operation goes on: arithmetic that uses the processor and nothing that is shared, or a
 * sleep, as of one whose work is done elsewhere (a GPU, a disk).
 */
#ifndef PLAIT_BENCH_COMPUTE_H
#define PLAIT_BENCH_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

enum computation { COMPUTE_BUSY, COMPUTE_SLEEP, NCOMPUTATION };

/* "busy", "sleep" */
const char *computation_name(enum computation computation);

struct computer {
    double pass; /* seconds that it takes; 0: not calibrated */
    _Alignas(64) float data[256];
};

/* Returns at once when it is over. */
void compute_sleep_until(double when);

/* Find out how fast this processor is. All ranks do it together: two processors may share a core. */
void compute_calibrate(struct computer *c);

/*
 * So much work as takes this long on a processor of its own; when others use the processor too it takes longer, it is
 * not less work. A sleep ends at its time whatever the tests took: what is waited for goes on meanwhile.
 *
 * c     calibrated
 * test  called with `self` `ntest` times, at equal distances; false ends it all, and is the answer
 */
bool compute(struct computer *c, enum computation computation, double seconds, uint32_t ntest, bool (*test)(void *),
             void *self);

#endif
