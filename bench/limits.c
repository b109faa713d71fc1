/* SPDX-License-Identifier: BSD-3-Clause */
#include "limits.h"

#include "machine.h"
#include "worker.h"

#include <plait/topology.h>

#include <math.h>
#include <stdio.h>

static const size_t working_sets[NLEVEL] = { 64 << 10, 1 << 20, 4 << 20, 32 << 20, 256 << 20 };

void limits_measure(struct limits *out, double most)
{
    struct plait_topology topology;

    plait_topology_get(&topology);
    *out = (struct limits){ .cpus = worker_cpus() };
    snprintf(out->processor, sizeof out->processor, "%s", topology.processor);
    if (most == 0)
        return;
    out->latency = machine_latency();
    out->clock = machine_clock_cost();
    for (bool enough = false; !enough && out->nlevel < NLEVEL; out->nlevel++) {
        struct level *l = &out->level[out->nlevel];
        l->bytes = working_sets[out->nlevel];
        enough = (double)l->bytes >= most;
        l->copy = machine_rate(KERNEL_COPY, out->cpus, l->bytes, 0.01);
        l->reduce = machine_rate(KERNEL_REDUCE, out->cpus, l->bytes, 0.01);
        l->read = machine_rate(KERNEL_READ, out->cpus, l->bytes, 0.01);
        l->others = out->cpus > 1 ? machine_rate(KERNEL_READ_OTHERS, out->cpus, l->bytes, 0.01) : 0;
        l->single_copy = out->cpus > 1 ? machine_rate(KERNEL_SINGLE_COPY, out->cpus, l->bytes, 0.01) : 0;
    }
}

void limits_improve(struct limits *l, const struct limits *later)
{
    l->latency = fmin(l->latency, later->latency);
    l->clock = fmin(l->clock, later->clock);
    for (int i = 0; i < l->nlevel; i++) {
        struct level *to = &l->level[i];
        const struct level *from = &later->level[i];
        to->copy = fmax(to->copy, from->copy);
        to->reduce = fmax(to->reduce, from->reduce);
        to->read = fmax(to->read, from->read);
        to->others = fmax(to->others, from->others);
        to->single_copy = fmax(to->single_copy, from->single_copy);
    }
}

void limits_print(const struct limits *l)
{
    printf("# Cache line one way   : %.0f ns; reading the clock: %.0f ns\n", 1e9 * l->latency, 1e9 * l->clock);
    for (int i = 0; i < l->nlevel; i++)
        printf("# %6zu KiB in total  : copy %.1f GB/s, reduce (o=a+b) %.1f, read %.1f, read another processor's data "
               "%.1f, single copy (CMA) %.1f\n",
               l->level[i].bytes >> 10, 1e-9 * l->level[i].copy, 1e-9 * l->level[i].reduce, 1e-9 * l->level[i].read,
               1e-9 * l->level[i].others, 1e-9 * l->level[i].single_copy);
}

/* Bytes read and written per second: a copy moves two for each byte of payload, o = a + b three. */
static double traffic(const struct level *l)
{
    return fmax(2 * l->copy, 3 * l->reduce);
}

static double crossing(const struct level *l)
{
    return l->others;
}

/* Between two measured sizes: linear interpolation of the logarithms. */
static double rate_at(const struct limits *l, double bytes, double (*rate)(const struct level *))
{
    int i = 0;

    if (bytes <= (double)l->level[0].bytes)
        return rate(&l->level[0]);
    while (i < l->nlevel - 1 && bytes > (double)l->level[i + 1].bytes)
        i++;
    if (i == l->nlevel - 1)
        return rate(&l->level[i]);
    const double low = (double)l->level[i].bytes, high = (double)l->level[i + 1].bytes;
    const double part = log(bytes / low) / log(high / low);
    return exp((1 - part) * log(rate(&l->level[i])) + part * log(rate(&l->level[i + 1])));
}

double limits_bound(const struct limits *l, const struct collective *coll, uint64_t bytes, uint32_t nrank)
{
    const double touched = collective_touched(coll->coll, nrank) * (double)bytes;
    const uint32_t apart = nrank < l->cpus ? nrank : l->cpus;
    const double crossed = apart > 1 ? coll->crossing(apart) * (double)bytes : 0;
    double seconds = 0;

    if (l->latency == 0 || bytes == 0)
        return l->latency;
    seconds = touched / rate_at(l, touched, traffic);
    if (crossed > 0)
        seconds = fmax(seconds, crossed / rate_at(l, touched, crossing));
    return l->latency + seconds;
}
