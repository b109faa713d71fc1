/* SPDX-License-Identifier: BSD-3-Clause */
/* Curves of runs, from their log.jsonl, drawn by gnuplot. */
#include "plot.h"

#include "ending.h"
#include "run.h"

#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool write_number(FILE *f, const json_t *object, const char *name, double factor)
{
    const json_t *value = json_object_get(object, name);

    fprintf(f, json_is_number(value) ? " %.9g" : " NaN", factor * json_number_value(value));
    return json_is_number(value);
}

/* One data block: position in epochs, then the named values of each event of one kind. Counts its lines. */
static bool write_block(FILE *f, const char *path, uint32_t run, const char *kind, const char *const *names, int n,
                        unsigned *lines)
{
    FILE *log = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;

    if (log == NULL)
        return complain("%s: %s; plot takes the folder of a run", path, strerror(errno));
    fprintf(f, "$%s%u << EOD\n", kind, run);
    while (getline(&line, &room, log) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(object, "event"));
        if (event != NULL && strcmp(event, kind) == 0) {
            for (int k = 0; k < n; k++)
                write_number(f, object, names[k], k > 0 && strstr(names[k], "loss") == NULL ? 100 : 1);
            fputc('\n', f);
            ++*lines;
        }
        json_decref(object);
    }
    fprintf(f, "EOD\n");
    free(line);
    fclose(log);
    return true;
}

static void write_curves(FILE *f, const char *const *folders, uint32_t n, const char *what)
{
    fprintf(f, "plot ");
    for (uint32_t k = 0; k < n; k++) {
        const char *colour = plot_colours[k % PLOT_NCOLOUR], *end = k + 1 < n ? ", " : "\n";
        if (strcmp(what, "loss") == 0)
            fprintf(f,
                    "$step%u using 1:2 with lines lw 1 lc rgb '%s' title '%s, training', $epoch%u using 1:2 with "
                    "linespoints lw 2.5 pt 7 ps 0.6 lc rgb '%s' title 'test'%s",
                    k, colour, folders[k], k, colour, end);
        else
            fprintf(
                f,
                "$epoch%u using 1:3 with linespoints lw 2.5 pt 7 ps 0.7 lc rgb '%s' title '%s, test', $step%u using "
                "1:3 with lines lw 1 lc rgb '%s' title 'training'%s",
                k, colour, folders[k], k, colour, end);
    }
}

struct picture {
    const char *const *folders;
    uint32_t n;
};

static bool write_script(FILE *f, const void *what, const char *path)
{
    static const char *const names[] = { "position", "loss", "top1" };
    const struct picture *picture = what;
    const char *const *folders = picture->folders;
    const uint32_t n = picture->n;
    unsigned lines = 0;

    for (uint32_t k = 0; k < n; k++) {
        char log[4200];
        snprintf(log, sizeof log, "%s/log.jsonl", folders[k]);
        if (!write_block(f, log, k, "step", names, 3, &lines) || !write_block(f, log, k, "epoch", names, 3, &lines))
            return false;
    }
    if (lines == 0)
        return complain("plot: %s has no point yet: its log has neither a complete epoch nor a line of progress",
                        folders[0]);
    fprintf(f, "set datafile missing 'NaN'\n");
    plot_terminal(f, path, "1500,640", " noenhanced");
    fprintf(f, "set multiplot layout 1,2\n");
    fprintf(f, "set grid lc rgb '#dddddd'\nset border lc rgb '#444444'\nset xlabel 'epoch'\n");
    fprintf(f, "set title 'Top-1 accuracy in %% (higher is better)'\nset yrange [0:100]\nset key bottom right\n");
    write_curves(f, folders, n, "top1");
    fprintf(f, "set title 'Loss (lower is better)'\nset yrange [0:*]\nset key top right\n");
    write_curves(f, folders, n, "loss");
    fprintf(f, "unset multiplot\n");
    return true;
}

int plot_runs(const char *const *folders, uint32_t n, const char *path)
{
    const struct picture picture = { folders, n };

    if (!plot_script(path, write_script, &picture))
        return ENDING_ERROR;
    printf("plot: %s\n", path);
    return ENDING_GOOD;
}
