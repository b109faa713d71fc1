/* SPDX-License-Identifier: BSD-3-Clause */
#include "guard.h"

#include "machine.h"
#include "worker.h"

#define LATENCY_CHANGE 1.6 /* factor */
#define COPY_CHANGE    1.3

const char *mode_name(enum mode mode)
{
    static const char *const names[NMODE] = { "-", "near", "far", "mixed" };
    return names[mode];
}

static struct calibration calibrate_machine(bool large, void *context)
{
    (void)context;
    return (struct calibration){
        .latency = machine_latency(),
        .copy = machine_rate(KERNEL_COPY, 1, large ? 64 << 20 : 512 << 10, 0.001),
    };
}

void guard_init(struct guard *g, bool on)
{
    *g = (struct guard){ .calibrate = calibrate_machine, .on = on && worker_cpus() > 1 };
}

enum mode guard_mode(struct guard *g, const struct calibration *c)
{
    if (g->least == 0 || c->latency < g->least)
        g->least = c->latency;
    if (c->latency > g->most)
        g->most = c->latency;
    return c->latency > GUARD_FAR || c->latency > 2 * g->least ? MODE_FAR : MODE_NEAR;
}

static bool changed(double a, double b, double factor)
{
    return a > factor * b || b > factor * a;
}

enum mode guard_judge(struct guard *g, const struct calibration *before, const struct calibration *after)
{
    guard_mode(g, before); /* a new minimum may change the first one's mode */
    const enum mode end = guard_mode(g, after), begin = guard_mode(g, before);

    if (begin != end || changed(before->latency, after->latency, LATENCY_CHANGE) ||
        changed(before->copy, after->copy, COPY_CHANGE))
        return MODE_MIXED;
    return end;
}

bool guard_run(struct guard *g, bool large, bool (*body)(void *), void *context, struct guarded *out)
{
    *out = (struct guarded){ .mode = MODE_UNKNOWN, .attempts = 1 };
    if (!g->on)
        return body(context);
    for (out->attempts = 1;; out->attempts++) {
        out->before = g->calibrate(large, g->context);
        if (!body(context))
            return false;
        out->after = g->calibrate(large, g->context);
        out->mode = guard_judge(g, &out->before, &out->after);
        if (out->mode != MODE_MIXED || out->attempts == GUARD_ATTEMPTS)
            return true;
    }
}
