/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws charts beside each other, for scripts: JSON on standard input, SVG on standard output. Not installed.
 *
 *     [{"title": "top-1", "x": "rate", "log": true, "lines": [{"name": "LARS", "points": [[0.5, 12], [1, 15]]}]}]
 *
 * The other axis goes from 0 to 100 %.
 */
#include "allocate.h"
#include "chart.h"
#include "message.h"
#include "program.h"

#include <jansson.h>
#include <stdlib.h>

#define WIDE 640
#define HIGH 520

static bool add_line(struct chart *c, json_t *from)
{
    struct chart_line *l = &c->lines[c->nline];
    const char *name;
    json_t *points, *point;
    size_t i;
    double x, y;

    if (json_unpack(from, "{s:s, s:o}", "name", &name, "points", &points) != 0)
        return complain("line %zu of '%s' needs name and points", c->nline, c->title);
    snprintf(l->name, sizeof l->name, "%s", name);
    l->colour = (unsigned)c->nline++;
    l->dots = true;
    json_array_foreach(points, i, point)
    {
        if (json_unpack(point, "[F, F]", &x, &y) != 0)
            return complain("point %zu of '%s': must be two numbers", i, name);
        chart_add(l, x, y);
    }
    return true;
}

static bool draw(json_t *from, double left)
{
    struct chart c = { .y = { .unit = CHART_PERCENT, .high = 100 } };
    json_t *lines, *line;
    int logarithmic;
    size_t i;

    if (json_unpack(from, "{s:s, s:s, s:b, s:o}", "title", &c.title, "x", &c.x.label, "log", &logarithmic, "lines",
                    &lines) != 0)
        return complain("a chart needs title, x, log and lines");
    c.x.log = logarithmic;
    c.lines = allocate(json_array_size(lines), sizeof *c.lines);
    bool ok = true;
    json_array_foreach(lines, i, line) ok = ok && add_line(&c, line);
    if (ok)
        chart_draw(stdout, &c, left, 8, WIDE, HIGH - 8);
    for (i = 0; i < c.nline; i++)
        chart_line_finish(&c.lines[i]);
    free(c.lines);
    return ok;
}

int main(void)
{
    json_error_t error;
    json_t *charts = json_loadf(stdin, 0, &error), *chart;
    size_t i;

    program_begin("charts");
    const char *title = json_string_value(json_object_get(json_array_get(charts, 0), "title"));
    bool ok = title != NULL || complain("line %d: %s", charts == NULL ? error.line : 1,
                                        charts == NULL ? error.text : "a chart needs a title");
    svg_begin(stdout, WIDE * (double)json_array_size(charts), HIGH, ok ? title : "", true);
    json_array_foreach(charts, i, chart) ok = ok && draw(chart, WIDE * (double)i);
    svg_end(stdout);
    json_decref(charts);
    return program_end(ok ? 0 : 2);
}
