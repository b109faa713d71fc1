/* SPDX-License-Identifier: BSD-3-Clause */
#include "cells.h"

#include "allocate.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CELLS 10000

static struct cell *add_cell(struct bench *b)
{
    if ((b->ncell & (b->ncell - 1)) == 0) /* full: the capacity is a power of two */
        b->cell = grow(b->cell, b->ncell > 0 ? 2 * b->ncell : 1, sizeof *b->cell);
    struct cell *c = &b->cell[b->ncell++];

    memset(c, 0, sizeof *c);
    return c;
}

/* Advance *bytes to the next size; false: there is none. */
static bool next_size(const struct options *o, uint64_t width, uint64_t *bytes)
{
    if (o->step_factor > 1 && *bytes == 0)
        *bytes = width; /* a multiple of 0 is 0 */
    else if (o->step_factor > 1)
        return !__builtin_mul_overflow(*bytes, o->step_factor, bytes);
    else
        return o->step_bytes > 0 && !__builtin_add_overflow(*bytes, o->step_bytes, bytes);
    return true;
}

/* State that the cells of a sweep share. */
struct sweep {
    enum plait_dtype type;
    enum plait_op op;
    int64_t root;
};

static struct cell *add_cell_of(struct bench *b, const struct sweep *s)
{
    struct cell *c = add_cell(b);

    c->type = s->type;
    c->op = s->op;
    c->root = s->root;
    return c;
}

static bool add_sizes(struct bench *b, const struct sweep *s)
{
    const struct options *o = b->options;
    const enum plait_coll coll = b->coll->coll;
    const uint64_t width = plait_dtype_size(s->type);
    uint64_t bytes = o->min_bytes;

    if (coll == PLAIT_BARRIER) {
        add_cell_of(b, s)->each = 1; /* it has no size */
        return true;
    }
    do {
        if (bytes > o->max_bytes)
            break;
        if (b->ncell == MAX_CELLS)
            return complain("%s %llu makes more than %d rows from %llu to %llu bytes; raise it, or use -f",
                            options_flag(o, "stepbytes"), (unsigned long long)o->step_bytes, MAX_CELLS,
                            (unsigned long long)o->min_bytes, (unsigned long long)o->max_bytes);
        const uint64_t count = collective_count(coll, (uint32_t)o->nrank, bytes, width);
        if (count > 0) { /* smaller sizes hold no element of this type, or less than one for each rank */
            struct cell *c = add_cell_of(b, s);
            c->count = c->each = count;
            c->bytes = count * width * collective_parts(coll, (uint32_t)o->nrank);
        }
    } while (next_size(o, width, &bytes));
    return true;
}

/* All tensors, then each class of sizes alone. */
static void add_tensors(struct bench *b, const struct tensors *t, const struct sweep *s)
{
    static const struct {
        const char *name;
        uint64_t min, max;
    } classes[] = {
        { "all", 0, 0 },
        { "up to 1 Ki elements", 0, 1025 },
        { "up to 16 Ki elements", 1025, 16385 },
        { "up to 256 Ki elements", 16385, 262145 },
        { "more than 256 Ki elements", 262145, 0 },
    };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        uint64_t elements;
        const uint32_t n = tensors_between(t, classes[i].min, classes[i].max, &elements);
        if (n == 0)
            continue;
        struct cell *c = add_cell_of(b, s);
        c->count = elements;
        c->bytes = elements * plait_dtype_size(s->type);
        c->min_count = classes[i].min;
        c->max_count = classes[i].max;
        snprintf(c->label, sizeof c->label, "%u tensor%s, %s", n, plural(n), classes[i].name);
    }
}

/* Training steps: each payload with gradients in buckets, then in their own memory. */
static bool add_steps(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    const uint64_t beyond = o->max_elements > 0 ? o->max_elements + 1 : 0;
    uint64_t elements;
    const uint32_t n = tensors_between(t, o->min_elements, beyond, &elements);

    if (n == 0)
        return complain("--tensors %s: no tensor has from %llu to %llu elements; raise --max-elements", o->tensors,
                        (unsigned long long)o->min_elements, (unsigned long long)o->max_elements);
    for (uint32_t k = 0; k < 2 * o->npayload; k++) {
        if (!o->gradients[k % 2])
            continue;
        struct cell *c = add_cell_of(b, &(struct sweep){ .type = o->payload[k / 2], .op = PLAIT_SUM, .root = -1 });
        c->payload = c->type;
        c->own = k % 2;
        c->count = elements;
        c->bytes = elements * plait_dtype_size(c->payload);
        c->min_count = o->min_elements;
        c->max_count = beyond;
        snprintf(c->label, sizeof c->label, "%u tensor%s", n, plural(n));
    }
    return true;
}

/* A collective without operators, or without roots, has one sweep. */
static bool plan_type(struct bench *b, const struct tensors *t, enum plait_dtype type)
{
    const struct options *o = b->options;
    const struct plait_geometry g = collective_geometry(b->coll->coll, 1, 0, 0);
    const uint32_t nop = g.combines ? o->nop : 1, nroot = g.rooted && o->every_root ? (uint32_t)o->nrank : 1;

    for (uint32_t k = 0; k < nop * nroot; k++) {
        const struct sweep s = {
            .type = type,
            .op = g.combines ? o->op[k / nroot] : PLAIT_NOP,
            .root = g.rooted ? (int64_t)(o->root + k % nroot) : -1,
        };
        if (o->tensors != NULL)
            add_tensors(b, t, &s);
        else if (!add_sizes(b, &s))
            return false;
    }
    return true;
}

bool cells_plan(struct bench *b, const struct tensors *t)
{
    const struct options *o = b->options;
    const uint32_t parts = collective_parts(b->coll->coll, (uint32_t)o->nrank);

    if (o->fusion)
        return add_steps(b, t);
    for (uint32_t i = 0; i < (b->coll->coll == PLAIT_BARRIER ? 1 : o->ndtype); i++)
        if (!plan_type(b, t, o->dtype[i]))
            return false;
    if (b->ncell > 0)
        return true;
    if (parts > 1)
        return complain("%s: no size from %llu to %llu bytes holds 16 bytes for each of %u ranks; raise -e",
                        b->coll->title, (unsigned long long)o->min_bytes, (unsigned long long)o->max_bytes, parts);
    return complain("no size from %llu to %llu bytes holds an element of type %s; raise -e",
                    (unsigned long long)o->min_bytes, (unsigned long long)o->max_bytes, dtype_label(o->dtype[0]));
}

void cells_forget(struct bench *b)
{
    for (size_t i = 0; i < b->ncell; i++)
        cell_finish(&b->cell[i]);
    free(b->cell);
    b->cell = NULL;
    b->ncell = 0;
    b->wrong = 0;
}
