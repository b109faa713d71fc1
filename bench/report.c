/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include "base/ascii.h"
#include "fusion.h"
#include "machine.h"
#include "message.h"
#include "overlap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void report_path(const char *path, const char *part, char *out, size_t room)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    if (dot == NULL || (slash != NULL && dot < slash))
        dot = path + strlen(path);
    snprintf(out, room, "%.*s-%s%s", (int)(dot - path), path, part, dot);
}

void report_progress(const char *format, ...)
{
    va_list arguments;

    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

double algorithm_bandwidth(const struct cell *c, double seconds)
{
    return seconds > 0 ? (double)c->bytes / seconds : 0;
}

double bus_bandwidth(const struct bench *b, const struct cell *c, double seconds)
{
    return b->coll->bus(b->ranks[0].nrank) * algorithm_bandwidth(c, seconds);
}

double average_bandwidth(const struct bench *b)
{
    const struct cell *c;
    const struct half *h;
    enum place place;
    double sum = 0;
    size_t n = 0;

    for (size_t at = 0; (h = measure_next(b, &at, &c, &place)) != NULL; n++)
        sum += 1e-9 * bus_bandwidth(b, c, outcome_time(b, &h->outcome[0]));
    return n > 0 ? sum / (double)n : 0;
}

/* ---- beginning --------------------------------------------------------------------------------- */

static void print_ranks(const struct bench *b)
{
    printf("# Using devices\n");
    for (uint32_t i = 0; i < b->ranks[0].nrank; i++)
        printf("#  Rank %2u Group  0 Pid %6d on %10s device %2u [cpu] %s\n", i, (int)b->ranks[0].hello[i].pid,
               b->ranks[0].hello[i].host, i, b->limits.processor);
}

static void print_backends(const struct bench *b)
{
    const struct options *o = b->options;

    printf("# %-20s : %s, %s, buffers from %s\n", "plait", b->ranks[0].about,
           o->threads ? "ranks are threads" : "ranks are processes",
           o->library_memory ? "plait_mem_alloc"
           : o->same_memory  ? "pages that all backends share"
                             : "malloc");
    for (uint32_t k = 1; k < b->nbackend; k++)
        printf("# %-20s : %s\n", b->ranks[k].name, b->ranks[k].about);
    if (b->nbackend > 1)
        printf("# %-20s : plait's time over the peer's, the median over %llu round%s; below 1 plait is "
               "faster\n",
               "ratio", (unsigned long long)o->rounds, plural(o->rounds));
    if (b->pieces > 0)
        printf("# %-20s : %zu of %zu MiB of free fragments below 2 MiB are held, so that no backend gets them\n",
               "memory", b->taken >> 20, b->pieces >> 20);
    if (o->guard && !b->guard.on)
        printf("# %-20s : off, there is only one processor\n", "guard");
}

/* Are there columns after those of nccl-tests? */
static bool has_extra(const struct bench *b)
{
    return b->guard.on || b->nbackend > 1;
}

static void print_extra_head(const struct bench *b, int line)
{
    static const char *const names[2][5] = { { "c2c", "midmean", "peer", "midmean", "ratio" },
                                             { "", "(us)", "(best)", "(us)", "" } };

    for (int place = 0; place < NPLACE; place++) {
        if (!b->options->place[place] || !has_extra(b))
            continue;
        printf("  |");
        if (b->guard.on)
            printf(" %5s", names[line][0]);
        printf("  %8s", names[line][1]);
        if (b->nbackend > 1)
            printf("  %6s  %8s  %5s", names[line][2], names[line][3], names[line][4]);
    }
    putchar('\n');
}

static void print_head(const struct bench *b)
{
    const struct options *o = b->options;
    const char *time = o->cputime ? "cputime" : "time";
    const char *gap = o->per_iter ? "                                    " : "";

    printf("#\n# %s: mean of operations back to back, as in nccl-tests\n", time);
    if (o->per_iter)
        printf("# i_min to i_cv: of single operations that begin together\n");
    if (has_extra(b))
        printf("# midmean: mean of the middle half of single operations that begin together%s\n",
               b->nbackend > 1 ? "; ratio: Plait's over the peer's" : "");
    printf("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place        %s               in-place          %s\n", "",
           "", "", "", "", gap, gap);
    for (int line = 0; line < 2; line++) {
        printf("# %10s  %12s  %8s  %6s  %6s", line ? "(B)" : "size", line ? "(elements)" : "count", line ? "" : "type",
               line ? "" : "redop", line ? "" : "root");
        for (int place = 0; place < NPLACE; place++) {
            printf("  %7s  %6s  %6s  %6s", line ? "(us)" : time, line ? "(GB/s)" : "algbw", line ? "(GB/s)" : "busbw",
                   line ? "" : "#wrong");
            if (o->per_iter)
                printf("  %7s  %7s  %7s  %7s", line ? "(us)" : "i_min", line ? "(us)" : "i_max",
                       line ? "(us)" : "i_p99", line ? "(%)" : "i_cv%");
        }
        if (o->timestamps)
            printf("  %19s", line ? "%Y-%m-%d %H:%M:%S" : "timestamp");
        print_extra_head(b, line);
    }
}

void report_begin(const struct bench *b)
{
    const struct options *o = b->options;
    const bool factor = o->step_factor > 1;
    char warmup[24] = "auto", iterations[24] = "auto";

    if (o->warmup != UINT64_MAX)
        snprintf(warmup, sizeof warmup, "%llu", (unsigned long long)o->warmup);
    if (o->iterations > 0)
        snprintf(iterations, sizeof iterations, "%llu", (unsigned long long)o->iterations);

    printf("# plait-perf, %s; columns as nccl-tests 2.19.6\n", b->coll->title);
    printf("# Collective test starting: %s\n", b->coll->program);
    printf("# nThread %llu minBytes %llu maxBytes %llu step: %llu(%s) warmup iters: %s iters: %s agg iters: "
           "%llu validation: %llu graph: 0 unalign: %llu\n",
           o->threads ? (unsigned long long)o->nrank : 1, (unsigned long long)o->min_bytes,
           (unsigned long long)o->max_bytes, (unsigned long long)(factor ? o->step_factor : o->step_bytes),
           factor ? "factor" : "bytes", warmup, iterations, (unsigned long long)o->aggregate,
           (unsigned long long)o->check, (unsigned long long)o->unalign);
    printf("#\n");
    print_ranks(b);
    print_backends(b);
    if (collective_parts(b->coll->coll, b->ranks[0].nrank) > 1)
        printf("# %-20s : of the larger buffer, rounded down to whole 16 bytes of each rank; count is of one rank\n",
               "size");
    printf("# %-20s : %s, %u processor%s used", "processor", b->limits.processor, b->limits.cpus,
           plural(b->limits.cpus));
    if (!o->launched && b->limits.cpus > 1)
        printf("; a cache line takes %.0f ns from one to another", 1e9 * machine_latency());
    printf("\n");
    if (o->guard && b->limits.latency > 0) {
        printf("# Limits of the machine now:\n");
        limits_print(&b->limits);
    }
    if (o->fusion)
        fusion_report_head(b);
    else if (o->overlap)
        overlap_report_head(b);
    else
        print_head(b);
    fflush(stdout);
}

/* ---- a row ------------------------------------------------------------------------------------- */

/* `width` characters, with as many decimals as fit, at most two, as nccl-tests prints. */
static void print_fitting(double value, int width)
{
    char text[64];

    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(text, sizeof text, "%*.*f", width, decimals, value) <= width) {
            printf("  %s", text);
            return;
        }
    printf("  %*.*e", width, width >= 7 ? 1 : 0, value);
}

static void print_nccl_half(const struct bench *b, const struct cell *c, const struct half *h)
{
    const struct outcome *o = &h->outcome[0];
    const double seconds = outcome_time(b, o);

    if (!h->measured) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        if (b->options->per_iter)
            printf("  %7s  %7s  %7s  %7s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    print_fitting(1e6 * seconds, 7);
    print_fitting(1e-9 * algorithm_bandwidth(c, seconds), 6);
    print_fitting(1e-9 * bus_bandwidth(b, c, seconds), 6);
    if (b->options->check > 0)
        printf("  %6g", (double)o->wrong);
    else
        printf("  %6s", "N/A");
    if (b->options->per_iter) {
        const struct stats s = outcome_stats(b, o);
        print_fitting(1e6 * s.min, 7);
        print_fitting(1e6 * s.max, 7);
        print_fitting(1e6 * s.p99, 7);
        print_fitting(s.mean > 0 ? 100 * s.stdev / s.mean : 0, 7);
    }
}

const char *report_peer(const struct bench *b, uint32_t backend)
{
    const char *name = b->ranks[backend].name, *colon = strchr(name, ':');
    return colon != NULL ? colon + 1 : name;
}

static void print_extra_half(const struct bench *b, const struct half *h)
{
    if (!h->measured || !has_extra(b))
        return;
    printf("  |");
    if (b->guard.on)
        printf(" %5s", c2c_name(h->guarded.c2c));
    print_fitting(1e6 * outcome_stats(b, &h->outcome[0]).midmean, 8);
    if (b->nbackend == 1)
        return;
    if (h->best == 0) {
        printf("  %6s  %8s  %5s", "none", "-", "-");
        return;
    }
    printf("  %6s", report_peer(b, h->best));
    print_fitting(1e6 * outcome_stats(b, &h->outcome[h->best]).midmean, 8);
    printf("  %5.2f", h->outcome[h->best].ratio);
}

void report_cell(const struct bench *b, const struct cell *c)
{
    if (*c->label != '\0')
        printf("# %s\n", c->label);
    printf("%12llu  %12llu  %8s  %6s  %6d", (unsigned long long)c->bytes, (unsigned long long)c->count,
           dtype_label(c->type), op_label(c->op), (int)c->root);
    for (int place = 0; place < NPLACE; place++)
        print_nccl_half(b, c, &c->half[place]);
    if (b->options->timestamps)
        printf("  %19s", c->when);
    for (int place = 0; place < NPLACE; place++)
        print_extra_half(b, &c->half[place]);
    putchar('\n');
    fflush(stdout);
}

/* ---- summaries --------------------------------------------------------------------------------- */

static void print_best(const struct bench *b, const struct half *h)
{
    const struct outcome *o = &h->outcome[h->best];

    printf("  %5s %.2f [%.2f, %.2f]", report_peer(b, h->best), o->ratio, o->ratio_low, o->ratio_high);
    if (*o->algorithm_name != '\0')
        printf(" %s", o->algorithm_name);
}

static void print_peers(const struct bench *b)
{
    const struct cell *c;
    const struct half *h;
    enum place place;

    printf("#\n# us of single operations that begin together (midmean), and plait's ratio to each peer.\n");
    printf("# best: the fastest peer of the cell, its ratio [least, most over the rounds], and its fastest algorithm,\n"
           "# unless that is its own choice.\n");
    printf("# %10s %8s %5s %4s %5s %5s %10s", "size", "type", "redop", "root", "place", "c2c", "plait");
    for (uint32_t k = 1; k < b->nbackend; k++)
        printf(" %10s ratio", report_peer(b, k));
    printf("   best ratio\n");
    for (size_t at = 0; (h = measure_next(b, &at, &c, &place)) != NULL;) {
        printf("# %10llu %8s %5s %4d %5s %5s %10.2f", (unsigned long long)c->bytes, dtype_label(c->type),
               op_label(c->op), (int)c->root, place_name(place), c2c_name(h->guarded.c2c),
               1e6 * outcome_stats(b, &h->outcome[0]).midmean);
        for (uint32_t k = 1; k < b->nbackend; k++)
            if (h->outcome[k].measured)
                printf(" %10.2f %5.2f", 1e6 * outcome_stats(b, &h->outcome[k]).midmean, h->outcome[k].ratio);
            else
                printf(" %10s %5s", "-", "-");
        if (h->best > 0)
            print_best(b, h);
        printf("%s%s\n", *c->label != '\0' ? "  " : "", c->label);
    }
}

/* One line per core-to-core latency that occurred: with another it is another machine. */
static void print_latencies(const struct bench *b)
{
    const struct cell *c;
    const struct half *h;
    enum place place;

    for (int c2c = 0; c2c < NC2C; c2c++) {
        struct series ratios = { 0 };
        size_t halves = 0;
        for (size_t at = 0; (h = measure_next(b, &at, &c, &place)) != NULL;) {
            if ((int)h->guarded.c2c != c2c)
                continue;
            halves++;
            if (h->best > 0)
                series_add(&ratios, h->outcome[h->best].ratio);
        }
        if (halves > 0 && c2c != C2C_UNKNOWN)
            printf("# Core latency %-5s   : %zu measurement%s", c2c_name((enum c2c)c2c), halves, plural(halves));
        if (ratios.n > 0 && c2c != C2C_UNKNOWN) {
            const struct stats s = stats_of(ratios.x, ratios.n);
            printf("; ratio to the best peer: median %.2f, least %.2f, most %.2f", s.median, s.min, s.max);
        }
        if (halves > 0 && c2c != C2C_UNKNOWN)
            putchar('\n');
        series_finish(&ratios);
    }
    if (b->guard.on && b->guard.least > 0)
        printf("# Core to core latency : %.0f to %.0f ns%s\n", 1e9 * b->guard.least, 1e9 * b->guard.most,
               b->guard.most < 2 * b->guard.least ? "; it did not change" : "");
}

bool report_end(const struct bench *b, bool complete)
{
    const char *wanted = getenv("NCCL_TESTS_MIN_BW");
    char *end, value[32] = "N/A";
    const double average = average_bandwidth(b);
    const bool timed = !b->options->overlap && !b->options->fusion, sized = b->coll->coll != PLAIT_BARRIER,
               enough = wanted == NULL || !timed || !sized || average >= 0.9 * plait_real(wanted, &end);

    printf("# %-20s : %llu %s\n", "Out of bounds values", (unsigned long long)b->wrong,
           b->wrong   ? "FAILED"
           : complete ? "OK"
                      : "(cut short)");
    if (complete || average > 0)
        snprintf(value, sizeof value, "%g", average);
    if (timed)
        printf("# %-20s : %s %s\n", "Avg bus bandwidth", value,
               !complete                  ? "(cut short)"
               : wanted == NULL || !sized ? ""
               : enough                   ? "OK"
                                          : "FAILED");
    if (timed && b->nbackend > 1 && b->ncell > 0)
        print_peers(b);
    printf("#\n");
    print_latencies(b);
    printf("# Collective test %s: %s\n", complete ? "concluded" : "cut short", b->coll->program);
    fflush(stdout);
    return enough;
}
