/* SPDX-License-Identifier: BSD-3-Clause */
/* How much links, memory and processors are used over time: a row for each, darker where it is used more. */
#include "draw.h"

#include "allocate.h"
#include "message.h"
#include "units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT      60
#define RIGHT     24
#define BINS      400
#define SHADES    10
#define MOST_ROWS 64 /* of a group; of more, neighbours share a row */

struct strip {   /* a resource that is used */
    float *used; /* [BINS] bytes in each part of the time */
    uint64_t since;
    uint64_t rate, capacity;
};

struct group { /* resources with the same name but for its number: "rack, up" */
    char name[64];
    uint32_t *members;
    uint32_t n, room;
    double rows, row; /* their number and height */
};

struct picture {
    const struct drawing *d;
    uint32_t n;
    struct strip *strips; /* [n] */
    struct group *groups;
    uint32_t ngroup;
};

/* ---- Collecting ------------------------------------------------------------------------------------ */

/* The rate since the last change is spread over the parts of the time. */
static void spread(const struct picture *p, struct strip *s, uint64_t until)
{
    const double part = (double)p->d->p.time / BINS, rate = 1e-12 * (double)s->rate;
    double at = (double)s->since;

    while (s->rate > 0 && at < (double)until) {
        const unsigned bin = (unsigned)fmin(BINS - 1, at / part);
        const double end = bin + 1 < BINS ? fmin((double)until, (bin + 1) * part) : (double)until;
        if (s->used == NULL)
            s->used = allocate(BINS, sizeof *s->used);
        s->used[bin] += (float)(rate * (end - at));
        at = end > at ? end : at + 1;
    }
    s->since = until;
}

static void use(void *arg, const struct plait_sim_use *u)
{
    const struct picture *p = arg;

    if (u->resource >= p->n)
        return;
    struct strip *s = &p->strips[u->resource];
    spread(p, s, u->time);
    s->rate = u->rate;
    s->capacity = u->capacity;
}

static struct group *group_of(struct picture *p, const char *name)
{
    for (uint32_t i = 0; i < p->ngroup; i++)
        if (strcmp(p->groups[i].name, name) == 0)
            return &p->groups[i];
    p->groups = grow(p->groups, p->ngroup + 1, sizeof *p->groups);
    p->groups[p->ngroup] = (struct group){ 0 };
    snprintf(p->groups[p->ngroup].name, sizeof p->groups->name, "%s", name);
    return &p->groups[p->ngroup++];
}

/* "rack 3, up" is of the group "rack, up", with number 3. */
static void split(const char *name, char *group, size_t room, uint32_t *number)
{
    const char *comma = strrchr(name, ','), *end = comma != NULL ? comma : name + strlen(name), *digits = end;

    while (digits > name && isdigit((unsigned char)digits[-1]))
        digits--;
    *number = (uint32_t)strtoul(digits, NULL, 10);
    const char *stop = digits > name && digits < end && digits[-1] == ' ' ? digits - 1 : end;
    snprintf(group, room, "%.*s%s", (int)(stop - name), name, end);
}

static void find_groups(struct picture *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        char name[64], group[64];
        uint32_t number;
        spread(p, &p->strips[i], p->d->p.time);
        if (p->strips[i].used == NULL)
            continue;
        plait_machine_resource(p->d->machine, i, name, sizeof name);
        split(name, group, sizeof group, &number);
        struct group *g = group_of(p, group);
        if (g->n == g->room) {
            g->room = 2 * g->room + 8;
            g->members = grow(g->members, g->room, sizeof *g->members);
        }
        g->members[g->n++] = i;
    }
    for (uint32_t i = 0; i < p->ngroup; i++) {
        struct group *g = &p->groups[i];
        g->rows = g->n < MOST_ROWS ? g->n : MOST_ROWS;
        g->row = fmax(4, fmin(14, 200 / g->rows));
    }
}

/* ---- Drawing --------------------------------------------------------------------------------------- */

static double bytes_of(const struct strip *s)
{
    double all = 0;

    for (unsigned b = 0; b < BINS; b++)
        all += s->used[b];
    return all;
}

/* The used share of the resources in row `row`, in one part of the time. */
static double share(const struct picture *p, const struct group *g, unsigned row, unsigned bin)
{
    const uint32_t from = (uint32_t)(row * g->n / g->rows), to = (uint32_t)((row + 1) * g->n / g->rows);
    double used = 0, most = 0;

    for (uint32_t i = from; i < to; i++) {
        used += p->strips[g->members[i]].used[bin];
        most += 1e-12 * (double)p->strips[g->members[i]].capacity * (double)p->d->p.time / BINS;
    }
    return most > 0 ? used / most : 0;
}

static unsigned shade_of(double used)
{
    return used < 0.01 ? 0 : (unsigned)fmin(SHADES, ceil(used * SHADES - 0.05));
}

static void draw_rows(FILE *f, const struct picture *p, const struct group *g, double y)
{
    const double wide = (double)(DRAW_WIDTH - LEFT - RIGHT) / BINS;

    for (unsigned shade = 1; shade <= SHADES; shade++) {
        bool any = false;
        for (unsigned row = 0; row < g->rows; row++)
            for (unsigned b = 0, end; b < BINS; b = end) {
                for (end = b + 1; end < BINS && shade_of(share(p, g, row, end)) == shade_of(share(p, g, row, b));)
                    end++;
                if (shade_of(share(p, g, row, b)) != shade)
                    continue;
                if (!any)
                    fprintf(f, "<path class=\"l0\" stroke-opacity=\"%.2f\" stroke-width=\"%.1f\" d=\"",
                            0.12 + 0.88 * shade / SHADES, g->row > 6 ? g->row - 1 : g->row);
                any = true;
                fprintf(f, "M%.1f %.1fh%.1f", LEFT + b * wide, y + (row + 0.5) * g->row, (end - b) * wide);
            }
        if (any)
            fputs("\"/>\n", f);
    }
}

static void draw_group(FILE *f, const struct picture *p, const struct group *g, double y)
{
    const double time = 1e-12 * (double)p->d->p.time;
    double bytes = 0, all = 0, most = 0;
    char busiest[64] = "", kind[96], rate[UNITS_ROOM], moved[UNITS_ROOM];

    for (uint32_t i = 0; i < g->n; i++) {
        const struct strip *s = &p->strips[g->members[i]];
        const double one = bytes_of(s), part = one / ((double)s->capacity * time);
        bytes += one;
        all += part;
        if (part > most + 1e-9)
            plait_machine_resource(p->d->machine, g->members[i], busiest, sizeof busiest);
        most = part > most ? part : most;
    }
    fprintf(f, "<g class=\"use\" data-name=\"");
    markup_text(f, g->name);
    fprintf(f, "\" data-bytes=\"%.0f\">\n", bytes);
    const bool processors = strstr(g->name, "processor") != NULL;
    snprintf(kind, sizeof kind, processors ? "" : " of %s, %s in all",
             units_rate(rate, (double)p->strips[g->members[0]].capacity), units_bytes(moved, bytes));
    svg_text(f, LEFT, y - 6, "small", "%s: %" PRIu32 "%s; used %.0f %% on average, the most is %s: %.0f %%", g->name,
             g->n, kind, 100 * all / g->n, busiest, 100 * most);
    const unsigned every = g->row >= 11 ? 1 : g->row >= 6 ? 4 : 16;
    for (unsigned row = 0; row < g->rows; row += every) {
        char name[64], group[64];
        uint32_t number;
        plait_machine_resource(p->d->machine, g->members[(uint32_t)(row * g->n / g->rows)], name, sizeof name);
        split(name, group, sizeof group, &number);
        svg_text(f, LEFT - 8, y + (row + 0.5) * g->row + 4, "small muted end", "%" PRIu32, number);
    }
    svg_rect(f, LEFT, y, DRAW_WIDTH - LEFT - RIGHT, g->rows * g->row, "grid");
    draw_rows(f, p, g, y);
    fputs("</g>\n", f);
}

static void draw_scale(FILE *f, double y)
{
    svg_text(f, 16, y, "small", "Used:");
    for (unsigned s = 1; s <= SHADES; s += 3) {
        fprintf(f, "<rect class=\"f0\" fill-opacity=\"%.2f\" x=\"%u\" y=\"%.1f\" width=\"14\" height=\"10\"/>",
                0.12 + 0.88 * s / SHADES, 60 + 25 * s, y - 9);
        svg_text(f, 78 + 25 * s, y, "small", "%u %%", 100 * s / SHADES);
    }
}

bool draw_links(FILE *f, const struct drawing *d, bool alone)
{
    struct picture p = { .d = d, .n = plait_machine_resources(d->machine) };
    const struct plait_sim_options callbacks = { .use = use, .arg = &p };
    double height = DRAW_TOP + 24, y = height;

    p.strips = allocate(p.n, sizeof *p.strips);
    const bool ok = draw_again(d, &callbacks);
    if (ok)
        find_groups(&p);
    for (uint32_t i = 0; i < p.ngroup; i++)
        height += 30 + p.groups[i].rows * p.groups[i].row;
    draw_title(f, d, "Use of links over time", height + 48, alone);
    draw_scale(f, DRAW_TOP + 12);
    draw_time(f, d->p.time, LEFT, height, DRAW_WIDTH - LEFT - RIGHT, height - DRAW_TOP - 24);
    for (uint32_t i = 0; i < p.ngroup; i++) {
        y += 30;
        draw_group(f, &p, &p.groups[i], y);
        y += p.groups[i].rows * p.groups[i].row;
        free(p.groups[i].members);
    }
    svg_end(f);
    for (uint32_t i = 0; i < p.n; i++)
        free(p.strips[i].used);
    free(p.strips);
    free(p.groups);
    return ok;
}
