/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws charts beside each other, for scripts: lines of text on standard input, SVG on standard output. Not installed.
 *
 *     chart TITLE              the next chart
 *     x LABEL, log LABEL       its axis, which is logarithmic after "log"
 *     percent LABEL            the other axis, from 0 to 100 %
 *     line NAME                the next curve,
 *     0.5 12                   and its points
 */
#include "allocate.h"
#include "chart.h"
#include "message.h"
#include "program.h"

#include "base/ascii.h"

#include <stdlib.h>
#include <string.h>

#define MOST  16 /* charts, and curves in each */
#define WIDE  640
#define HIGH  520
#define WORDS 128

struct sheet {
    struct chart charts[MOST];
    struct chart_line lines[MOST][MOST];
    char titles[MOST][WORDS], labels[MOST][WORDS];
    size_t n;
};

static bool begin_chart(struct sheet *s, const char *title)
{
    if (s->n == MOST)
        return complain("more than %d charts", MOST);
    snprintf(s->titles[s->n], WORDS, "%s", title);
    s->charts[s->n] = (struct chart){ .title = s->titles[s->n], .lines = s->lines[s->n] };
    s->n++;
    return true;
}

static bool begin_line(struct chart *c, const char *name)
{
    if (c->nline == MOST)
        return complain("%s: more than %d curves", c->title, MOST);
    struct chart_line *l = &c->lines[c->nline];
    snprintf(l->name, sizeof l->name, "%s", name);
    l->colour = (unsigned)c->nline++;
    l->dots = true;
    return true;
}

static bool add_point(struct chart *c, const char *text)
{
    char *end, *last;
    const double x = plait_real(text, &end), y = plait_real(end, &last);

    if (end == text || last == end || *last != '\0' || c->nline == 0)
        return complain("'%s': must be a number and another one, after a line", text);
    chart_add(&c->lines[c->nline - 1], x, y);
    return true;
}

static bool read_line(struct sheet *s, char *text)
{
    char *rest = strchr(text, ' ');
    const size_t n = rest != NULL ? (size_t)(rest++ - text) : strlen(text);
    struct chart *c = s->n > 0 ? &s->charts[s->n - 1] : NULL;

    if (rest != NULL && n == 5 && strncmp(text, "chart", n) == 0)
        return begin_chart(s, rest);
    if (rest == NULL || c == NULL)
        return complain("'%s': must be a word and a text; the first line begins a chart", text);
    if (n == 4 && strncmp(text, "line", n) == 0)
        return begin_line(c, rest);
    if (n == 7 && strncmp(text, "percent", n) == 0) {
        c->y = (struct chart_axis){ .unit = CHART_PERCENT, .high = 100 };
        return true;
    }
    if ((n == 1 && *text == 'x') || (n == 3 && strncmp(text, "log", n) == 0)) {
        snprintf(s->labels[s->n - 1], WORDS, "%s", rest);
        c->x = (struct chart_axis){ .label = s->labels[s->n - 1], .log = n == 3 };
        return true;
    }
    return add_point(c, text);
}

int main(void)
{
    struct sheet *s = allocate(1, sizeof *s);
    char *line = NULL;
    size_t room = 0;
    bool ok = true;

    program_begin("charts");
    while (ok && getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        ok = read_line(s, line);
    }
    if (ok) {
        svg_begin(stdout, WIDE * (double)s->n, HIGH, s->titles[0], true);
        for (size_t i = 0; i < s->n; i++)
            chart_draw(stdout, &s->charts[i], WIDE * (double)i, 8, WIDE, HIGH - 8);
        svg_end(stdout);
    }
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->charts[i].nline; k++)
            chart_line_finish(&s->lines[i][k]);
    free(line);
    free(s);
    return program_end(ok ? 0 : 2);
}
