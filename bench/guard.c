/* SPDX-License-Identifier: BSD-3-Clause */
#include "guard.h"

#include "machine.h"
#include "worker.h"

#define LATENCY_CHANGE 1.6 /* factor */
#define COPY_CHANGE    1.3

const char *c2c_name(enum c2c c2c)
{
    static const char *const names[NC2C] = { "-", "low", "high", "mixed" };
    return names[c2c];
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

enum c2c guard_c2c(struct guard *g, const struct calibration *c)
{
    if (g->least == 0 || c->latency < g->least)
        g->least = c->latency;
    if (c->latency > g->most)
        g->most = c->latency;
    return c->latency > GUARD_HIGH || c->latency > 2 * g->least ? C2C_HIGH : C2C_LOW;
}

static bool changed(double a, double b, double factor)
{
    return a > factor * b || b > factor * a;
}

enum c2c guard_judge(struct guard *g, const struct calibration *before, const struct calibration *after)
{
    guard_c2c(g, before); /* a new minimum may make the first one high */
    const enum c2c end = guard_c2c(g, after), begin = guard_c2c(g, before);

    if (begin != end || changed(before->latency, after->latency, LATENCY_CHANGE) ||
        changed(before->copy, after->copy, COPY_CHANGE))
        return C2C_MIXED;
    return end;
}

bool guard_run(struct guard *g, bool large, bool (*body)(void *), void *context, struct guarded *out)
{
    *out = (struct guarded){ .c2c = C2C_UNKNOWN, .attempts = 1 };
    if (!g->on)
        return body(context);
    for (out->attempts = 1;; out->attempts++) {
        out->before = g->calibrate(large, g->context);
        if (!body(context))
            return false;
        out->after = g->calibrate(large, g->context);
        out->c2c = guard_judge(g, &out->before, &out->after);
        if (out->c2c != C2C_MIXED || out->attempts == GUARD_ATTEMPTS)
            return true;
    }
}
