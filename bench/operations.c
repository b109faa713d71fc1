/* SPDX-License-Identifier: BSD-3-Clause */
#include "operations.h"

#include "parts.h"

#include <stdlib.h>
#include <string.h>

size_t worker_elements(const struct worker *w, const struct operation *o, const struct plait_side *side)
{
    return collective_elements(o->coll, w->stage->nrank, o->count, side, side->nslot);
}

void worker_free_tensors(struct worker *w)
{
    for (uint32_t i = 0; w->tensor != NULL && i < w->stage->ntensor; i++) {
        w->backend->free(w->self, w->tensor[i].in);
        w->backend->free(w->self, w->tensor[i].out);
    }
    free(w->tensor);
    free(w->operation);
    parts_finish(&w->in_parts);
    parts_finish(&w->out_parts);
}

static unsigned char *touched(struct worker *w, size_t bytes)
{
    unsigned char *memory = w->backend->alloc(w->self, bytes);

    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

bool worker_alloc_tensors(struct worker *w)
{
    const struct stage *s = w->stage;
    const uint64_t *count = stage_counts(w->stage);

    w->tensor = calloc(s->ntensor, sizeof *w->tensor);
    w->operation = calloc(s->ntensor, sizeof *w->operation);
    if (w->tensor == NULL || w->operation == NULL || !parts_init(&w->in_parts, s->nrank) ||
        !parts_init(&w->out_parts, s->nrank))
        return false;
    for (uint32_t i = 0; i < s->ntensor; i++) {
        const size_t bytes = count[i] * s->width + 8 * (s->unalign + 1);
        struct tensor *t = &w->tensor[i];
        t->in = s->inplace ? NULL : touched(w, bytes);
        t->out = touched(w, bytes);
        if ((t->in == NULL && !s->inplace) || t->out == NULL)
            return false;
    }
    return true;
}

/* In place: IN and OUT lie in one buffer such that equal blocks coincide. */
static void place_together(struct operation *o, const struct worker *w, unsigned char *memory)
{
    const struct plait_geometry *g = &w->geometry;
    const struct plait_side *in = &g->in, *out = &g->out;
    const size_t width = plait_dtype_size(o->type);
    const uint32_t n = w->stage->nrank;

    if (in->nslot > 0 && in->nslot < out->nslot)
        o->in = memory + collective_elements(o->coll, n, o->count, out, plait_side_slot(out, in->blk)) * width;
    else if (out->nslot > 0 && out->nslot < in->nslot && !(g->combines && w->backend->front))
        o->out = memory + collective_elements(o->coll, n, o->count, in, plait_side_slot(in, out->blk)) * width;
}

static struct operation operation_on(const struct worker *w, const struct command *c, const struct tensor *t,
                                     size_t count)
{
    const struct plait_geometry *g = &w->geometry;
    const size_t shift = w->stage->unalign * plait_dtype_size((enum plait_dtype)c->dtype);
    unsigned char *to = t->out + shift, *from = c->inplace ? to : t->in + shift;
    struct operation o = {
        .coll = (enum plait_coll)c->coll,
        .type = (enum plait_dtype)c->dtype,
        .op = (enum plait_op)c->op,
        .root = c->root,
        .inplace = c->inplace,
        .count = count,
        .tensor = (uint32_t)(t - w->tensor),
        .in = g->in.nslot > 0 ? from : NULL,
        .out = g->out.nslot > 0 ? to : NULL,
    };

    if (c->inplace)
        place_together(&o, w, to);
    o.in_parts = parts_of(o.coll, w->stage->nrank, o.count, &g->in, &w->in_parts);
    o.out_parts = parts_of(o.coll, w->stage->nrank, o.count, &g->out, &w->out_parts);
    return o;
}

void worker_plan(struct worker *w, const struct command *c)
{
    w->geometry = collective_geometry((enum plait_coll)c->coll, w->stage->nrank, c->root, w->rank);
    w->type = (enum plait_dtype)c->dtype;
    w->noperation = 0;
    for (uint32_t i = 0; i < w->stage->ntensor; i++) {
        const uint64_t own = stage_counts(w->stage)[i];
        if (own >= c->min_count && (c->max_count == 0 || own < c->max_count))
            w->operation[w->noperation++] = operation_on(w, c, &w->tensor[i], c->count > 0 ? c->count : own);
    }
}
