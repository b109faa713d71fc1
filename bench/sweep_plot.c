/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep_plot.h"

#include "base/ascii.h"
#include "measure.h"
#include "message.h"
#include "plot.h"
#include "report.h"

#include <stdio.h>

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

/* Columns: bytes, microseconds, bus bandwidth in GB/s. */
static void write_row(FILE *f, const struct bench *b, const struct cell *c, double seconds)
{
    fprintf(f, "%llu %.6g %.6g\n", (unsigned long long)c->bytes, 1e6 * seconds, 1e-9 * bus_bandwidth(b, c, seconds));
}

/* One data block per backend, then the bound. */
static void write_data(FILE *f, const struct bench *b)
{
    for (uint32_t k = 0; k <= b->nbackend; k++) {
        fprintf(f, "$data%u << EOD\n", k);
        for (size_t i = 0; i < b->ncell; i++) {
            const struct cell *c = &b->cell[i];
            if (!belongs(b, c))
                continue;
            if (k == b->nbackend)
                write_row(f, b, c, limits_bound(&b->limits, b->coll, c->bytes, b->ranks[0].nrank));
            else if (drawn(c)->outcome[k].measured)
                write_row(f, b, c, outcome_stats(b, &drawn(c)->outcome[k]).midmean);
        }
        fprintf(f, "EOD\n");
    }
}

static void write_curves(FILE *f, const struct bench *b, int column)
{
    fprintf(f, "plot ");
    for (uint32_t k = 0; k < b->nbackend; k++)
        fprintf(f, "$data%u using 1:%d with linespoints lw %s pt %u ps 0.9 lc rgb '%s' title '%s', ", k, column,
                k == 0 ? "3" : "1.6", k == 0 ? 7 : 4 + 2 * (k % 5), plot_colours[k % PLOT_NCOLOUR], b->ranks[k].name);
    fprintf(f, "$data%u using 1:%d with lines lw 2 dt 2 lc rgb '#555555' title 'limit of this machine'\n", b->nbackend,
            column);
}

/* Ticks "1 KiB", "4 KiB", ...: powers of four. */
static void write_sizes(FILE *f)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };

    fprintf(f, "set xtics (");
    for (int power = 2; power <= 32; power += 2)
        fprintf(f, "%s'%d %s' %llu", power > 2 ? ", " : "", 1 << power % 10, units[power / 10], 1ull << power);
    fprintf(f, ") rotate by 45 right\n");
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

static bool write_script(FILE *f, const void *bench, const char *path)
{
    const struct bench *b = bench;
    const struct options *o = b->options;
    const struct cell *first = &b->cell[0];
    char what[40];

    describe(first, what, sizeof what);
    write_data(f, b);
    plot_terminal(f, path, "1500,720", "");
    fprintf(f,
            "set multiplot layout 1,2 title \"{/:Bold %c%s of %s%s, %u rank%s (%s), %s}\\n{/*0.8 %s; midmean of "
            "single operations; buffers from %s}\"\n",
            plait_upper(b->coll->title[0]), b->coll->title + 1, dtype_label(first->type), what, b->ranks[0].nrank,
            plural(b->ranks[0].nrank), o->threads ? "threads" : "processes",
            drawn(first) == &first->half[IN_PLACE] ? "in place" : "out of place", b->limits.processor,
            o->library_memory ? "plait\\\\_mem\\\\_alloc"
            : o->same_memory  ? "shared pages"
                              : "malloc");
    fprintf(f, "set logscale x 2\nset grid lc rgb '#dddddd'\nset border lc rgb '#444444'\n");
    fprintf(f, "set xlabel 'size in bytes'\nset offsets graph 0.02, graph 0.02, 0, 0\n");
    write_sizes(f);
    fprintf(f, "set title 'Time (lower is better)'\nset logscale y\nset ylabel 'microseconds'\nset key top left\n");
    write_curves(f, b, 2);
    fprintf(f, "set title 'Bus bandwidth (higher is better)'\nunset logscale y\nset yrange [0:*]\nset ylabel 'GB/s'\n"
               "set key top left\n");
    write_curves(f, b, 3);
    fprintf(f, "unset multiplot\n");
    return true;
}

bool sweep_plot(const struct bench *b, const char *path)
{
    if (b->ncell == 0)
        return complain("--plot %s: nothing was measured", path);
    if (!plot_script(path, write_script, b))
        return false;
    printf("# Plot                 : %s\n", path);
    return true;
}
