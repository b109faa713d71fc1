/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks against time. */
#include "draw.h"

#include "allocate.h"
#include "message.h"
#include "units.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define LEFT       80
#define RIGHT      24
#define FEW        2500  /* messages of which each is an element that tells its bytes and times */
#define MOST       20000 /* messages that are drawn; of more, those of some senders */
#define MOST_RANKS 256

struct text { /* what is drawn on top of each other is written to texts first */
    FILE *f;
    char *text;
    size_t size;
};

struct mark { /* of one kind and rank: [from, to) is not written yet */
    double from, to;
};

struct picture {
    const struct drawing *d;
    double width, lane, top;
    uint32_t shown, every; /* ranks; messages of every so many-th sender */
    bool few;
    struct text marks[PLAIT_SIM_NKIND], lines[PLAIT_MOST_LEVELS];
    struct mark *last; /* [shown * PLAIT_SIM_NKIND] when there are many */
    bool used[PLAIT_MOST_LEVELS];
    uint64_t drawn;
};

static const struct kind {
    const char *name, *group, *area, *line;
    double height; /* of the lane */
} kinds[PLAIT_SIM_NKIND] = {
    [PLAIT_SIM_SEND] = { "sending", "sends", "muted", "frame", 0.22 },
    [PLAIT_SIM_RECV] = { "receiving", "receives", "muted", "frame", 0.22 },
    [PLAIT_SIM_COPY] = { "copies", "copies", "f3", "l3", 0.42 },
    [PLAIT_SIM_REDUCE] = { "reductions", "reductions", "f1", "l1", 0.42 },
};

static double x_of(const struct picture *p, uint64_t time)
{
    return LEFT + (p->d->p.time > 0 ? p->width * (double)time / (double)p->d->p.time : 0);
}

static double y_of(const struct picture *p, uint32_t rank)
{
    return p->top + p->lane * (rank + 0.5);
}

static void describe(FILE *f, const struct plait_sim_event *e, const char *what)
{
    char bytes[UNITS_ROOM], start[UNITS_ROOM], end[UNITS_ROOM];

    fputs("<title>", f);
    markup_print(f, "%s, %s, %s to %s, slice %" PRIu64, what, units_bytes(bytes, (double)e->bytes),
                 units_seconds(start, 1e-12 * (double)e->start), units_seconds(end, 1e-12 * (double)e->end), e->slice);
    fputs("</title>", f);
}

/* ---- Messages -------------------------------------------------------------------------------------- */

static void line(struct picture *p, const struct plait_sim_event *e)
{
    const uint32_t level = draw_level(p->d, e->rank, e->peer);
    FILE *f = p->lines[level].f;
    char what[64];

    if (e->rank >= p->shown || e->peer >= p->shown || e->rank % p->every != 0)
        return;
    p->used[level] = true;
    p->drawn++;
    if (p->few)
        fputs("<path d=\"", f);
    fprintf(f, "M%.1f %.1fL%.1f %.1f", x_of(p, e->start), y_of(p, e->rank), x_of(p, e->end), y_of(p, e->peer));
    if (!p->few)
        return;
    fputs("\">", f);
    snprintf(what, sizeof what, "rank %" PRIu32 " to %" PRIu32, e->rank, e->peer);
    describe(f, e, what);
    fputs("</path>\n", f);
}

/* ---- What a processor does ------------------------------------------------------------------------- */

static void flush_mark(const struct picture *p, uint32_t rank, enum plait_sim_kind kind)
{
    struct mark *m = &p->last[rank * PLAIT_SIM_NKIND + kind];

    if (m->to > m->from)
        fprintf(p->marks[kind].f, "M%.1f %.1fh%.1f", m->from, y_of(p, rank), m->to - m->from);
}

static void mark(struct picture *p, const struct plait_sim_event *e)
{
    const double from = x_of(p, e->start), to = fmax(x_of(p, e->end), from + 1),
                 height = kinds[e->kind].height * p->lane;
    FILE *f = p->marks[e->kind].f;
    char what[64];

    if (e->rank >= p->shown)
        return;
    if (p->few) {
        fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", from, y_of(p, e->rank) - height / 2,
                to - from, height);
        snprintf(what, sizeof what, "rank %" PRIu32 ": %s", e->rank, kinds[e->kind].name);
        describe(f, e, what);
        fputs("</rect>\n", f);
        return;
    }
    struct mark *last = &p->last[e->rank * PLAIT_SIM_NKIND + e->kind];
    if (last->to > last->from && from < last->to + 0.3) { /* the eye sees no gap */
        last->to = fmax(last->to, to);
        return;
    }
    flush_mark(p, e->rank, e->kind);
    *last = (struct mark){ from, to };
}

static void event(void *arg, const struct plait_sim_event *e)
{
    if (e->kind == PLAIT_SIM_TRANSFER)
        line(arg, e);
    else
        mark(arg, e);
}

/* ---- The picture ----------------------------------------------------------------------------------- */

/* A band behind the ranks of every second unit of level 0. */
static void draw_units(FILE *f, const struct picture *p)
{
    const uint64_t places = draw_places(p->d, 0);

    for (uint32_t r = 0, end; r < p->shown; r = end) {
        const uint64_t unit = draw_place(p->d, r) / places;
        for (end = r + 1; end < p->shown && draw_place(p->d, end) / places == unit;)
            end++;
        if (unit % 2 == 1)
            svg_rect(f, LEFT, p->top + p->lane * r, p->width, p->lane * (end - r), "band");
        if (p->lane * (end - r) < 60)
            continue;
        fprintf(f, "<text class=\"small muted middle\" transform=\"translate(14 %.1f) rotate(-90)\">",
                p->top + p->lane * (r + end) / 2);
        markup_print(f, "%s %" PRIu64, p->d->machine->level[0].name, unit);
        fputs("</text>\n", f);
    }
}

static void draw_lanes(FILE *f, const struct picture *p)
{
    const uint32_t every = p->lane >= 12 ? 1 : p->lane >= 6 ? 4 : 16;

    draw_units(f, p);
    draw_time(f, p->d->p.time, LEFT, p->top + p->lane * p->shown, p->width, p->lane * p->shown);
    for (uint32_t r = 0; r < p->shown; r++) {
        svg_line(f, LEFT, y_of(p, r), LEFT + p->width, y_of(p, r), "grid");
        if (r % every == 0)
            svg_text(f, LEFT - 8, y_of(p, r) + 4, "small muted end", p->lane >= 20 ? "rank %" PRIu32 : "%" PRIu32, r);
    }
}

static void write_text(FILE *f, struct text *t, const char *group, const char *classes, double stroke, bool few)
{
    fclose(t->f);
    if (t->size > 0) {
        fprintf(f, "<g class=\"%s %s\" stroke-width=\"%.1f\" fill-opacity=\"0.85\" stroke-opacity=\"%s\">\n", group,
                classes, stroke, few ? "0.85" : "0.6");
        if (!few)
            fputs("<path d=\"", f);
        fwrite(t->text, 1, t->size, f);
        fputs(few ? "</g>\n" : "\"/>\n</g>\n", f);
    }
    free(t->text);
}

static bool open_texts(struct text *texts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if ((texts[i].f = open_memstream(&texts[i].text, &texts[i].size)) == NULL)
            return complain("out of memory to draw");
    return true;
}

static void write_groups(FILE *f, struct picture *p)
{
    for (uint32_t k = 0; k < PLAIT_MOST_LEVELS; k++) {
        char colour[8];
        snprintf(colour, sizeof colour, "l%u", draw_level_colour(k));
        write_text(f, &p->lines[k], "messages", colour, p->few ? 1.4 : 0.7, p->few);
    }
    for (unsigned k = 0; k < PLAIT_SIM_TRANSFER; k++)
        write_text(f, &p->marks[k], kinds[k].group, p->few ? kinds[k].area : kinds[k].line,
                   p->few ? 0 : kinds[k].height * p->lane, p->few);
}

static double draw_keys(FILE *f, const struct picture *p)
{
    struct chart_key keys[3 + PLAIT_MOST_LEVELS] = { { "sending, receiving", "muted" },
                                                     { "copies", "f3" },
                                                     { "reductions", "f1" } };

    double y = draw_legend(f, p->d, p->used, keys, 3, DRAW_TOP + 12);
    if (p->shown < p->d->shape->nrank || p->every > 1) {
        svg_text(f, 16, y, "small", "Drawn: %" PRIu64 " of %" PRIu64 " messages, of ranks 0 to %" PRIu32 "%s", p->drawn,
                 p->d->p.messages, p->shown - 1, p->every > 1 ? ", of some of the senders" : "");
        y += 16;
    }
    return y;
}

bool draw_messages(FILE *f, const struct drawing *d, bool alone)
{
    const uint32_t nrank = d->shape->nrank;
    struct picture p = { .d = d, .width = DRAW_WIDTH - LEFT - RIGHT, .top = DRAW_TOP + 52 };

    p.shown = nrank < MOST_RANKS ? nrank : MOST_RANKS;
    p.lane = fmin(56, 4 + 640.0 / p.shown);
    p.every = (uint32_t)(d->p.messages * p.shown / nrank / MOST) + 1; /* as if all ranks send equally many */
    p.few = d->p.messages <= FEW;
    p.last = allocate((size_t)p.shown * PLAIT_SIM_NKIND, sizeof *p.last);
    const struct plait_sim_options callbacks = { .event = event, .arg = &p };
    bool ok =
        open_texts(p.marks, PLAIT_SIM_TRANSFER) && open_texts(p.lines, PLAIT_MOST_LEVELS) && draw_again(d, &callbacks);
    for (uint32_t i = 0; ok && !p.few && i < p.shown * PLAIT_SIM_NKIND; i++)
        if (i % PLAIT_SIM_NKIND < PLAIT_SIM_TRANSFER)
            flush_mark(&p, i / PLAIT_SIM_NKIND, (enum plait_sim_kind)(i % PLAIT_SIM_NKIND));
    draw_title(f, d, "Messages over time", p.top + p.lane * p.shown + 48, alone);
    draw_keys(f, &p);
    draw_lanes(f, &p);
    write_groups(f, &p);
    svg_end(f);
    free(p.last);
    return ok;
}
