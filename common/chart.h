/* SPDX-License-Identifier: BSD-3-Clause */
/* Curves over axes, in a picture of svg.h. Other pictures use the axes alone. */
#ifndef PLAIT_COMMON_CHART_H
#define PLAIT_COMMON_CHART_H

#include "svg.h"

#include <stddef.h>

enum chart_unit { CHART_NUMBER, CHART_BYTES, CHART_SECONDS, CHART_PERCENT, CHART_RATE };

struct chart_axis {
    const char *label; /* or NULL */
    enum chart_unit unit;
    bool log;
    double low, high; /* equal: from the points */
};

struct chart_point {
    double x, y; /* NAN: a gap. On an axis that is `log`, so is what is not positive */
};

struct chart_line {
    char name[128];
    unsigned colour;
    bool thin, dashed, dots; /* dots: a mark at each point */
    struct chart_point *points;
    size_t n, room; /* chart_add() counts them */
};

struct chart {
    const char *title;
    struct chart_axis x, y;
    struct chart_line *lines;
    size_t nline;
};

/** Out of memory ends the program. */
void chart_add(struct chart_line *line, double x, double y);
void chart_line_finish(struct chart_line *line);

/** Within this rectangle: title, legend, axes, curves. */
void chart_draw(FILE *f, const struct chart *c, double x, double y, double width, double height);

/** Ticks, with numbers below and lines of `height` upwards; *axis has low < high. y: of the axis. */
void chart_x_axis(FILE *f, const struct chart_axis *axis, double x, double y, double width, double height);

/** Entries of a legend, from (x, y) on, in lines of `width`. Returns the y below. classes: of each sample, a square. */
struct chart_key {
    const char *name, *classes;
};
double chart_legend(FILE *f, const struct chart_key *keys, size_t n, double x, double y, double width);

#endif
