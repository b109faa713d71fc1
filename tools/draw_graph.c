/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sends to whom, over the machine: its units are rings, ranks the leaves on the circle inside, messages arcs whose
 * width is their bytes. In a machine of many ranks a leaf is a unit.
 */
#include "draw.h"

#include "allocate.h"
#include "units.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LEAVES 128
#define MOST_ARROWS 260 /* arcs with heads; more would hide each other */
#define RADIUS      280
#define RING        24 /* between the rings of two levels */
#define WIDEST      10.0

struct graph {
    const struct drawing *d;
    int32_t level;   /* whose units are the leaves; -1: ranks */
    uint64_t places; /* of a leaf */
    uint32_t nleaf;
    uint64_t *unit;  /* [nleaf] ascending: its number in the machine */
    double *angle;   /* [nleaf] */
    double wide;     /* radians from one leaf to the next in its unit */
    uint64_t *bytes; /* [nleaf * nleaf] from one to another */
    uint64_t inside; /* bytes of messages inside a leaf */
    double x, y;     /* centre */
};

/* ---- What is sent ---------------------------------------------------------------------------------- */

static uint32_t leaf_of(const struct graph *g, uint32_t rank)
{
    const uint64_t unit = draw_place(g->d, rank) / g->places;
    uint32_t low = 0, high = g->nleaf - 1;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (g->unit[middle] < unit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The units of ranks, each once. */
static void find_leaves(struct graph *g)
{
    const uint32_t nrank = g->d->shape->nrank;

    g->nleaf = 0;
    for (uint32_t r = 0; r < nrank; r++)
        g->unit[r] = draw_place(g->d, r) / g->places;
    qsort(g->unit, nrank, sizeof *g->unit, compare);
    for (uint32_t r = 0; r < nrank; r++)
        if (g->nleaf == 0 || g->unit[g->nleaf - 1] != g->unit[r])
            g->unit[g->nleaf++] = g->unit[r];
}

static void add_message(void *arg, const struct plait_sim_event *e)
{
    struct graph *g = arg;

    if (e->kind != PLAIT_SIM_TRANSFER)
        return;
    const uint32_t from = leaf_of(g, e->rank), to = leaf_of(g, e->peer);
    *(from == to ? &g->inside : &g->bytes[(size_t)from * g->nleaf + to]) += e->bytes;
}

/* ---- Places on the circle -------------------------------------------------------------------------- */

/* The smallest level that joins two leaves. */
static uint32_t joined(const struct graph *g, uint32_t a, uint32_t b)
{
    uint32_t k = (uint32_t)(g->level + 1);
    uint64_t places = draw_places(g->d, k) / g->places;

    while (k + 1 < g->d->machine->nlevel && g->unit[a] / places != g->unit[b] / places)
        places *= g->d->machine->level[++k].children;
    return k;
}

/* Leaves of one unit stand closer than those of two. */
static void place_leaves(struct graph *g)
{
    double all = 0;

    for (uint32_t i = 0; i < g->nleaf; i++) {
        g->angle[i] = all;
        all += i + 1 < g->nleaf ? 1 + 0.7 * (joined(g, i, i + 1) - (double)(g->level + 1)) : 1.7;
    }
    g->wide = 2 * M_PI / (all > 2 ? all : 2);
    for (uint32_t i = 0; i < g->nleaf; i++)
        g->angle[i] = -M_PI / 2 + g->wide * (g->angle[i] + 0.85);
}

static double x_at(const struct graph *g, double angle, double radius)
{
    return g->x + radius * cos(angle);
}

static double y_at(const struct graph *g, double angle, double radius)
{
    return g->y + radius * sin(angle);
}

/* ---- Drawing --------------------------------------------------------------------------------------- */

static void leaf_name(const struct graph *g, uint64_t unit, int32_t level, char *out, size_t room)
{
    if (level < 0)
        snprintf(out, room, "place %" PRIu64, unit);
    else if (level + 1 == (int32_t)g->d->machine->nlevel)
        snprintf(out, room, "%s", g->d->machine->level[level].name);
    else
        snprintf(out, room, "%s %" PRIu64, g->d->machine->level[level].name, unit);
}

/* Text along the circle; upside down nowhere. */
static void round_text(FILE *f, const struct graph *g, double angle, double radius, const char *text)
{
    const double turn = angle * 180 / M_PI + 90, up = sin(angle) > 0.02 ? turn + 180 : turn;

    fprintf(f, "<text class=\"small middle\" transform=\"translate(%.1f %.1f) rotate(%.1f)\" y=\"4\">",
            x_at(g, angle, radius), y_at(g, angle, radius), up);
    markup_text(f, text);
    fputs("</text>\n", f);
}

/* The ring of a level: an arc for each unit that has ranks. */
static void draw_ring(FILE *f, const struct graph *g, uint32_t level)
{
    const uint64_t places = draw_places(g->d, level) / g->places;
    const double radius = RADIUS + 34 + RING * (level - (double)(g->level + 1));

    for (uint32_t i = 0, end; i < g->nleaf; i = end) {
        for (end = i + 1; end < g->nleaf && g->unit[end] / places == g->unit[i] / places;)
            end++;
        const double from = g->angle[i] - 0.4 * g->wide, to = g->angle[end - 1] + 0.4 * g->wide;
        char name[64];
        leaf_name(g, g->unit[i] / places, (int32_t)level, name, sizeof name);
        const double text = svg_width(name, true) + 8, half = (to - from) * radius > text ? text / radius / 2 : 0;
        const double middle = (from + to) / 2;
        fprintf(f, "<g class=\"ring frame\" stroke-width=\"2\"><title>");
        markup_text(f, name);
        fputs("</title>\n", f);
        for (int side = 0; side < (half > 0 ? 2 : 1); side++) {
            const double a = side == 0 ? from : middle + half, b = half > 0 && side == 0 ? middle - half : to;
            fprintf(f, "<path d=\"M%.1f %.1fA%.1f %.1f 0 %d 1 %.1f %.1f\"/>\n", x_at(g, a, radius), y_at(g, a, radius),
                    radius, radius, b - a > M_PI, x_at(g, b, radius), y_at(g, b, radius));
        }
        fputs("</g>\n", f);
        if (half > 0)
            round_text(f, g, middle, radius, name);
    }
}

static void draw_leaf(FILE *f, const struct graph *g, uint32_t leaf, const uint32_t *rank_at)
{
    const double room = g->wide * RADIUS, angle = g->angle[leaf];
    const uint32_t every = room >= 11 ? 1 : 4;
    char name[64];

    leaf_name(g, g->unit[leaf], g->level, name, sizeof name);
    fprintf(f, "<circle class=\"leaf ink\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>", x_at(g, angle, RADIUS),
            y_at(g, angle, RADIUS), fmin(6, room * 0.35));
    if (g->level < 0)
        markup_print(f, "rank %" PRIu32 ", ", rank_at[leaf]);
    markup_text(f, name);
    fputs("</title></circle>\n", f);
    if (leaf % every == 0)
        svg_text(f, x_at(g, angle, RADIUS + 16), y_at(g, angle, RADIUS + 16) + 4, "small middle", "%" PRIu64,
                 g->level < 0 ? rank_at[leaf] : g->unit[leaf]);
}

/* An arc bends towards the centre; that of the other direction lies beside it. */
static void draw_arc(FILE *f, const struct graph *g, uint32_t from, uint32_t to, uint64_t most, bool arrows)
{
    const uint64_t bytes = g->bytes[(size_t)from * g->nleaf + to];
    const double inner = RADIUS - 8, side = fmin(0.2 * g->wide, 0.05);
    const double a = g->angle[from] + side, b = g->angle[to] - side, apart = fabs(remainder(b - a, 2 * M_PI));
    const double pull = inner * (1 - fmin(0.95, 0.06 + 0.42 * apart)), half = a + remainder(b - a, 2 * M_PI) / 2;
    const double x = x_at(g, half, pull), y = y_at(g, half, pull), ex = x_at(g, b, inner), ey = y_at(g, b, inner);
    const double most_wide = fmin(WIDEST, 0.5 * g->wide * RADIUS),
                 wide = fmax(0.5, most_wide * (double)bytes / (double)most);
    char text[UNITS_ROOM];

    fprintf(f, "<path class=\"arc l%u\" stroke-width=\"%.2f\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"><title>",
            draw_level_colour(joined(g, from, to)), wide, x_at(g, a, inner), y_at(g, a, inner), x, y, ex, ey);
    markup_print(f, "%" PRIu64 " to %" PRIu64 ": %s", g->unit[from], g->unit[to], units_bytes(text, (double)bytes));
    fputs("</title></path>\n", f);
    if (!arrows)
        return;
    const double far = sqrt((ex - x) * (ex - x) + (ey - y) * (ey - y)) + 1e-9, dx = (ex - x) / far, dy = (ey - y) / far;
    const double w = wide / 2 + fmin(4, 0.15 * g->wide * RADIUS), tip = w - 2;
    fprintf(f, "<path class=\"f%u\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fz\"/>\n", draw_level_colour(joined(g, from, to)),
            ex + tip * dx, ey + tip * dy, ex - w * dx - w * dy, ey - w * dy + w * dx, ex - w * dx + w * dy,
            ey - w * dy - w * dx);
}

static uint64_t draw_arcs(FILE *f, const struct graph *g, bool *used)
{
    uint64_t most = 0;
    uint32_t arrows = 0;

    for (size_t i = 0; i < (size_t)g->nleaf * g->nleaf; i++) {
        most = g->bytes[i] > most ? g->bytes[i] : most;
        arrows += g->bytes[i] > 0;
    }
    fprintf(f, "<g class=\"arcs\" stroke-opacity=\"%s\">\n", g->nleaf > 16 ? "0.55" : "0.85");
    for (uint32_t from = 0; from < g->nleaf; from++)
        for (uint32_t to = 0; to < g->nleaf; to++)
            if (g->bytes[(size_t)from * g->nleaf + to] > 0) {
                used[joined(g, from, to)] = true;
                draw_arc(f, g, from, to, most, arrows <= MOST_ARROWS);
            }
    fputs("</g>\n", f);
    return most;
}

static void draw_all(FILE *f, const struct graph *g, double height, bool alone)
{
    const uint32_t nlevel = g->d->machine->nlevel, nrank = g->d->shape->nrank;
    struct chart_key keys[PLAIT_MOST_LEVELS];
    bool used[PLAIT_MOST_LEVELS] = { false };
    uint32_t *rank_at = allocate(g->nleaf, sizeof *rank_at);
    char widest[UNITS_ROOM], inside[UNITS_ROOM];

    for (uint32_t r = 0; r < nrank && g->level < 0; r++)
        rank_at[leaf_of(g, r)] = r;
    draw_title(f, g->d, "Who sends to whom", height, alone);
    const uint64_t most = draw_arcs(f, g, used);
    for (uint32_t k = (uint32_t)(g->level + 1); k < nlevel; k++)
        draw_ring(f, g, k);
    for (uint32_t i = 0; i < g->nleaf; i++)
        draw_leaf(f, g, i, rank_at);
    const double y = draw_legend(f, g->d, used, keys, 0, DRAW_TOP + 12);
    const char *leaf = g->level < 0 ? "rank" : g->d->machine->level[g->level].name;
    svg_text(f, 16, y, "small", "The widest arc: %s from one %s to another.", units_bytes(widest, (double)most), leaf);
    if (g->inside > 0)
        svg_text(f, 16, y + 16, "small", "Not drawn: %s inside %ss.", units_bytes(inside, (double)g->inside), leaf);
    svg_end(f);
    free(rank_at);
}

bool draw_graph(FILE *f, const struct drawing *d, bool alone)
{
    struct graph g = { .d = d, .level = -1, .places = 1 };

    g.unit = allocate(d->shape->nrank, sizeof *g.unit);
    for (find_leaves(&g); g.nleaf > MOST_LEAVES && g.level + 2 < (int32_t)d->machine->nlevel; find_leaves(&g))
        g.places = draw_places(d, (uint32_t)++g.level);
    g.angle = allocate(g.nleaf, sizeof *g.angle);
    g.bytes = allocate((size_t)g.nleaf * g.nleaf, sizeof *g.bytes);
    const double outer = RADIUS + 34 + RING * (d->machine->nlevel - (double)(g.level + 1));
    g.x = DRAW_WIDTH / 2.0;
    g.y = DRAW_TOP + 46 + outer;
    place_leaves(&g);
    const struct plait_sim_options callbacks = { .event = add_message, .arg = &g };
    const bool ok = draw_again(d, &callbacks);
    if (ok)
        draw_all(f, &g, g.y + outer + 16, alone);
    free(g.unit);
    free(g.angle);
    free(g.bytes);
    return ok;
}
