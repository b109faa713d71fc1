/* SPDX-License-Identifier: BSD-3-Clause */
/* Curves of runs, from their log.jsonl. */
#include "allocate.h"
#include "chart.h"
#include "ending.h"
#include "file.h"
#include "message.h"
#include "run.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH  1200
#define HEIGHT 560

enum { TRAINING, TEST, NCURVE }; /* of a run */

/* What is drawn: a value of each step, and of each epoch's test. */
struct picture {
    struct chart top1, loss; /* of `n` runs NCURVE lines each */
    size_t n;                /* points */
};

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void add_line(struct picture *p, uint32_t run, const char *text)
{
    json_t *object = json_loads(text, 0, NULL);
    const char *event = json_string_value(json_object_get(object, "event"));
    const bool test = event != NULL && strcmp(event, "epoch") == 0;

    if (test || (event != NULL && strcmp(event, "step") == 0)) {
        const double position = number(object, "position");
        chart_add(&p->top1.lines[NCURVE * run + test], position, 100 * number(object, "top1"));
        chart_add(&p->loss.lines[NCURVE * run + test], position, number(object, "loss"));
        p->n++;
    }
    json_decref(object);
}

static bool read_log(struct picture *p, uint32_t run, const char *folder)
{
    char path[4200], *line = NULL;
    size_t room = 0;

    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    FILE *log = fopen(path, "r");
    if (log == NULL)
        return complain("%s: %s; plot takes the folder of a run", path, strerror(errno));
    while (getline(&line, &room, log) > 0)
        add_line(p, run, line);
    free(line);
    fclose(log);
    return true;
}

static struct chart_line *make_lines(const char *const *folders, uint32_t n)
{
    struct chart_line *lines = allocate(NCURVE * (size_t)n, sizeof *lines);

    for (uint32_t i = 0; i < NCURVE * n; i++) {
        const bool test = i % NCURVE == TEST;
        snprintf(lines[i].name, sizeof lines[i].name, "%.100s, %s", folders[i / NCURVE], test ? "test" : "training");
        lines[i].colour = i / NCURVE;
        lines[i].thin = !test;
        lines[i].dashed = !test;
        lines[i].dots = test;
    }
    return lines;
}

static bool write_file(FILE *f, const void *what)
{
    const struct picture *p = what;

    svg_begin(f, WIDTH, HEIGHT, "Training: accuracy and loss", true);
    chart_draw(f, &p->top1, 0, 8, WIDTH / 2, HEIGHT - 8);
    chart_draw(f, &p->loss, WIDTH / 2, 8, WIDTH / 2, HEIGHT - 8);
    svg_end(f);
    return true;
}

static void finish(struct chart *c)
{
    for (size_t i = 0; i < c->nline; i++)
        chart_line_finish(&c->lines[i]);
    free(c->lines);
}

int plot_runs(const char *const *folders, uint32_t n, const char *path)
{
    const struct chart_axis epochs = { .label = "epoch" };
    struct picture p = {
        .top1 = { .title = "Top-1 accuracy (higher is better)",
                  .x = epochs,
                  .y = { .unit = CHART_PERCENT, .low = 0, .high = 100 } },
        .loss = { .title = "Loss (lower is better)", .x = epochs },
    };
    bool ok = true;

    p.top1.lines = make_lines(folders, n);
    p.loss.lines = make_lines(folders, n);
    p.top1.nline = p.loss.nline = NCURVE * (size_t)n;
    for (uint32_t k = 0; ok && k < n; k++)
        ok = read_log(&p, k, folders[k]);
    if (ok && p.n == 0)
        ok = complain("plot: %s has no point yet: its log has neither a complete epoch nor a line of progress",
                      folders[0]);
    ok = ok && file_write("--plot", path, write_file, &p);
    finish(&p.top1);
    finish(&p.loss);
    if (ok)
        printf("plot: %s\n", path);
    return ok ? ENDING_GOOD : ENDING_ERROR;
}
