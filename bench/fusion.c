/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion.h"

#include "allocate.h"
#include "message.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIGURE_STEPS 3

static const char *const gradients_names[2] = { "buckets", "own" };

double fusion_exposed(double step, double computing)
{
    return step > 0 ? 100 * fmax(step - computing, 0) / step : 0;
}

uint64_t fusion_memory(const struct options *o, uint64_t elements)
{
    const uint64_t flat = elements * sizeof(float), peers = ((uint64_t)o->npeer + 2 * o->ddp) * 2 * flat;
    uint64_t most = 0;

    for (uint32_t i = 0; i < o->npayload; i++)
        for (int own = 0; own < 2; own++) {
            const uint64_t payload = elements * plait_dtype_size(o->payload[i]);
            const uint64_t fused = payload + (!own && payload < flat ? flat : 0);
            const uint64_t bytes = (2 + (uint64_t)own) * flat + o->nlayout * fused;
            most = o->gradients[own] && bytes > most ? bytes : most;
        }
    return o->nrank * (most + peers);
}

/* ---- rows -------------------------------------------------------------------------------------- */

static void add_row(struct cell *c, uint32_t backend, enum scheme scheme, const struct layout *layout)
{
    static const char *const names[] = {
        [SCHEME_COMPUTE] = "computing", [SCHEME_UNFUSED] = "per tensor", [SCHEME_FLAT] = "flat"
    };

    c->row = grow(c->row, c->nrow + 1, sizeof *c->row);
    struct fusion_row *row = &c->row[c->nrow++];
    *row = (struct fusion_row){ .backend = backend, .scheme = scheme };
    row->payload = backend == 0 ? c->payload : PLAIT_FLOAT32; /* Open MPI 4.1 has no other */
    row->own = (backend == 0 || scheme == SCHEME_FUSED) && c->own;
    if (layout == NULL) {
        snprintf(row->name, sizeof row->name, "%s", names[scheme]);
        return;
    }
    row->layout = *layout;
    layout_name(layout, row->name, sizeof row->name);
}

static void add_rows(const struct bench *b, struct cell *c)
{
    const struct options *o = b->options;

    if (o->compute > 0)
        add_row(c, 0, SCHEME_COMPUTE, NULL);
    add_row(c, 0, SCHEME_UNFUSED, NULL);
    for (uint32_t i = 0; i < o->nlayout; i++)
        add_row(c, 0, SCHEME_FUSED, &o->layout[i]);
    add_row(c, 0, SCHEME_FLAT, NULL);
    for (uint32_t k = 1; k < b->nbackend; k++) {
        add_row(c, k, SCHEME_UNFUSED, NULL);
        add_row(c, k, SCHEME_FUSED, &(struct layout){ .rule = RULE_DDP }); /* of the peers only Gloo has it */
        add_row(c, k, SCHEME_FLAT, NULL);
    }
}

/* ---- measuring --------------------------------------------------------------------------------- */

/* Set up the task for this row's steps. */
static void become(struct task *t, const struct fusion_row *row, uint32_t cell)
{
    t->cell->type = row->scheme == SCHEME_FUSED ? PLAIT_FLOAT32 : row->payload;
    t->step = (struct step){ .scheme = row->scheme,
                             .layout = row->layout,
                             .payload = row->payload,
                             .own = row->own,
                             .cell = cell,
                             .seconds = t->bench->options->compute };
}

static bool prepare(struct task *t, struct fusion_row *row, uint32_t cell, bool *able)
{
    double seconds;

    become(t, row, cell);
    *able = true;
    if (row->scheme != SCHEME_COMPUTE && !measure_check(t, row->backend, able))
        return false;
    if (!*able)
        return true;
    if (!measure_warm_up(t, row->backend, &seconds))
        return false;
    row->iterations = measure_iterations(t->bench->options, seconds);
    return true;
}

/* The first step of a turn follows another row's, and is not counted. */
static bool take_turn(struct task *t, struct fusion_row *row, uint32_t cell, uint32_t round)
{
    struct series times = { 0 };

    become(t, row, cell);
    t->iterations[row->backend] = row->iterations < STAGE_ITERATIONS ? row->iterations + 1 : STAGE_ITERATIONS;
    const bool ok = measure_times(t, row->backend, &times);
    if (ok)
        row->round[round] = median_of(times.x + 1, times.n - 1);
    series_finish(&times);
    return ok;
}

static void show_progress(const struct bench *b, const struct cell *c, const struct fusion_row *row, uint32_t round)
{
    report_progress("fusion, cell %zu of %zu, round %u of %llu: %s %s", (size_t)(c - b->cell) + 1, b->ncell, round + 1,
                    (unsigned long long)b->options->rounds, b->ranks[row->backend].name, row->name);
}

static bool all_rounds(struct task *t, uint32_t cell)
{
    struct cell *c = t->cell;
    bool ok = true;

    for (uint32_t round = 0; ok && round < t->bench->options->rounds; round++)
        for (size_t i = 0; ok && i < c->nrow; i++) {
            struct fusion_row *row = &c->row[(round + i) % c->nrow];
            show_progress(t->bench, c, row, round);
            ok = take_turn(t, row, cell, round);
        }
    report_progress("%s", "");
    return ok;
}

/* timeline.json; with several fused rows timeline-cubic-float-own.json and so on. */
static void path_for(const struct task *t, const struct fusion_row *row, char *out, size_t room)
{
    const struct options *o = t->bench->options;
    char part[LAYOUT_TEXT + 64];

    if (t->bench->ncell * o->nlayout == 1) {
        snprintf(out, room, "%s", o->timeline);
        return;
    }
    snprintf(part, sizeof part, "%s-%s-%s", row->name, dtype_label(row->payload), gradients_names[row->own]);
    for (char *c = part; (c = strchr(c, ':')) != NULL;)
        *c = '-';
    report_path(o->timeline, part, out, room);
}

/* Run traced steps. The timed ones are not traced, since reading the clock for every tensor takes time. */
static bool count(struct task *t, struct fusion_row *row, uint32_t cell)
{
    struct ranks *r = &t->bench->ranks[row->backend];
    struct reply reply[MAX_RANKS];
    struct command c;

    become(t, row, cell);
    t->step.traced = row->scheme == SCHEME_FUSED && row->backend == 0;
    c = measure_command(t, row->backend, VERB_FIGURES, FIGURE_STEPS);
    if (t->step.traced && t->bench->options->timeline != NULL)
        path_for(t, row, c.timeline, sizeof c.timeline);
    if (!ranks_command(r, &c, reply, t->bench->options->timeout))
        return false;
    row->figures = reply[0].figures;
    for (uint32_t i = 1; i < r->nrank; i++) {
        const struct step_figures *f = &reply[i].figures;
        if (f->bytes > row->figures.bytes)
            row->figures.bytes = f->bytes;
        if (f->messages > row->figures.messages)
            row->figures.messages = f->messages;
        row->figures.communicating = fmax(row->figures.communicating, f->communicating);
        row->figures.hidden = fmax(row->figures.hidden, f->hidden);
    }
    row->counted = row->backend == 0;
    return true;
}

static const struct fusion_row *find(const struct cell *c, bool peer, enum scheme scheme)
{
    const struct fusion_row *best = NULL;

    for (size_t i = 0; i < c->nrow; i++)
        if (c->row[i].scheme == scheme && (c->row[i].backend > 0) == peer &&
            (best == NULL || c->row[i].step < best->step))
            best = &c->row[i];
    return best;
}

static double ratio(const struct fusion_row *row, const struct fusion_row *to, uint64_t rounds)
{
    double x[MAX_ROUNDS];

    if (to == NULL || to == row || row->scheme == SCHEME_COMPUTE)
        return 0;
    for (uint64_t i = 0; i < rounds; i++)
        x[i] = row->round[i] / to->round[i];
    return median_of(x, rounds);
}

static void compare(const struct bench *b, struct cell *c)
{
    const uint64_t rounds = b->options->rounds;

    for (size_t i = 0; i < c->nrow; i++)
        c->row[i].step = median_of(c->row[i].round, rounds);
    const struct fusion_row *flat = find(c, false, SCHEME_FLAT), *peer = find(c, true, SCHEME_UNFUSED);
    const struct fusion_row *computing = find(c, false, SCHEME_COMPUTE);
    for (size_t i = 0; i < c->nrow; i++) {
        struct fusion_row *row = &c->row[i];
        row->to_flat = ratio(row, flat, rounds);
        row->to_peer = ratio(row, peer, rounds);
        row->exposed = fusion_exposed(row->step, computing != NULL ? computing->step : 0);
    }
}

/* Leave out rows that their backend does not support. */
static bool prepare_all(struct task *t, uint32_t cell)
{
    struct cell *c = t->cell;
    size_t kept = 0;

    for (size_t i = 0; i < c->nrow; i++) {
        bool able;
        if (!prepare(t, &c->row[i], cell, &able))
            return false;
        if (able)
            c->row[kept++] = c->row[i];
    }
    c->nrow = kept;
    return true;
}

bool fusion_measure(struct bench *b, struct cell *c)
{
    struct task t = { .bench = b, .cell = c, .place = IN_PLACE };
    uint32_t number = 1 + (uint32_t)(c - b->cell) * 32; /* and further numbers for the rows that are counted */

    add_rows(b, c);
    bool ok = prepare_all(&t, number) && all_rounds(&t, number);
    for (size_t i = 0; ok && i < c->nrow; i++)
        if (c->row[i].scheme == SCHEME_FUSED || (c->row[i].backend == 0 && c->row[i].scheme != SCHEME_COMPUTE))
            ok = count(&t, &c->row[i], ++number);
    c->type = c->payload;
    for (uint32_t k = 0; k < b->nbackend; k++) {
        const uint64_t wrong = c->half[IN_PLACE].outcome[k].wrong;
        if (k == 0)
            b->wrong += wrong;
        else if (wrong > 0)
            complain("%s: %llu wrong elements; do not compare its times", b->ranks[k].name, (unsigned long long)wrong);
    }
    if (ok)
        compare(b, c);
    return ok;
}

/* ---- reporting --------------------------------------------------------------------------------- */

void fusion_report_head(const struct bench *b)
{
    const struct options *o = b->options;

    printf("# %-20s : the slowest rank's time, the median over %llu round%s; ranks begin a step together\n", "step",
           (unsigned long long)o->rounds, plural(o->rounds));
    if (o->compute > 0)
        printf("# %-20s : a sleep of %g ms, which uses no processor; the progress thread drives fused exchanges\n",
               "computing", 1e3 * o->compute);
    else
        printf("# %-20s : none: all gradients are ready at once; the waiting rank drives fused exchanges\n",
               "computing");
    printf("# %-20s : x/flat to one all-reduce of the same payload, x/peer to the fastest peer per tensor (float)\n",
           "ratios");
    printf("# %-20s : maximum over the ranks; times are of traced steps\n", "KiB, messages, ms");
    if (getenv("PLAIT_PACE") != NULL)
        printf("# %-20s : %s slows down plait alone\n", "PLAIT_PACE", getenv("PLAIT_PACE"));
    printf("#\n# %8s  %9s  %14s  %15s  %7s  %11s  %6s  %6s  %10s  %8s  %7s  %9s  %9s\n", "payload", "gradients",
           "backend", "exchange", "buckets", "step", "x/flat", "x/peer", "sent", "messages", "exposed", "in flight",
           "hidden");
    printf("# %8s  %9s  %14s  %15s  %7s  %11s  %6s  %6s  %10s  %8s  %7s  %9s  %9s\n", "", "", "", "", "", "(us)", "",
           "", "(KiB)", "", "(%)", "(ms)", "(ms)");
}

static const char *place_of(const struct fusion_row *row)
{
    if (row->scheme == SCHEME_UNFUSED)
        return gradients_names[1];
    return row->scheme == SCHEME_FUSED || row->backend == 0 ? gradients_names[row->own] : "-";
}

static void print_ratio(double x)
{
    if (x > 0)
        printf("  %6.3f", x);
    else
        printf("  %6s", "-");
}

static void report_row(const struct bench *b, const struct fusion_row *row)
{
    const struct step_figures *f = &row->figures;
    const bool fused = row->scheme == SCHEME_FUSED;

    printf("  %8s  %9s  %14s  %15s", dtype_label(row->payload), place_of(row), b->ranks[row->backend].name, row->name);
    if (fused)
        printf("  %7u", f->nbucket);
    else
        printf("  %7s", "-");
    printf("  %11.2f", 1e6 * row->step);
    print_ratio(row->to_flat);
    print_ratio(row->to_peer);
    if (row->counted)
        printf("  %10.1f  %8llu", (double)f->bytes / 1024, (unsigned long long)f->messages);
    else
        printf("  %10s  %8s", "-", "-");
    printf("  %7.1f", row->exposed);
    if (fused && row->counted)
        printf("  %9.3f  %9.3f\n", 1e3 * f->communicating, 1e3 * f->hidden);
    else
        printf("  %9s  %9s\n", "-", "-");
}

void fusion_report_cell(const struct bench *b, const struct cell *c)
{
    printf("# %s, %llu bytes\n", c->label, (unsigned long long)c->bytes);
    for (size_t i = 0; i < c->nrow; i++)
        report_row(b, &c->row[i]);
    fflush(stdout);
}
