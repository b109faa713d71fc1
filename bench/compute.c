/* SPDX-License-Identifier: BSD-3-Clause */
#include "compute.h"

#include "stage.h"

#include <math.h>
#include <time.h>

#define TRIES 20
#define TRY   1000 /* passes: some ten microseconds, so that few tries are interrupted */

const char *computation_name(enum computation computation)
{
    static const char *const names[NCOMPUTATION] = { "busy", "sleep" };
    return names[computation];
}

static void passes(struct computer *c, uint64_t n)
{
    const int size = sizeof c->data / sizeof *c->data;

    for (; n > 0; n--) {
        for (int i = 0; i < size; i++)
            c->data[i] = 0.5f * c->data[i] + 1;           /* goes to 2 */
        __asm__ volatile("" : : "r"(c->data) : "memory"); /* every pass is made */
    }
}

static void calibrate(struct computer *c)
{
    double least = INFINITY;

    for (int i = 0; i < TRIES; i++) {
        const double begin = now();
        passes(c, TRY);
        least = fmin(least, now() - begin);
    }
    c->pass = least / TRY;
}

static void sleep_until(double when)
{
    const struct timespec t = { (time_t)when, (long)(1e9 * (when - floor(when))) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

bool compute(struct computer *c, enum computation computation, double seconds, uint32_t ntest, bool (*test)(void *),
             void *self)
{
    if (computation == COMPUTE_BUSY && c->pass == 0)
        calibrate(c);
    const uint64_t all = computation == COMPUTE_BUSY ? (uint64_t)(seconds / c->pass) : 0;
    const double begin = now();
    uint64_t done = 0;

    for (uint32_t i = 0; i <= ntest; i++) {
        const double part = (i + 1.0) / (ntest + 1.0);
        const uint64_t next = (uint64_t)(part * (double)all);
        if (i > 0 && !test(self))
            return false;
        if (computation == COMPUTE_SLEEP)
            sleep_until(begin + part * seconds);
        passes(c, next - done);
        done = next;
    }
    return true;
}
