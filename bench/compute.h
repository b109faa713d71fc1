/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does during its operation: arithmetic that uses the processor and nothing shared, or a sleep, as of a
 * program whose work is done elsewhere (a GPU, a disk).
 */
#ifndef PLAIT_BENCH_COMPUTE_H
#define PLAIT_BENCH_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

enum computation { COMPUTE_BUSY, COMPUTE_SLEEP, NCOMPUTATION };

/* "busy", "sleep" */
const char *computation_name(enum computation computation);

struct computer {
    double pass; /* seconds of one pass over data; 0: not calibrated */
    _Alignas(64) float data[256];
};

/* Returns at once when that moment has passed. */
void compute_sleep_until(double when);

/* Measure this processor's speed. All ranks do it together, since two processors may share a core. */
void compute_calibrate(struct computer *c);

/*
 * Do work that takes `seconds` on an idle processor; on a shared one it takes longer. A sleep ends on time however long
 * the tests take, since what it stands for goes on meanwhile.
 *
 * c     calibrated
 * test  called with `self` `ntest` times, at equal distances; returns false to end the computation
 * Returns false if test() did.
 */
bool compute(struct computer *c, enum computation computation, double seconds, uint32_t ntest, bool (*test)(void *),
             void *self);

#endif
