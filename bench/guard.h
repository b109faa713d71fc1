/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects that the machine's speed changed during a measurement.
 *
 * Some virtual machines have two speeds: their host moves virtual processors between groups of cores, and the latency
 * between them changes by a factor of several within seconds. Memory bandwidth drifts with the neighbours' load. So
 * latency and copy bandwidth are calibrated before and after every cell, and a cell in which they changed is measured
 * again, a bounded number of times.
 */
#ifndef PLAIT_BENCH_GUARD_H
#define PLAIT_BENCH_GUARD_H

#include <stdbool.h>

/*
 * A latency is high above this, or above twice the least of the run. Measured: Zen 4 38-45 and 167-173 ns, Zen 5 50-65
 * and 250-290 ns, Skylake 96-126 ns with one speed only. The constant lies between; on another processor it may call a
 * single latency high. report_end() says when only one was seen.
 */
#define GUARD_HIGH     145e-9
#define GUARD_ATTEMPTS 3

/* The core-to-core latency. */
enum c2c { C2C_UNKNOWN, C2C_LOW, C2C_HIGH, C2C_MIXED, NC2C };
const char *c2c_name(enum c2c c2c);

struct calibration {
    double latency; /* seconds, one way between two processors */
    double copy;    /* bytes per second */
};

struct guard {
    /* Measure. large: copy more than the caches hold. Tests set their own function. */
    struct calibration (*calibrate)(bool large, void *context);
    void *context;
    bool on;
    double least, most; /* latencies of this run; 0: none yet */
};

struct guarded {
    enum c2c c2c;
    unsigned attempts;
    struct calibration before, after; /* of the last attempt */
};

/* Use calibrations of this machine. It is off on a single processor. */
void guard_init(struct guard *g, bool on);

/* The latency of one calibration, which extends the run's range. */
enum c2c guard_c2c(struct guard *g, const struct calibration *c);

/* That of a cell between two calibrations: C2C_MIXED when latency or copy bandwidth changed. */
enum c2c guard_judge(struct guard *g, const struct calibration *before, const struct calibration *after);

/*
 * Run `body` between calibrations until it is not mixed, at most GUARD_ATTEMPTS times. Returns false when body()
 * did.
 */
bool guard_run(struct guard *g, bool large, bool (*body)(void *), void *context, struct guarded *out);

#endif
