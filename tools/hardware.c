/* SPDX-License-Identifier: BSD-3-Clause */
#include "hardware.h"

#include "../simulate/fields.h"
#include "allocate.h"
#include "message.h"
#include "tree.h"
#include "units.h"
#include "value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *part_kind_name(enum part_kind kind)
{
    static const char *const names[PART_NKIND] = { "host", "package", "memory node", "L3", "PCIe switch",
                                                   "core", "thread",  "GPU",         "NIC" };

    return names[kind];
}

uint64_t part_rate(double rate)
{
    double unit = 1;

    while (rate / unit >= 1000)
        unit *= 10;
    return (uint64_t)(round(rate / unit) * unit);
}

struct part *part_add(struct part *above, enum part_kind kind)
{
    struct part *p = allocate(1, sizeof *p);

    p->kind = kind;
    p->above = above;
    for (struct part *a = above; a != NULL; a = a->above)
        p->number = a->counts[kind]++; /* the host's is the last */
    if (above == NULL)
        return p;
    if (above->last != NULL)
        above->last->next = p;
    else
        above->first = p;
    above->last = p;
    return p;
}

void parts_free(struct part *p)
{
    while (p != NULL) {
        struct part *next = p->next;
        parts_free(p->first);
        free(p);
        p = next;
    }
}

const struct part *parts_following(const struct part *p)
{
    if (p->first != NULL)
        return p->first;
    while (p->next == NULL && p->above != NULL)
        p = p->above;
    return p->next;
}

enum part_kind parts_rank(const struct part *host, const struct machine_wish *wish)
{
    if (wish->rank != PART_HOST)
        return wish->rank;
    if (host->counts[PART_GPU] > 0)
        return PART_GPU;
    return host->counts[PART_CORE] > 1 || host->counts[PART_THREAD] == 0 ? PART_CORE : PART_THREAD;
}

/* ---- The tree ---------------------------------------------------------------------------------------- */

struct drawing {
    struct tree tree;
    enum part_kind rank;
    uint32_t nrank; /* drawn so far */
};

/* "32 MiB, rank 3" */
static void describe(struct drawing *d, const struct part *p, uint32_t n, char *text, size_t room)
{
    char rate[32], value[64];

    text[0] = '\0';
    if (p->bytes > 0 && (p->kind == PART_NUMA || p->kind == PART_CACHE))
        list_add(text, room, units_bytes(rate, (double)p->bytes));
    if (p->name[0] != '\0')
        list_add(text, room, p->name);
    if (p->network > 0) {
        plait_quantity_print(PLAIT_RATE, p->network, rate);
        snprintf(value, sizeof value, "network %s", rate);
        list_add(text, room, value);
    }
    if (p->rate > 0) {
        plait_quantity_print(PLAIT_RATE, p->rate, rate);
        snprintf(value, sizeof value, "PCIe %s", rate);
        list_add(text, room, value);
    }
    if (p->nvlinks > 0) {
        snprintf(value, sizeof value, "%" PRIu32 " NVLink%s", p->nvlinks, plural(p->nvlinks));
        list_add(text, room, value);
    }
    if (p->kind == d->rank) {
        snprintf(value, sizeof value, n > 1 ? "ranks %" PRIu32 " - %" PRIu32 : "rank %" PRIu32, d->nrank,
                 d->nrank + n - 1);
        list_add(text, room, value);
        d->nrank += n;
    }
}

static uint32_t children_of(const struct part *p)
{
    uint32_t n = 0;

    for (const struct part *c = p->first; c != NULL; c = c->next)
        n++;
    return n;
}

/* Are these cores or threads drawn as one line? */
static bool alike(const struct drawing *d, const struct part *a, const struct part *b)
{
    return a->kind == b->kind && (a->kind == PART_CORE || a->kind == PART_THREAD) &&
           (a->kind == d->rank || d->rank != PART_THREAD) && children_of(a) == children_of(b);
}

static void draw(struct drawing *d, const struct part *p)
{
    for (const struct part *last; p != NULL && d->tree.depth < TREE_DEPTH; p = last->next) {
        char label[96], text[256];
        uint32_t n = 1;
        for (last = p; last->next != NULL && alike(d, p, last->next); last = last->next)
            n++;
        if (n > 1)
            snprintf(label, sizeof label, "%ss %" PRIu32 " - %" PRIu32, part_kind_name(p->kind), p->number,
                     last->number);
        else if (p->above == NULL)
            snprintf(label, sizeof label, "%s", part_kind_name(p->kind));
        else
            snprintf(label, sizeof label, "%s %" PRIu32, part_kind_name(p->kind), p->number);
        describe(d, p, n, text, sizeof text);
        tree_node(&d->tree, last->next != NULL, label, text);
        if (p->kind == PART_CORE && d->rank != PART_THREAD)
            continue; /* its threads tell nothing */
        d->tree.depth++;
        draw(d, p->first);
        d->tree.depth--;
    }
}

void parts_draw(FILE *f, const struct part *host, const struct machine_wish *wish)
{
    struct drawing d = { .tree = { .f = f }, .rank = parts_rank(host, wish) };

    draw(&d, host);
}
