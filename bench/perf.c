/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf: collectives measured and verified, beside other libraries.
 *
 * This process only coordinates, unless a launcher has started it as another rank than 0. It starts the ranks of every backend (see worker.h), gives each
 * backend its turn (measure.h) between calibrations of the machine (guard.h), and reports: a table
 * for every collective, by the same ranks.
 */
#include "backend_plait.h"
#include "buffers.h"
#include "elastic.h"
#include "fragments.h"
#include "fusion.h"
#include "json.h"
#include "launch_ddp.h"
#include "launch_openmpi.h"
#include "launch_plait.h"
#include "measure.h"
#include "message.h"
#include "output.h"
#include "overlap.h"
#include "plot.h"
#include "report.h"
#include "tensors.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START_SECONDS 60 /* for ranks to come, unless --timeout is longer */
#define MAX_CELLS     10000

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

/* The first signal ends the run in order, the second at once: ranks follow this process, see worker_follow(). */
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

/* ---- cells ------------------------------------------------------------------------------------- */

static struct cell *add_cell(struct bench *b)
{
    const bool full = (b->ncell & (b->ncell - 1)) == 0; /* of 0, 1, 2, 4 and so on */
    struct cell *grown = full ? realloc(b->cell, (b->ncell > 0 ? 2 * b->ncell : 1) * sizeof *grown) : b->cell;

    if (grown == NULL) {
        perror("plait-perf: out of memory");
        exit(EXIT_RANKS);
    }
    b->cell = grown;
    struct cell *c = &b->cell[b->ncell++];
    memset(c, 0, sizeof *c);
    return c;
}

/* The size after `bytes`; false: there is none. */
static bool next_size(const struct options *o, uint64_t width, uint64_t *bytes)
{
    if (o->step_factor > 1 && *bytes == 0)
        *bytes = width; /* 0 stays 0 however often it is multiplied */
    else if (o->step_factor > 1)
        return !__builtin_mul_overflow(*bytes, o->step_factor, bytes);
    else
        return o->step_bytes > 0 && !__builtin_add_overflow(*bytes, o->step_bytes, bytes);
    return true;
}

/* What the cells of one sweep have in common. */
struct sweep {
    enum plait_dtype type;
    enum plait_op op;
    int64_t root;
};

static struct cell *add_cell_of(struct bench *b, const struct sweep *s)
{
    struct cell *c = add_cell(b);

    c->type = s->type;
    c->op = s->op;
    c->root = s->root;
    return c;
}

static bool add_sizes(struct bench *b, const struct sweep *s)
{
    const struct options *o = b->options;
    const enum plait_coll coll = b->coll->coll;
    const uint64_t width = plait_dtype_size(s->type);
    uint64_t bytes = o->min_bytes;

    if (coll == PLAIT_BARRIER) {
        add_cell_of(b, s)->each = 1; /* it has no size */
        return true;
    }
    do {
        if (bytes > o->max_bytes)
            break;
        if (b->ncell == MAX_CELLS)
            return complain("-i %llu makes more than %d rows from -b %llu to -e %llu; raise -i, or use -f",
                            (unsigned long long)o->step_bytes, MAX_CELLS, (unsigned long long)o->min_bytes,
                            (unsigned long long)o->max_bytes);
        const uint64_t count = collective_count(coll, (uint32_t)o->nrank, bytes, width);
        if (count > 0) { /* smaller sizes hold no element of this type, or not of every rank */
            struct cell *c = add_cell_of(b, s);
            c->count = c->each = count;
            c->bytes = count * width * collective_parts(coll, (uint32_t)o->nrank);
        }
    } while (next_size(o, width, &bytes));
    return true;
}

/* All tensors, then each class of sizes alone. */
static void add_tensors(struct bench *b, const struct tensors *t, const struct sweep *s)
{
    static const struct {
        const char *name;
        uint64_t min, max;
    } classes[] = {
        { "all", 0, 0 },
        { "up to 1 Ki elements", 0, 1025 },
        { "up to 16 Ki elements", 1025, 16385 },
        { "up to 256 Ki elements", 16385, 262145 },
        { "more than 256 Ki elements", 262145, 0 },
    };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        uint64_t elements;
        const uint32_t n = tensors_between(t, classes[i].min, classes[i].max, &elements);
        if (n == 0)
            continue;
        struct cell *c = add_cell_of(b, s);
        c->count = elements;
        c->bytes = elements * plait_dtype_size(s->type);
        c->min_count = classes[i].min;
        c->max_count = classes[i].max;
        snprintf(c->label, sizeof c->label, "%u tensors, %s", n, classes[i].name);
    }
}

/* Of steps: each payload with gradients in buckets, then in memory of their own. */
static bool add_steps(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    const uint64_t beyond = o->max_elements > 0 ? o->max_elements + 1 : 0;
    uint64_t elements;
    const uint32_t n = tensors_between(t, o->min_elements, beyond, &elements);

    if (n == 0)
        return complain("--tensors %s: no tensor has from %llu to %llu elements; raise --max-elements", o->tensors,
                        (unsigned long long)o->min_elements, (unsigned long long)o->max_elements);
    for (uint32_t k = 0; k < 2 * o->npayload; k++) {
        if (!o->gradients[k % 2])
            continue;
        struct cell *c = add_cell_of(b, &(struct sweep){ .type = o->payload[k / 2], .op = PLAIT_SUM, .root = -1 });
        c->payload = c->type;
        c->own = k % 2;
        c->count = elements;
        c->bytes = elements * plait_dtype_size(c->payload);
        c->min_count = o->min_elements;
        c->max_count = beyond;
        snprintf(c->label, sizeof c->label, "%u tensors", n);
    }
    return true;
}

/* Operators and roots that a collective does not have make one sweep. */
static bool plan_type(struct bench *b, const struct tensors *t, enum plait_dtype type)
{
    const struct options *o = b->options;
    const struct plait_geometry g = collective_geometry(b->coll->coll, 1, 0, 0);
    const uint32_t nop = g.combines ? o->nop : 1, nroot = g.rooted && o->every_root ? (uint32_t)o->nrank : 1;

    for (uint32_t k = 0; k < nop * nroot; k++) {
        const struct sweep s = {
            .type = type,
            .op = g.combines ? o->op[k / nroot] : PLAIT_NOP,
            .root = g.rooted ? (int64_t)(o->root + k % nroot) : -1,
        };
        if (o->tensors != NULL)
            add_tensors(b, t, &s);
        else if (!add_sizes(b, &s))
            return false;
    }
    return true;
}

static bool plan_cells(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    const uint32_t parts = collective_parts(b->coll->coll, (uint32_t)o->nrank);

    if (o->fusion)
        return add_steps(b, t);
    for (uint32_t i = 0; i < (b->coll->coll == PLAIT_BARRIER ? 1 : o->ndtype); i++)
        if (!plan_type(b, t, o->dtype[i]))
            return false;
    if (b->ncell > 0)
        return true;
    if (parts > 1)
        return complain("%s: no size from -b %llu to -e %llu holds 16 bytes for each of %u ranks; raise -e",
                        b->coll->title, (unsigned long long)o->min_bytes, (unsigned long long)o->max_bytes, parts);
    return complain("no size from -b %llu to -e %llu holds an element of type %s; raise -e",
                    (unsigned long long)o->min_bytes, (unsigned long long)o->max_bytes, dtype_label(o->dtype[0]));
}

static void forget_cells(struct bench *b)
{
    for (size_t i = 0; i < b->ncell; i++)
        cell_finish(&b->cell[i]);
    free(b->cell);
    b->cell = NULL;
    b->ncell = 0;
    b->wrong = 0;
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

/* Bytes of one buffer: every rank of every library has two. */
static bool fits_memory(const struct options *o, uint64_t count, uint64_t width)
{
    const uint64_t buffers = (1 + o->npeer) * ranks_here(o) * 2, available = available_memory();
    uint64_t bytes, needed;

    if (__builtin_mul_overflow(count, width, &bytes))
        bytes = UINT64_MAX;
    if (__builtin_mul_overflow(buffers, bytes, &needed))
        needed = UINT64_MAX;
    return needed < available / 10 * 9 ||
           complain(
               "%llu ranks of %u libraries with two buffers of %llu MiB each need %s%llu MiB, %llu MiB are free; use a "
               "smaller -e, fewer --ranks or fewer peers",
               (unsigned long long)ranks_here(o), 1 + o->npeer, (unsigned long long)bytes >> 20,
               needed == UINT64_MAX ? "more than " : "", (unsigned long long)needed >> 20,
               (unsigned long long)available >> 20);
}

static bool steps_fit_memory(const struct options *o, uint64_t elements)
{
    const uint64_t needed = fusion_memory(o, elements), available = available_memory();

    return needed < available / 10 * 9 ||
           complain("%llu ranks with %u layouts and %u peers need %llu MiB, %llu MiB are free; use fewer --layouts, "
                    "--ranks or peers, or a smaller --max-elements",
                    (unsigned long long)o->nrank, o->nlayout, o->npeer, (unsigned long long)needed >> 20,
                    (unsigned long long)available >> 20);
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

/* PyTorch's first import after the machine has started reads gigabytes: -T gives longer, as the error says. */
static bool greet(struct ranks *r, const struct options *o)
{
    return ranks_greet(r, fmax(START_SECONDS, o->timeout));
}

static bool start_ddp(struct bench *b, uint32_t ntensor, const uint64_t *counts, uint32_t width)
{
    const struct options *o = b->options;
    struct ranks *r = &b->ranks[b->nbackend++];

    return ranks_init(r, "gloo", o, ntensor, counts, width) && ddp_launch(r) && greet(r, o);
}

/* Plait's ranks first: they are forked, and must not hold what later backends open. */
static bool start_backends(struct bench *b, uint32_t ntensor, const uint64_t *counts, uint32_t width)
{
    const struct options *o = b->options;

    if (!buffers_choose(o->same_memory, (uint32_t)o->nrank))
        return complain("--memory same: cannot make a file in memory: %s; use --memory malloc", strerror(errno));
    if (!ranks_init(&b->ranks[b->nbackend++], "plait", o, ntensor, counts, width) || !plait_launch(&b->ranks[0], o) ||
        !greet(&b->ranks[0], o))
        return false;
    for (uint32_t i = 0; i < o->npeer; i++) {
        const struct openmpi_config *config = &openmpi_configs[o->peer[i]];
        struct ranks *r = &b->ranks[b->nbackend++];
        char name[32];
        snprintf(name, sizeof name, "openmpi:%s", config->name);
        if (!ranks_init(r, name, o, ntensor, counts, width) || !openmpi_launch(r, config, o, &b->ranks[0]) ||
            !greet(r, o))
            return false;
    }
    return !o->ddp || start_ddp(b, ntensor, counts, width);
}

/* What can be known to fail without ranks. */
static bool plan(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    uint64_t elements;

    for (uint32_t i = 0; i < o->ncoll; i++) {
        b->coll = o->coll[i];
        const bool ok = plan_cells(b, t);
        forget_cells(b);
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

    if (!o->launched && (o->tensors != NULL || bytes >= LARGE_BUFFER))
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

/* sweep.png; of several tables sweep-allgather.png and so on. */
static const char *path_of(const struct bench *b, const char *path, char *room, size_t size)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    if (b->options->ncoll == 1)
        return path;
    if (dot == NULL || (slash != NULL && dot < slash))
        dot = path + strlen(path);
    snprintf(room, size, "%.*s-%s%s", (int)(dot - path), path, collective_name(b->coll->coll), dot);
    return room;
}

static bool write_files(const struct bench *b)
{
    const struct options *o = b->options;
    char room[4096];
    const bool json = o->json == NULL || json_write(b, path_of(b, o->json, room, sizeof room));

    return (o->plot == NULL || b->coll->coll == PLAIT_BARRIER ||
            plot_draw(b, path_of(b, o->plot, room, sizeof room))) &&
           json;
}

/* They take two seconds; whoever switches the guard off wants to be quick. */
static bool wants_limits(const struct options *o)
{
    return (o->guard && !o->overlap && !o->fusion) || o->plot != NULL;
}

static void measure_limits_again(struct bench *b)
{
    struct limits later;

    limits_measure(&later, true);
    limits_improve(&b->limits, &later);
    printf("# The best of what the machine could do before and after; the limit line of --plot comes from it:\n");
    limits_print(&b->limits);
}

/* One table. */
static int run_table(struct bench *b)
{
    limits_measure(&b->limits, wants_limits(b->options));
    report_begin(b);
    const bool complete = measure_all(b);
    if (complete && wants_limits(b->options))
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

/* The worse of what two tables ended with: after anything but wrong results nothing more can be measured. */
static int run_cycle(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    int status = 0;

    for (uint32_t i = 0; i < o->ncoll && status <= EXIT_WRONG; i++) {
        b->coll = o->coll[i];
        plan_cells(b, t);
        const int table = run_table(b);
        status = table > status ? table : status;
        forget_cells(b);
    }
    return status;
}

/* Ranks come, are measured, and go. */
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
    const bool planned = plan(b, &t); /* on all ranks, so that none waits for one that has given up */
    if (planned && o->launch.rank > 0) {
        message_hide(false);
        signal(SIGINT, SIG_IGN); /* the launcher, or rank 0 by ending, ends this one */
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
    const time_t clock = time(NULL);
    struct tm local;

    output_begin("plait-perf");
    if (options_parse(argc, argv, &o)) {
        b.options = &o;
        b.argc = argc;
        b.argv = argv;
        strftime(b.started, sizeof b.started, "%Y-%m-%d %H:%M:%S", localtime_r(&clock, &local));
        catch_signals();
        if (o.help && o.launch.rank == 0)
            options_help();
        status = o.help ? 0 : o.elastic ? elastic_run(&o) : run(&b);
    }
    options_finish(&o);
    return output_end("plait-perf", status);
}
