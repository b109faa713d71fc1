/* SPDX-License-Identifier: BSD-3-Clause */
#include "compute.h"

#include "base/clock.h"
#include "stage.h"
#include "stats.h"

#include <math.h>
#include <time.h>

#define TRIES 51
#define TRY   1000 /* passes: about ten microseconds, so that few tries are interrupted */

const char *computation_name(enum computation computation)
{
    static const char *const names[NCOMPUTATION] = { "busy", "sleep" };
    return names[computation];
}

/* Not inlined: calibration and computation run the same code. */
__attribute__((noinline)) static void passes(struct computer *c, uint64_t n)
{
    const int size = sizeof c->data / sizeof *c->data;

    for (; n > 0; n--) {
        for (int i = 0; i < size; i++)
            c->data[i] = 0.5f * c->data[i] + 1;           /* converges to 2 */
        __asm__ volatile("" : : "r"(c->data) : "memory"); /* keeps the compiler from skipping passes */
    }
}

void compute_calibrate(struct computer *c)
{
    double taken[TRIES];

    for (int i = 0; i < TRIES; i++) {
        const double begin = plait_clock();
        passes(c, TRY);
        taken[i] = plait_clock() - begin;
    }
    c->pass = median_of(taken, TRIES) / TRY;
}

void compute_sleep_until(double when)
{
    const struct timespec t = { (time_t)when, (long)(1e9 * (when - floor(when))) };

    while (plait_clock() < when && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

bool compute(struct computer *c, enum computation computation, double seconds, uint32_t ntest, bool (*test)(void *),
             void *self)
{
    const uint64_t all = computation == COMPUTE_BUSY ? (uint64_t)(seconds / c->pass) : 0;
    const double begin = plait_clock();
    uint64_t done = 0;

    for (uint32_t i = 0; i <= ntest; i++) {
        const double part = (i + 1.0) / (ntest + 1.0);
        const uint64_t next = (uint64_t)(part * (double)all);
        if (i > 0 && !test(self))
            return false;
        if (computation == COMPUTE_SLEEP)
            compute_sleep_until(begin + part * seconds);
        passes(c, next - done);
        done = next;
    }
    return true;
}
