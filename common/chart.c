/* SPDX-License-Identifier: BSD-3-Clause */
#include "chart.h"

#include "allocate.h"
#include "units.h"

#include <math.h>
#include <stdlib.h>

#define MOST_TICKS 24
#define LINE       18 /* height of a line of text */

/* ---- Points ---------------------------------------------------------------------------------------- */

void chart_add(struct chart_line *line, double x, double y)
{
    if (line->n == line->room) {
        line->room = 2 * line->room + 16;
        line->points = grow(line->points, line->room, sizeof *line->points);
    }
    line->points[line->n++] = (struct chart_point){ x, y };
}

void chart_line_finish(struct chart_line *line)
{
    free(line->points);
}

static bool fits(const struct chart_axis *a, double value)
{
    return isfinite(value) && (!a->log || value > 0);
}

static double place(const struct chart_axis *a, double value)
{
    return a->log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
}

/* ---- Axes ------------------------------------------------------------------------------------------ */

static const char *tick_text(const struct chart_axis *a, double value, char out[UNITS_ROOM])
{
    switch (a->unit) {
    case CHART_BYTES:
        return units_bytes(out, value);
    case CHART_SECONDS:
        return units_seconds(out, value);
    case CHART_RATE:
        return units_rate(out, value);
    case CHART_PERCENT:
        snprintf(out, UNITS_ROOM, "%.3g %%", value);
        return out;
    default:
        return units_number(out, value);
    }
}

/* 1, 2 or 5 times a power of ten, or a power of two bytes; at most `most` of them in the axis. */
static double step_of(const struct chart_axis *a, unsigned most)
{
    const double least = (a->high - a->low) / most;
    double step = a->unit == CHART_BYTES ? exp2(ceil(log2(least))) : pow(10, floor(log10(least)));

    for (int k = 0; a->unit != CHART_BYTES && step < 0.999 * least; k++)
        step *= k % 3 == 1 ? 2.5 : 2;
    return step;
}

static unsigned ticks(const struct chart_axis *a, unsigned most, double out[MOST_TICKS])
{
    unsigned n = 0;

    if (!a->log) {
        const double step = step_of(a, most);
        for (double i = ceil(a->low / step - 1e-6); i * step <= a->high * (1 + 1e-9) && n < MOST_TICKS; i++)
            out[n++] = i * step + 0.0; /* no -0 */
        return n;
    }
    const double base = a->unit == CHART_BYTES ? 2 : 10;
    const double first = ceil(log(a->low) / log(base) - 1e-6), last = floor(log(a->high) / log(base) + 1e-6);
    const double by = fmax(1, ceil((last - first + 1) / most));
    for (double i = first; i <= last && n < MOST_TICKS; i += by)
        out[n++] = pow(base, i);
    return n;
}

void chart_x_axis(FILE *f, const struct chart_axis *a, double x, double y, double width, double height)
{
    double at[MOST_TICKS];
    char text[UNITS_ROOM];
    const unsigned n = ticks(a, (unsigned)fmax(2, width / 80), at);

    for (unsigned i = 0; i < n; i++) {
        const double p = x + width * place(a, at[i]);
        svg_line(f, p, y - height, p, y + 4, "grid");
        svg_text(f, p, y + LINE, "small muted middle", "%s", tick_text(a, at[i], text));
    }
    if (a->label != NULL)
        svg_text(f, x + width / 2, y + 2 * LINE, "small muted middle", "%s", a->label);
}

static void y_axis(FILE *f, const struct chart_axis *a, double x, double y, double width, double height)
{
    double at[MOST_TICKS];
    char text[UNITS_ROOM];
    const unsigned n = ticks(a, (unsigned)fmax(2, height / 36), at);

    for (unsigned i = 0; i < n; i++) {
        const double p = y - height * place(a, at[i]);
        svg_line(f, x, p, x + width, p, "grid");
        svg_text(f, x - 6, p + 4, "small muted end", "%s", tick_text(a, at[i], text));
    }
}

double chart_legend(FILE *f, const struct chart_key *keys, size_t n, double x, double y, double width)
{
    double at = x;

    for (size_t i = 0; i < n; i++) {
        const double wide = svg_width(keys[i].name, true) + 32;
        if (at > x && at + wide > x + width) {
            at = x;
            y += LINE;
        }
        svg_rect(f, at, y - 9, 14, 10, keys[i].classes);
        svg_text(f, at + 19, y, "small", "%s", keys[i].name);
        at += wide;
    }
    return y + LINE;
}

/* ---- Curves ---------------------------------------------------------------------------------------- */

/* Widen *a until it contains the value. */
static void include(struct chart_axis *a, double value, bool *any)
{
    if (!fits(a, value))
        return;
    a->low = *any && a->low < value ? a->low : value;
    a->high = *any && a->high > value ? a->high : value;
    *any = true;
}

static struct chart_axis fitted(const struct chart *c, bool is_x)
{
    struct chart_axis a = is_x ? c->x : c->y;
    bool any = false;

    if (a.low != a.high)
        return a;
    for (size_t k = 0; k < c->nline; k++)
        for (size_t i = 0; i < c->lines[k].n; i++) {
            const struct chart_point *p = &c->lines[k].points[i];
            if (fits(&c->x, p->x) && fits(&c->y, p->y))
                include(&a, is_x ? p->x : p->y, &any);
        }
    if (!is_x && !a.log) { /* from 0, with room above */
        a.low = fmin(a.low, 0);
        a.high *= 1.05;
    }
    if (!any || a.low == a.high) {
        a.low = any && a.log ? a.low / 2 : any ? a.low - 0.5 : a.log ? 1 : 0;
        a.high = any && a.log ? a.high * 2 : a.low + 1;
        a.high = a.high > a.low ? a.high : a.low + 1;
    }
    return a;
}

static void draw_line(FILE *f, const struct chart_line *l, const struct chart_axis *ax, const struct chart_axis *ay,
                      double x, double y, double width, double height)
{
    bool pen = false;

    fprintf(f, "<path class=\"l%u%s\" stroke-width=\"%s\" stroke-linejoin=\"round\" d=\"", l->colour % SVG_NCOLOUR,
            l->dashed ? " dashed" : "", l->thin ? "1.2" : "2.4");
    for (size_t i = 0; i < l->n; i++) {
        const bool there = fits(ax, l->points[i].x) && fits(ay, l->points[i].y);
        if (there)
            fprintf(f, "%c%.1f %.1f", pen ? 'L' : 'M', x + width * place(ax, l->points[i].x),
                    y - height * place(ay, l->points[i].y));
        pen = there;
    }
    fputs("\"/>\n", f);
    for (size_t i = 0; i < l->n && l->dots; i++)
        if (fits(ax, l->points[i].x) && fits(ay, l->points[i].y)) {
            char a[UNITS_ROOM], b[UNITS_ROOM];
            fprintf(f, "<circle class=\"f%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>", l->colour % SVG_NCOLOUR,
                    x + width * place(ax, l->points[i].x), y - height * place(ay, l->points[i].y),
                    l->thin ? "2.4" : "3.4");
            markup_print(f, "%s, %s: %s", l->name, tick_text(ax, l->points[i].x, a), tick_text(ay, l->points[i].y, b));
            fputs("</title></circle>\n", f);
        }
}

void chart_draw(FILE *f, const struct chart *c, double x, double y, double width, double height)
{
    const struct chart_axis ax = fitted(c, true), ay = fitted(c, false);
    const double left = x + 70, wide = width - 70 - 24, bottom = y + height - 44;
    struct chart_key *keys = allocate(c->nline + 1, sizeof *keys);
    static const char *const classes[SVG_NCOLOUR] = { "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" };

    for (size_t k = 0; k < c->nline; k++)
        keys[k] = (struct chart_key){ c->lines[k].name, classes[c->lines[k].colour % SVG_NCOLOUR] };
    svg_text(f, left, y + 14, "bold", "%s", c->title);
    const double top = chart_legend(f, keys, c->nline, left, y + 14 + LINE, wide) - 4;
    free(keys);
    y_axis(f, &ay, left, bottom, wide, bottom - top);
    chart_x_axis(f, &ax, left, bottom, wide, bottom - top);
    svg_line(f, left, bottom, left + wide, bottom, "frame");
    for (size_t k = 0; k < c->nline; k++)
        draw_line(f, &c->lines[k], &ax, &ay, left, bottom, wide, bottom - top);
}
