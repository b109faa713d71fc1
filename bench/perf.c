/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf: measures and verifies collectives, beside other libraries.
 *
 * This process coordinates, unless a launcher started it as a rank other than 0. It starts the ranks of every backend
 * (worker.h), gives each backend its turn (measure.h) between calibrations of the machine (guard.h), and prints one
 * table per collective, all by the same ranks.
 */
#include "backend_plait.h"
#include "buffers.h"
#include "cells.h"
#include "csv.h"
#include "elastic.h"
#include "fragments.h"
#include "fusion.h"
#include "html.h"
#include "json.h"
#include "launch_ddp.h"
#include "launch_openmpi.h"
#include "launch_plait.h"
#include "measure.h"
#include "message.h"
#include "overlap.h"
#include "program.h"
#include "report.h"
#include "sweep_plot.h"
#include "tensors.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

/* The first signal ends the run in order, the second at once: ranks end with this process, see child_fork(). */
static void on_signal(int number)
{
    if (interrupted)
        _exit(EXIT_SIGNAL + number);
    interrupted = number;
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- backends ---------------------------------------------------------------------------------- */

static uint64_t available_memory(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    unsigned long long kib = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib > 0 ? (uint64_t)kib << 10 : UINT64_MAX;
}

static uint64_t ranks_here(const struct options *o)
{
    return o->launched && o->launch.local_nrank > 0 ? o->launch.local_nrank : o->nrank;
}

/* Every rank of every library has two buffers of this size. */
static bool fits_memory(const struct options *o, uint64_t count, uint64_t width)
{
    const uint32_t libraries = 1 + o->npeer + o->gloo;
    const uint64_t buffers = libraries * ranks_here(o) * 2, available = available_memory();
    uint64_t bytes, needed;

    if (__builtin_mul_overflow(count, width, &bytes))
        bytes = UINT64_MAX;
    if (__builtin_mul_overflow(buffers, bytes, &needed))
        needed = UINT64_MAX;
    return needed < available / 10 * 9 ||
           complain("%llu rank%s of %u librar%s, with two buffers of %llu MiB each, need %s%llu MiB, but %llu MiB are "
                    "free; use a smaller -e, fewer --ranks or fewer peers",
                    (unsigned long long)ranks_here(o), plural(ranks_here(o)), libraries, libraries == 1 ? "y" : "ies",
                    (unsigned long long)bytes >> 20, needed == UINT64_MAX ? "more than " : "",
                    (unsigned long long)needed >> 20, (unsigned long long)available >> 20);
}

static bool steps_fit_memory(const struct options *o, uint64_t elements)
{
    const uint64_t needed = fusion_memory(o, elements), available = available_memory();

    return needed < available / 10 * 9 ||
           complain(
               "%llu rank%s with %u layout%s and %u peer%s need %llu MiB, but %llu MiB are free; use fewer --layouts, "
               "--ranks or peers, or a smaller --max-elements",
               (unsigned long long)o->nrank, plural(o->nrank), o->nlayout, plural(o->nlayout), o->npeer,
               plural(o->npeer), (unsigned long long)needed >> 20, (unsigned long long)available >> 20);
}

static uint32_t widest(const struct options *o)
{
    uint32_t width = 0;

    for (uint32_t i = 0; i < o->ndtype; i++) {
        const uint32_t w = (uint32_t)plait_dtype_size(o->dtype[i]);
        width = w > width ? w : width;
    }
    return width;
}

static bool start_ddp(struct bench *b, uint32_t ntensor, const uint64_t *counts, uint32_t width)
{
    const struct options *o = b->options;
    struct ranks *r = &b->ranks[b->nbackend++];

    return ranks_init(r, "gloo", o, ntensor, counts, width) && ddp_launch(r) && ranks_greet(r, o->timeout);
}

/* Plait's ranks first: they are forked, and must not hold what later backends open. */
static bool start_backends(struct bench *b, uint32_t ntensor, const uint64_t *counts, uint32_t width)
{
    const struct options *o = b->options;

    if (!buffers_choose(o->same_memory, (uint32_t)o->nrank))
        return complain("--memory same: cannot make a file in memory: %s; use --memory malloc", strerror(errno));
    if (!ranks_init(&b->ranks[b->nbackend++], "plait", o, ntensor, counts, width) || !plait_launch(&b->ranks[0], o) ||
        !ranks_greet(&b->ranks[0], o->timeout))
        return false;
    for (uint32_t i = 0; i < o->npeer; i++) {
        const struct openmpi_config *config = &openmpi_configs[o->peer[i]];
        struct ranks *r = &b->ranks[b->nbackend++];
        char name[32];
        snprintf(name, sizeof name, "openmpi:%s", config->name);
        if (!ranks_init(r, name, o, ntensor, counts, width) || !openmpi_launch(r, config, o, &b->ranks[0]) ||
            !ranks_greet(r, o->timeout))
            return false;
    }
    return !(o->gloo || o->ddp) || start_ddp(b, ntensor, counts, width);
}

/* Errors that can be found before ranks are started. */
static bool plan(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    uint64_t elements;

    for (uint32_t i = 0; i < o->ncoll; i++) {
        b->coll = o->coll[i];
        const bool ok = cells_plan(b, t);
        cells_forget(b);
        if (!ok)
            return false;
    }
    if (o->tensors == NULL)
        return fits_memory(o, o->max_bytes, 1);
    tensors_between(t, o->min_elements, o->max_elements > 0 ? o->max_elements + 1 : 0, &elements);
    if (o->fusion)
        return steps_fit_memory(o, elements);
    return fits_memory(o, elements, widest(o));
}

static bool start(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    const uint64_t bytes = o->max_bytes;

    if (!o->launched && (o->npeer > 0 || o->gloo || o->ddp) && (o->tensors != NULL || bytes >= LARGE_BUFFER))
        b->taken = fragments_take(available_memory() / 4, &b->pieces);
    if (o->tensors == NULL)
        return start_backends(b, 1, &bytes, 1);
    return start_backends(b, t->n, t->count, widest(o));
}

/* ---- the run ----------------------------------------------------------------------------------- */

/* How a cell is measured and reported. */
struct mode_of_cells {
    bool (*measure)(struct bench *b, struct cell *c);
    void (*report)(const struct bench *b, const struct cell *c);
};

static bool measure_all(struct bench *b)
{
    static const struct mode_of_cells operations = { measure_cell, report_cell },
                                      overlap = { overlap_measure, overlap_report_cell },
                                      fusion = { fusion_measure, fusion_report_cell };
    const struct options *o = b->options;
    const struct mode_of_cells *mode = o->fusion ? &fusion : o->overlap ? &overlap : &operations;

    for (size_t i = 0; i < b->ncell; i++) {
        if (!mode->measure(b, &b->cell[i])) {
            while (b->ncell > i) /* report what was measured before */
                cell_finish(&b->cell[--b->ncell]);
            return false;
        }
        mode->report(b, &b->cell[i]);
    }
    return true;
}

/* sweep.svg; of several tables sweep-allgather.svg and so on. */
static const char *path_of(const struct bench *b, const char *path, char *room, size_t size)
{
    if (b->options->ncoll == 1)
        return path;
    report_path(path, collective_name(b->coll->coll), room, size);
    return room;
}

static bool write_files(const struct bench *b)
{
    const struct options *o = b->options;
    char room[4096];
    const bool json = o->json == NULL || json_write(b, path_of(b, o->json, room, sizeof room)),
               csv = o->csv == NULL || csv_write(b, path_of(b, o->csv, room, sizeof room));

    if (b->coll->coll == PLAIT_BARRIER)
        return json && csv;
    return (o->plot == NULL || sweep_plot(b, path_of(b, o->plot, room, sizeof room))) &&
           (o->report == NULL || html_write(b, path_of(b, o->report, room, sizeof room))) && json && csv;
}

/* The bytes of the largest operation on all ranks, up to which the machine is measured; 0: its limits are not shown. */
static double limits_wanted(const struct bench *b)
{
    const struct options *o = b->options;

    if ((!o->guard || o->overlap || o->fusion) && o->plot == NULL && o->report == NULL)
        return 0;
    return fmax(1, collective_touched(b->coll->coll, (uint32_t)o->nrank) * (double)o->max_bytes);
}

static void measure_limits_again(struct bench *b)
{
    struct limits later;

    limits_measure(&later, limits_wanted(b));
    limits_improve(&b->limits, &later);
    if (!b->options->guard)
        return;
    printf(
        "# Limits of the machine, the better of before and after; they give the limit line of --plot and --report:\n");
    limits_print(&b->limits);
}

/* One table. */
static int run_table(struct bench *b)
{
    limits_measure(&b->limits, limits_wanted(b));
    report_begin(b);
    const bool complete = measure_all(b);
    if (complete && limits_wanted(b) > 0)
        measure_limits_again(b);
    if (complete && b->options->starts > 1)
        starts_add(&b->starts, b);
    const bool enough = report_end(b, complete), written = b->ncell == 0 || write_files(b);
    if (!complete)
        return EXIT_RANKS;
    if (b->wrong > 0)
        complain("%llu wrong elements", (unsigned long long)b->wrong);
    return b->wrong > 0 || !enough || !written ? EXIT_WRONG : 0;
}

/* The worst exit status of the tables. After anything worse than wrong results nothing more can be measured. */
static int run_cycle(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    int status = 0;

    for (uint32_t i = 0; i < o->ncoll && status <= EXIT_WRONG; i++) {
        b->coll = o->coll[i];
        cells_plan(b, t);
        const int table = run_table(b);
        status = table > status ? table : status;
        cells_forget(b);
    }
    return status;
}

/* Start the ranks, measure, and stop them. */
static int run_start(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    int status = start(b, t) ? 0 : EXIT_RANKS;

    if (status == 0 && o->starts > 1) {
        starts_begin(&b->starts, b);
        printf("# Start %llu of %llu\n", (unsigned long long)b->starts.begun, (unsigned long long)o->starts);
    }
    for (uint64_t cycle = 0; status == 0 && (o->cycles == 0 || cycle < o->cycles); cycle++)
        status = run_cycle(b, t);
    for (; b->nbackend > 0; b->nbackend--)
        ranks_stop(&b->ranks[b->nbackend - 1], status == 0 || status == EXIT_WRONG);
    return status;
}

static int run(struct bench *b)
{
    const struct options *o = b->options;
    struct tensors t = { 0 };
    int status = EXIT_USAGE;

    if (o->tensors != NULL && !tensors_read(o->tensors, &t))
        return status;
    const bool planned = plan(b, &t); /* on all ranks, so that none waits for one that has failed */
    if (planned && o->launch.rank > 0) {
        message_hide(false);
        signal(SIGINT, SIG_IGN); /* the launcher, or the end of rank 0, ends this rank */
        signal(SIGTERM, SIG_DFL);
        status = plait_worker_launched(NULL, o) ? 0 : EXIT_RANKS;
    } else if (planned) {
        guard_init(&b->guard, o->guard);
        status = 0;
        for (uint64_t i = 0; status <= EXIT_WRONG && i < o->starts; i++) {
            const int one = run_start(b, &t);
            status = one > status ? one : status;
        }
        starts_report(&b->starts);
        starts_finish(&b->starts);
    }
    tensors_finish(&t);
    return interrupted ? EXIT_SIGNAL + interrupted : status;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct options o;
    int status = EXIT_USAGE;

    program_begin("plait-perf");
    if (options_parse(argc, argv, &o)) {
        b.options = &o;
        b.argc = argc;
        b.argv = argv;
        time_of_day(b.started);
        catch_signals();
        status = o.elastic ? elastic_run(&o) : run(&b);
    }
    options_finish(&o);
    return program_end(status);
}
