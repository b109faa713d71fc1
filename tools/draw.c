/* SPDX-License-Identifier: BSD-3-Clause */
#include "draw.h"

#include "allocate.h"
#include "message.h"
#include "option.h"
#include "units.h"

#include <inttypes.h>
#include <string.h>

static bool run(const struct drawing *d, struct plait_sim_options options, struct plait_prediction *out)
{
    options.place = d->place;
    return plait_simulate(d->machine, d->spec, d->shape, PLAIT_FLOAT32, d->count, &options, out) == PLAIT_OK ||
           complain("%s: %s", d->spec, plait_last_error());
}

bool draw_again(const struct drawing *d, const struct plait_sim_options *callbacks)
{
    struct plait_prediction p;

    return run(d, *callbacks, &p);
}

/* ---- Titles ---------------------------------------------------------------------------------------- */

void draw_title(FILE *f, const struct drawing *d, const char *what, double height, bool alone)
{
    char size[UNITS_ROOM], time[UNITS_ROOM], bound[UNITS_ROOM], moved[UNITS_ROOM], title[256];
    const double share = d->p.time > 0 ? 100 * (double)d->p.bound / (double)d->p.time : 100;

    snprintf(title, sizeof title, "%s: %s of %s, %" PRIu32 " rank%s: %s", d->spec, plait_coll_name(d->shape->coll),
             units_bytes(size, (double)(d->count * sizeof(float))), d->shape->nrank, plural(d->shape->nrank),
             units_seconds(time, 1e-12 * (double)d->p.time));
    svg_begin(f, DRAW_WIDTH, height, title, alone);
    svg_text(f, 16, 22, "bold", "%s. %s", title, what);
    svg_text(f, 16, 40, "small", "Machine: %s", d->machine->name);
    svg_text(f, 16, 56, "small",
             "Bound %s, %.0f %% of the time: %s. %" PRIu64 " message%s of %s in all, %" PRIu64 " slice%s",
             units_seconds(bound, 1e-12 * (double)d->p.bound), share,
             d->p.busiest[0] != '\0' ? d->p.busiest : "nothing is used", d->p.messages, plural(d->p.messages),
             units_bytes(moved, (double)d->p.bytes), d->p.slices, plural(d->p.slices));
}

void draw_time(FILE *f, uint64_t time, double x, double y, double width, double height)
{
    const struct chart_axis axis = { .label = "time",
                                     .unit = CHART_SECONDS,
                                     .high = 1e-12 * (double)(time > 0 ? time : 1) };

    chart_x_axis(f, &axis, x, y, width, height);
}

/* ---- Levels ---------------------------------------------------------------------------------------- */

uint64_t draw_places(const struct drawing *d, uint32_t level)
{
    uint64_t n = 1;

    for (uint32_t k = 0; k <= level; k++)
        n *= d->machine->level[k].children;
    return n;
}

uint32_t draw_level(const struct drawing *d, uint32_t a, uint32_t b)
{
    uint64_t unit = 1;

    for (uint32_t k = 0; k < d->machine->nlevel; k++) {
        unit *= d->machine->level[k].children;
        if (draw_place(d, a) / unit == draw_place(d, b) / unit)
            return k;
    }
    return d->machine->nlevel - 1;
}

unsigned draw_level_colour(uint32_t level)
{
    static const unsigned colours[PLAIT_MOST_LEVELS] = { 0, 2, 4, 7, 5, 6, 0, 2 };

    return colours[level];
}

double draw_legend(FILE *f, const struct drawing *d, const bool *used, struct chart_key *keys, size_t n, double y)
{
    static const char *const classes[SVG_NCOLOUR] = { "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" };
    char names[PLAIT_MOST_LEVELS][64];

    for (uint32_t k = 0; k < d->machine->nlevel; k++) {
        if (k == 0)
            snprintf(names[k], sizeof names[k], "messages inside a %s", d->machine->level[0].name);
        else
            snprintf(names[k], sizeof names[k], "messages between %ss", d->machine->level[k - 1].name);
        if (used[k])
            keys[n++] = (struct chart_key){ names[k], classes[draw_level_colour(k)] };
    }
    return chart_legend(f, keys, n, 16, y, DRAW_WIDTH - 32);
}

/* ---- The command ----------------------------------------------------------------------------------- */

int draw(struct drawing *d, const char *picture)
{
    static const struct {
        const char *name;
        bool (*draw)(FILE *f, const struct drawing *d, bool alone);
    } pictures[] = { { "messages", draw_messages }, { "graph", draw_graph }, { "links", draw_links } };

    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        if (strcmp(pictures[i].name, picture) == 0) {
            if (!run(d, (struct plait_sim_options){ 0 }, &d->p))
                return 2;
            if (d->p.messages > DRAW_SOON)
                remark("%" PRIu64 " messages: the picture may take minutes; fewer --ranks or --bytes are faster",
                       d->p.messages);
            return pictures[i].draw(stdout, d, true) ? 0 : 1;
        }
    option_misuse("--picture %s: must be messages, graph or links", picture);
}
