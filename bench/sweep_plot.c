/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep_plot.h"

#include "allocate.h"
#include "base/ascii.h"
#include "chart.h"
#include "file.h"
#include "measure.h"
#include "message.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH  1200
#define HEIGHT 580
#define TOP    56 /* below the title */

/* The half to draw: out of place where it was measured. */
static const struct half *drawn(const struct cell *c)
{
    return c->half[OUT_OF_PLACE].measured ? &c->half[OUT_OF_PLACE] : &c->half[IN_PLACE];
}

static bool belongs(const struct bench *b, const struct cell *c)
{
    return c->type == b->cell[0].type && c->op == b->cell[0].op && c->root == b->cell[0].root && c->bytes > 0 &&
           drawn(c)->measured;
}

/* One line for each backend, then the bound. bandwidth: else time */
static struct chart_line *make_lines(const struct bench *b, bool bandwidth)
{
    struct chart_line *lines = allocate(b->nbackend + 1, sizeof *lines);

    for (uint32_t k = 0; k <= b->nbackend; k++) {
        const bool bound = k == b->nbackend;
        struct chart_line *l = &lines[k];
        snprintf(l->name, sizeof l->name, "%s", bound ? "limit of this machine" : b->ranks[k].name);
        l->colour = bound ? 6 : k == 0 ? 1 : k == 1 ? 0 : k;
        l->thin = k > 0;
        l->dashed = bound;
        l->dots = !bound;
        for (size_t i = 0; i < b->ncell; i++) {
            const struct cell *c = &b->cell[i];
            if (!belongs(b, c) || (!bound && !drawn(c)->outcome[k].measured))
                continue;
            const double time = bound ? limits_bound(&b->limits, b->coll, c->bytes, b->ranks[0].nrank)
                                      : outcome_stats(b, &drawn(c)->outcome[k]).midmean;
            chart_add(l, (double)c->bytes, bandwidth ? bus_bandwidth(b, c, time) : time);
        }
    }
    return lines;
}

/* " (sum, root 0)", or the part that the collective has. */
static void describe(const struct cell *c, char *out, size_t room)
{
    if (c->op != PLAIT_NOP && c->root >= 0)
        snprintf(out, room, " (%s, root %d)", op_label(c->op), (int)c->root);
    else if (c->op != PLAIT_NOP)
        snprintf(out, room, " (%s)", op_label(c->op));
    else if (c->root >= 0)
        snprintf(out, room, " (root %d)", (int)c->root);
    else
        *out = '\0';
}

void sweep_title(const struct bench *b, char *out, size_t room)
{
    const struct cell *first = &b->cell[0];
    char what[40];

    describe(first, what, sizeof what);
    snprintf(out, room, "%c%s of %s%s, %u rank%s (%s), %s", plait_upper(b->coll->title[0]), b->coll->title + 1,
             dtype_label(first->type), what, b->ranks[0].nrank, plural(b->ranks[0].nrank),
             b->options->threads ? "threads" : "processes",
             drawn(first) == &first->half[IN_PLACE] ? "in place" : "out of place");
}

static void draw_chart(FILE *f, const struct bench *b, bool bandwidth)
{
    const struct chart c = {
        .title = bandwidth ? "Bus bandwidth (higher is better)" : "Time (lower is better)",
        .x = { .label = "size", .unit = CHART_BYTES, .log = true },
        .y = { .unit = bandwidth ? CHART_RATE : CHART_SECONDS, .log = !bandwidth },
        .lines = make_lines(b, bandwidth),
        .nline = b->nbackend + 1,
    };

    chart_draw(f, &c, bandwidth ? WIDTH / 2 : 0, TOP, WIDTH / 2, HEIGHT - TOP);
    for (size_t k = 0; k < c.nline; k++)
        chart_line_finish(&c.lines[k]);
    free(c.lines);
}

void sweep_draw(FILE *f, const struct bench *b, bool alone)
{
    char title[256];

    sweep_title(b, title, sizeof title);
    svg_begin(f, WIDTH, HEIGHT, title, alone);
    svg_text(f, 16, 22, "bold", "%s", title);
    svg_text(f, 16, 40, "small", "%s; midmean of single operations; buffers from %s", b->limits.processor,
             b->options->library_memory ? "plait_mem_alloc"
             : b->options->same_memory  ? "shared pages"
                                        : "malloc");
    draw_chart(f, b, false);
    draw_chart(f, b, true);
    svg_end(f);
}

static bool write_file(FILE *f, const void *bench)
{
    sweep_draw(f, bench, true);
    return true;
}

bool sweep_plot(const struct bench *b, const char *path)
{
    if (b->ncell == 0)
        return complain("--plot %s: nothing was measured", path);
    if (!file_write("--plot", path, write_file, b))
        return false;
    printf("# Plot                 : %s\n", path);
    return true;
}
