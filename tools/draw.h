/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pictures of a simulated collective, as SVG:
 *
 *     messages  ranks against time: messages as lines, copies and reductions as marks
 *     graph     who sends to whom, over the machine's units
 *     links     the use of links, memory and processors over time
 */
#ifndef PLAIT_TOOLS_DRAW_H
#define PLAIT_TOOLS_DRAW_H

#include "chart.h"

#include <plait/simulate.h>

#include <stdbool.h>

#define DRAW_WIDTH 1000    /* of a picture */
#define DRAW_TOP   66      /* below its title */
#define DRAW_SOON  1000000 /* messages that are drawn in seconds */

struct drawing {
    const struct plait_machine *machine;
    const struct plait_shape *shape;
    const char *spec;
    size_t count;          /* float32 elements */
    const uint32_t *place; /* as in struct plait_sim_options */
    struct plait_prediction p;
};

/** alone: a file of its own, not part of a page. Return false after a message. */
bool draw_messages(FILE *f, const struct drawing *d, bool alone);
bool draw_graph(FILE *f, const struct drawing *d, bool alone);
bool draw_links(FILE *f, const struct drawing *d, bool alone);

/** plait-plan draw: one of the pictures, by its name, on standard output. Returns the exit status. */
int draw(struct drawing *d, const char *picture);

/* ---- For the pictures ------------------------------------------------------------------------------ */

/** svg_begin(), the title and what is below it. */
void draw_title(FILE *f, const struct drawing *d, const char *what, double height, bool alone);

/** An axis from 0 to `time` picoseconds, as chart_x_axis(). */
void draw_time(FILE *f, uint64_t time, double x, double y, double width, double height);

/** Simulate again, with these callbacks. Returns false after a message. */
bool draw_again(const struct drawing *d, const struct plait_sim_options *callbacks);

static inline uint64_t draw_place(const struct drawing *d, uint32_t rank)
{
    return d->place != NULL ? d->place[rank] : rank;
}

/** Places in one unit of the level. */
uint64_t draw_places(const struct drawing *d, uint32_t level);

/** The level of the smallest unit that contains both ranks. */
uint32_t draw_level(const struct drawing *d, uint32_t a, uint32_t b);

/** The colour of messages that units of this level join. */
unsigned draw_level_colour(uint32_t level);

/** The legend of these levels, [used[k]], after `n` other keys in keys[n + PLAIT_MOST_LEVELS]. Returns the y below. */
double draw_legend(FILE *f, const struct drawing *d, const bool *used, struct chart_key *keys, size_t n, double y);

#endif
