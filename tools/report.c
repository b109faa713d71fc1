/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include "file.h"
#include "message.h"
#include "page.h"
#include "units.h"
#include "value.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TRIES    (4 * PLAIT_MOST_LEVELS + 1)
#define MOST_MESSAGES 2000000 /* of all simulations for what to try */

static double seconds(uint64_t picoseconds)
{
    return 1e-12 * (double)picoseconds;
}

static double percent(uint64_t part, uint64_t all)
{
    return all > 0 ? 100 * (double)part / (double)all : 0;
}

/* ---- What to try ------------------------------------------------------------------------------------ */

struct
try { /* a machine with one thing better, and the time there */
    char what[96];
    uint64_t time;
};

static int compare(const void *a, const void *b)
{
    const struct try *x = a, *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

/* Simulate the fastest algorithm on a machine with these changes. */
static void attempt(const struct report *r, const char *changes, struct try tries[MOST_TRIES], size_t *n,
                    const char *what, ...) __attribute__((format(printf, 5, 6)));

static void attempt(const struct report *r, const char *changes, struct try tries[MOST_TRIES], size_t *n,
                    const char *what, ...)
{
    const struct plait_sim_options options = { .place = r->d.place };
    struct plait_machine m = *r->d.machine;
    struct plait_prediction p;
    va_list arguments;

    if (plait_machine_change(&m, changes) != PLAIT_OK || memcmp(&m, r->d.machine, sizeof m) == 0 ||
        plait_simulate(&m, r->d.spec, r->d.shape, PLAIT_FLOAT32, r->d.count, &options, &p) != PLAIT_OK)
        return;
    va_start(arguments, what);
    vsnprintf(tries[*n].what, sizeof tries->what, what, arguments);
    va_end(arguments);
    tries[(*n)++].time = p.time;
}

/* Have the units of this level fewer processors than ranks? */
static bool is_crowded(const struct plait_machine *m, uint32_t level)
{
    uint64_t ranks = 1;

    for (uint32_t k = 0; k <= level; k++)
        ranks *= m->level[k].children;
    return m->level[level].processors > 0 && m->level[level].processors < ranks;
}

static void attempt_level(const struct report *r, uint32_t k, struct try tries[MOST_TRIES], size_t *n)
{
    const struct plait_machine *m = r->d.machine;
    const char *unit = m->level[k].name, *below = k > 0 ? m->level[k - 1].name : "rank";
    char change[96];

    snprintf(change, sizeof change, "%s.bandwidth=*2", unit);
    if (m->level[k].links > 0)
        attempt(r, change, tries, n, "twice the bandwidth of each %s's links to the %s", below, unit);
    else
        attempt(r, change, tries, n, "twice the rate at which ranks read memory inside each %s", unit);
    snprintf(change, sizeof change, "%s.latency=/2,%s.overhead=/2", unit, unit);
    attempt(r, change, tries, n, "half the latency and overhead between %ss of a %s", below, unit);
    snprintf(change, sizeof change, "%s.memory=*2", unit);
    attempt(r, change, tries, n, "twice the memory bandwidth of each %s", unit);
    snprintf(change, sizeof change, "%s.processors=*2", unit);
    if (is_crowded(m, k))
        attempt(r, change, tries, n, "twice the processors of each %s", unit);
}

static size_t attempts(const struct report *r, struct try tries[MOST_TRIES])
{
    size_t n = 0;

    if (r->rows[0].p.messages * MOST_TRIES > MOST_MESSAGES)
        return 0;
    for (uint32_t k = 0; k < r->d.machine->nlevel; k++)
        attempt_level(r, k, tries, &n);
    attempt(r, "copy=*2,reduce=*2", tries, &n, "copies and reductions twice as fast");
    qsort(tries, n, sizeof *tries, compare);
    return n;
}

static void write_tries(FILE *f, const struct report *r)
{
    const uint64_t now = r->rows[0].p.time;
    struct try tries[MOST_TRIES];
    char text[UNITS_ROOM], useless[1024] = "";

    const size_t n = attempts(r, tries);
    for (size_t i = 0; i < n; i++) {
        if (percent(tries[i].time, now) < 98)
            page_item(f, "With %s it would take %s, %.0f %% less.", tries[i].what,
                      units_seconds(text, seconds(tries[i].time)), 100 - percent(tries[i].time, now));
        else
            list_add(useless, sizeof useless, tries[i].what);
    }
    if (useless[0] != '\0')
        page_item(f, "Less than 2 %% would be gained by: %s.", useless);
}

/* The largest part of the longest chain of dependent steps, and what makes it smaller. */
static void write_path(FILE *f, const struct plait_prediction *p)
{
    const struct {
        uint64_t time;
        const char *what, *remedy;
    } parts[] = {
        { p->path.latency, "latency and overhead of messages",
          "an algorithm with fewer rounds, or fewer and larger operations, sends fewer messages one after the other" },
        { p->path.transfer, "transfer of bytes",
          "an algorithm that sends fewer bytes over the slowest links, or another placement of the ranks, shortens "
          "it" },
        { p->path.compute, "copies and reductions",
          "an algorithm that spreads reductions over more ranks shortens it, and so does faster memory" },
        { p->path.waiting, "waiting for room in the window of a pair of ranks, or for an earlier slice",
          "an algorithm with fewer messages between each pair of ranks shortens it, and so does less latency" },
    };
    size_t most = 0;

    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        most = parts[i].time > parts[most].time ? i : most;
    page_item(f, "The longest chain of dependent steps is %.0f %% %s: %s.", percent(parts[most].time, p->time),
              parts[most].what, parts[most].remedy);
}

static void write_advice(FILE *f, const struct report *r)
{
    const struct report_row *best = &r->rows[0];
    const double bound = percent(best->p.bound, best->p.time);
    char text[UNITS_ROOM];

    page_heading(f, "What to try");
    page_list(f);
    if (r->n > 1)
        page_item(f, "Use %s (PLAIT_ALGO=%s:%s): it is the fastest of %zu algorithms. %s takes %.2f times as long.",
                  best->spec, plait_coll_name(r->d.shape->coll), best->spec, r->n, r->rows[1].spec,
                  best->p.time > 0 ? (double)r->rows[1].p.time / (double)best->p.time : 1);
    if (best->p.busiest[0] != '\0')
        page_item(f, "%s is needed for %s, %.0f %% of the time: %s.", best->p.busiest,
                  units_seconds(text, seconds(best->p.bound)), bound,
                  bound >= 90   ? "only an algorithm that uses it less, or a faster one, helps much"
                  : bound >= 50 ? "at most the rest can be gained with this algorithm on this machine"
                                : "for the rest of the time something else is the limit");
    write_path(f, &best->p);
    write_tries(f, r);
    page_list_end(f);
}

/* ---- The table ------------------------------------------------------------------------------------- */

static void write_table(FILE *f, const struct report *r)
{
    page_heading(f, r->n > 1 ? "Algorithms, the fastest first" : "The algorithm");
    page_table(f, "<algorithm|time (us)|bound (us)|bound|<busiest|latency (us)|transfer (us)|compute (us)|waiting (us)|"
                  "messages|bytes|slices");
    for (size_t i = 0; i < r->n; i++) {
        const struct plait_prediction *p = &r->rows[i].p;
        page_row(f);
        page_cell(f, "%s", r->rows[i].spec);
        page_cell(f, "%.3f", 1e6 * seconds(p->time));
        page_cell(f, "%.3f", 1e6 * seconds(p->bound));
        page_cell(f, "%.0f %%", percent(p->bound, p->time));
        page_cell(f, "%s", p->busiest[0] != '\0' ? p->busiest : "-");
        page_cell(f, "%.3f", 1e6 * seconds(p->path.latency));
        page_cell(f, "%.3f", 1e6 * seconds(p->path.transfer));
        page_cell(f, "%.3f", 1e6 * seconds(p->path.compute));
        page_cell(f, "%.3f", 1e6 * seconds(p->path.waiting));
        page_cell(f, "%" PRIu64, p->messages);
        page_cell(f, "%" PRIu64, p->bytes);
        page_cell(f, "%" PRIu64, p->slices);
    }
    page_table_end(f);
    page_paragraph(f,
                   "bound: what the busiest link, memory or processor needs for this plan alone. latency to waiting: "
                   "parts of the longest chain of dependent steps; their sum is the time.");
    if (r->large[0] != '\0')
        page_paragraph(f, "Not simulated, since that takes long: %s.", r->large);
}

/* The longest chain of each algorithm as a bar of its parts. Bars of more than four times the fastest are cut. */
static void write_bars(FILE *f, const struct report *r)
{
    const double left = 170, wide = DRAW_WIDTH - left - 90, row = 22, top = 40;
    const double height = row * (double)r->n;
    const struct chart_key keys[] = {
        { "latency and overhead", "f4" }, { "transfer", "f0" }, { "copies and reductions", "f1" }, { "waiting", "f3" }
    };
    const uint64_t last = r->rows[r->n - 1].p.time, first = r->rows[0].p.time,
                   most = last < 4 * first ? last : 4 * first;
    char time[UNITS_ROOM];

    svg_begin(f, DRAW_WIDTH, top + height + 44, "The longest chain of dependent steps of each algorithm", false);
    chart_legend(f, keys, 4, left, 18, wide);
    draw_time(f, most, left, top + height, wide, height);
    for (size_t i = 0; i < r->n; i++) {
        const struct plait_path *path = &r->rows[i].p.path;
        const uint64_t parts[] = { path->latency, path->transfer, path->compute, path->waiting };
        const double y = top + row * (double)i;
        double x = left;
        svg_text(f, left - 8, y + 15, "small end", "%s", r->rows[i].spec);
        for (int k = 0; k < 4; k++) {
            const double length = fmin(most > 0 ? wide * (double)parts[k] / (double)most : 0, left + wide - x);
            svg_rect(f, x, y + 3, length, row - 6, keys[k].classes);
            x += length;
        }
        svg_text(f, x + 6, y + 15, "small", "%s%s", units_seconds(time, seconds(r->rows[i].p.time)),
                 r->rows[i].p.time > most ? " (cut)" : "");
    }
    svg_end(f);
}

/* ---- The page -------------------------------------------------------------------------------------- */

static void write_machine(FILE *f, const struct plait_machine *m)
{
    char rate[UNITS_ROOM], latency[UNITS_ROOM], overhead[UNITS_ROOM], memory[UNITS_ROOM];

    page_heading(f, "The machine");
    page_table(f, "<level|children|links of each|bandwidth|latency|overhead|processors|memory");
    for (uint32_t k = 0; k < m->nlevel; k++) {
        const struct plait_level *l = &m->level[k];
        page_row(f);
        page_cell(f, "%s", l->name);
        page_cell(f, "%" PRIu32, l->children);
        if (l->links > 0)
            page_cell(f, "%" PRIu32, l->links);
        else
            page_cell(f, "shared memory");
        page_cell(f, "%s", units_rate(rate, (double)l->bandwidth));
        page_cell(f, "%s", units_seconds(latency, 1e-9 * (double)l->latency));
        page_cell(f, "%s", units_seconds(overhead, 1e-9 * (double)l->overhead));
        if (l->processors > 0)
            page_cell(f, "%" PRIu32, l->processors);
        else
            page_cell(f, "as many as ranks");
        page_cell(f, "%s", l->memory > 0 ? units_rate(memory, (double)l->memory) : "unlimited");
    }
    page_table_end(f);
    page_paragraph(f, "Each rank copies at %s and reduces at %s.",
                   m->copy > 0 ? units_rate(rate, (double)m->copy) : "any rate",
                   m->reduce > 0 ? units_rate(memory, (double)m->reduce) : "any rate");
}

static bool write_pictures(FILE *f, const struct report *r)
{
    static bool (*const pictures[])(FILE *, const struct drawing *, bool) = { draw_messages, draw_graph, draw_links };
    char title[128];
    bool ok = true;

    snprintf(title, sizeof title, "Pictures of %s", r->d.spec);
    page_heading(f, title);
    if (r->d.p.messages > DRAW_SOON) {
        page_paragraph(f, "%" PRIu64 " messages: pictures would take minutes. plait-plan draw makes them.",
                       r->d.p.messages);
        return true;
    }
    for (size_t i = 0; ok && i < sizeof pictures / sizeof *pictures; i++) {
        page_picture(f);
        ok = pictures[i](f, &r->d, false);
        page_picture_end(f);
    }
    return ok;
}

static bool write_page(FILE *f, const void *what)
{
    const struct report *r = what;
    char title[256], size[UNITS_ROOM], time[UNITS_ROOM], bound[UNITS_ROOM];
    const char *fastest = r->n > 1 ? " is the fastest" : "";
    const struct plait_prediction *best = &r->rows[0].p;

    snprintf(title, sizeof title, "%s of %s, %" PRIu32 " rank%s, on %s", plait_coll_name(r->d.shape->coll),
             units_bytes(size, (double)(r->d.count * sizeof(float))), r->d.shape->nrank, plural(r->d.shape->nrank),
             r->d.machine->name);
    page_begin(f, title);
    page_paragraph(f, "%s%s: %s. Its bound is %s. A prediction of plait-plan simulate; nothing was measured.",
                   r->rows[0].spec, fastest, units_seconds(time, seconds(best->time)),
                   units_seconds(bound, seconds(best->bound)));
    write_advice(f, r);
    write_table(f, r);
    page_heading(f, "Where the time goes");
    page_picture(f);
    write_bars(f, r);
    page_picture_end(f);
    const bool ok = write_pictures(f, r);
    write_machine(f, r->d.machine);
    page_end(f);
    return ok;
}

bool report_write(const char *path, const struct report *r)
{
    return file_write("--report", path, write_page, r);
}
