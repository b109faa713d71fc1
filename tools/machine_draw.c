/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine_draw.h"

#include "../simulate/fields.h"
#include "message.h"
#include "tree.h"
#include "value.h"

#include <inttypes.h>
#include <string.h>

#define SHOWN 4 /* units that are drawn before the rest of a level is one line */

struct drawing {
    struct tree tree;
    const struct plait_machine *m;
    uint64_t ranks_in[PLAIT_MOST_LEVELS]; /* of one unit */
};

static const char *child_name(const struct plait_machine *m, uint32_t level)
{
    return level > 0 ? m->level[level - 1].name : "rank";
}

/* The slow things of this unit, or of one of its ranks. */
static void add_slow(const struct drawing *d, uint32_t level, uint64_t unit, char *text, size_t room)
{
    for (uint32_t i = 0; i < d->m->nslow; i++) {
        const struct plait_slow *s = &d->m->slow[i];
        char what[64] = "";
        if (!s->rank && s->level == level + 1 && s->child == unit)
            snprintf(what, sizeof what, "its links at %" PRIu32 " %%", s->percent);
        else if (level == 0 && s->child / d->m->level[0].children == unit && (s->rank || s->level == 0))
            snprintf(what, sizeof what, "%srank %" PRIu32 " at %" PRIu32 " %%", s->rank ? "" : "links of ", s->child,
                     s->percent);
        if (what[0] != '\0')
            list_add(text, room, what);
    }
}

/* Is something in this unit slow, or are its links? */
static bool is_slow(const struct drawing *d, uint32_t level, uint64_t unit)
{
    for (uint32_t i = 0; i < d->m->nslow; i++) {
        const struct plait_slow *s = &d->m->slow[i];
        const uint64_t each = s->rank || s->level == 0 ? 1 : d->ranks_in[s->level - 1];
        if ((s->rank || s->level <= level + 1) && s->child * each / d->ranks_in[level] == unit)
            return true;
    }
    return false;
}

/* "ranks 8 - 15" */
static void places(const struct drawing *d, uint32_t level, uint64_t unit, uint64_t n, char *text, size_t room)
{
    const uint64_t first = unit * d->ranks_in[level], last = first + n * d->ranks_in[level] - 1;

    if (first == last)
        snprintf(text, room, "rank %" PRIu64, first);
    else
        snprintf(text, room, "ranks %" PRIu64 " - %" PRIu64, first, last);
}

/* What a unit of this level joins, and how. */
static void describe(const struct drawing *d, uint32_t level, char *text, size_t room)
{
    const struct plait_level *l = &d->m->level[level];
    char rate[32], latency[32], memory[32], what[96];

    plait_quantity_print(PLAIT_RATE, l->bandwidth, rate);
    plait_quantity_print(PLAIT_TIME, l->latency, latency);
    plait_quantity_print(PLAIT_RATE, l->memory, memory);
    if (l->links == 0)
        snprintf(text, room, "joined by memory, %s each, %s", rate, l->latency > 0 ? latency : "no latency");
    else
        snprintf(text, room, "%" PRIu32 " link%s of %s from each %s, %s", l->links, plural(l->links), rate,
                 child_name(d->m, level), l->latency > 0 ? latency : "no latency");
    if (l->memory > 0) {
        snprintf(what, sizeof what, "memory %s", memory);
        list_add(text, room, what);
    }
    if (l->processors > 0) {
        snprintf(what, sizeof what, "%" PRIu32 " processor%s", l->processors, plural(l->processors));
        list_add(text, room, what);
    }
}

/* Draw a unit. full: with what it contains. */
static void draw(struct drawing *d, uint32_t level, uint64_t unit, bool full, bool more)
{
    const struct plait_machine *m = d->m;
    const bool top = level + 1 == m->nlevel;
    char label[64], text[256];

    snprintf(label, sizeof label, top ? "%s" : "%s %" PRIu64, m->level[level].name, unit);
    if (full)
        describe(d, level, text, sizeof text);
    else
        places(d, level, unit, 1, text, sizeof text);
    add_slow(d, level, unit, text, sizeof text);
    tree_node(&d->tree, more, label, text);
    if (!full)
        return;
    d->tree.depth++;
    if (level == 0) {
        places(d, 0, unit, 1, label, sizeof label);
        tree_node(&d->tree, false, label, "");
    }
    const uint64_t n = level > 0 ? m->level[level].children : 0, first = unit * n;
    for (uint64_t i = 0, skipped = 0; i < n; i++) {
        const bool slow = is_slow(d, level - 1, first + i);
        if (i >= SHOWN - 1 && i + 1 < n && n > SHOWN && !slow) {
            skipped++;
            if (i + 2 < n && !is_slow(d, level - 1, first + i + 1))
                continue;
            snprintf(label, sizeof label, "... %" PRIu64 " more", skipped);
            places(d, level - 1, first + i + 1 - skipped, skipped, text, sizeof text);
            tree_node(&d->tree, true, label, text);
            skipped = 0;
            continue;
        }
        draw(d, level - 1, first + i, i == 0 || slow, i + 1 < n);
    }
    d->tree.depth--;
}

void machine_draw(FILE *f, const struct plait_machine *m)
{
    struct drawing d = { .tree = { .f = f }, .m = m };
    uint64_t ranks = 1;

    for (uint32_t k = 0; k < m->nlevel; k++)
        d.ranks_in[k] = ranks *= m->level[k].children;
    fprintf(f, "%s (%" PRIu64 " rank%s)\n", m->name, ranks, plural(ranks));
    draw(&d, m->nlevel - 1, 0, true, false);
}
