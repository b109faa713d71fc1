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
 * A latency is "far" above this, or above twice the least of the run. Measured: Zen 4 38-45 and 167-173 ns, Zen 5 50-65
 * and 250-290 ns, Skylake 96-126 ns with one speed only. The constant lies between; on another processor it may call a
 * single speed far. report_end() says when only one was seen.
 */
#define GUARD_FAR      145e-9
#define GUARD_ATTEMPTS 3

enum mode { MODE_UNKNOWN, MODE_NEAR, MODE_FAR, MODE_MIXED, NMODE };
const char *mode_name(enum mode mode);

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
    enum mode mode;
    unsigned attempts;
    struct calibration before, after; /* of the last attempt */
};

/* Use calibrations of this machine. It is off on a single processor. */
void guard_init(struct guard *g, bool on);

/* The mode of one calibration, which extends the run's range. */
enum mode guard_mode(struct guard *g, const struct calibration *c);

/* The mode of a cell between two calibrations: MODE_MIXED when mode or copy bandwidth changed. */
enum mode guard_judge(struct guard *g, const struct calibration *before, const struct calibration *after);

/*
 * Run `body` between calibrations until the mode is not mixed, at most GUARD_ATTEMPTS times. Returns false when body()
 * did.
 */
bool guard_run(struct guard *g, bool large, bool (*body)(void *), void *context, struct guarded *out);

#endif
