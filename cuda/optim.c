/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim.h"

#include <stdlib.h>
#include <string.h>

struct plait_stepper {
    struct gpu *gpu;
    char *memory;                   /* device memory: the tables */
    struct plait_cuda_result *seen; /* pinned: result of the latest step that has run */
    struct plait_cuda_optim a;      /* except what differs by step */
};

struct tables { /* offsets in the device's one allocation */
    size_t parts, pieces, ranges, gradient_squares, weight_squares, updates, result, bytes;
};

static size_t cut_off(size_t *at, size_t bytes)
{
    const size_t start = *at;

    *at += (bytes + 15) / 16 * 16;
    return start;
}

static struct tables place(const struct plait_cuda_optim *a)
{
    struct tables t = { .bytes = 0 };

    t.parts = cut_off(&t.bytes, a->npart * sizeof *a->parts);
    t.pieces = cut_off(&t.bytes, a->npiece * sizeof *a->pieces);
    t.ranges = cut_off(&t.bytes, a->ntensor * sizeof *a->ranges);
    t.gradient_squares = cut_off(&t.bytes, a->npiece * sizeof *a->gradient_squares);
    t.weight_squares = cut_off(&t.bytes, a->npiece * sizeof *a->weight_squares);
    t.updates = cut_off(&t.bytes, a->npart * sizeof *a->updates);
    t.result = cut_off(&t.bytes, sizeof *a->result);
    return t;
}

/* Pieces are sorted by tensor, and within a tensor by part. */
static bool fill(const struct plait_model *m, const struct tables *t, char *tables)
{
    const struct plait_optim_options *o = m->options;
    struct plait_cuda_part *parts = (void *)(tables + t->parts);
    struct plait_cuda_piece *const first = (void *)(tables + t->pieces), *end = first;
    struct plait_cuda_range *ranges = (void *)(tables + t->ranges);
    uint32_t *next = calloc(o->npart + 1, sizeof *next); /* next part of the same tensor, from 1; 0: none */
    uint32_t *heads = calloc(o->ntensor, sizeof *heads);

    for (uint32_t k = o->npart; next != NULL && heads != NULL && k > 0; k--) {
        const struct plait_optim_part *p = &o->parts[k - 1];
        parts[k - 1] = (struct plait_cuda_part){ p->gradient, p->master,         m->momentum + m->at[k - 1],
                                                 p->copy,     (uint32_t)p->type, (uint32_t)p->copy_type,
                                                 p->tensor,   p->flags };
        next[k] = heads[p->tensor];
        heads[p->tensor] = k;
    }
    for (uint32_t i = 0; next != NULL && heads != NULL && i < o->ntensor; i++) {
        ranges[i].first = (uint32_t)(end - first);
        for (uint32_t k = heads[i]; k > 0; k = next[k])
            end = plait_cuda_cut(end, k - 1, o->parts[k - 1].count);
        ranges[i].count = (uint32_t)(end - first) - ranges[i].first;
    }
    const bool filled = next != NULL && heads != NULL;
    free(next);
    free(heads);
    return filled;
}

static const char *upload(struct plait_stepper *p, const char *tables, size_t bytes)
{
    cu_address memory = 0;
    void *seen = NULL;
    const char *why = plait_cuda_take(bytes, &memory);

    p->memory = (char *)(uintptr_t)memory;
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.mem_alloc_host(&seen, sizeof *p->seen, DRIVER_HOST_PORTABLE), "cuMemHostAlloc");
    p->seen = seen;
    if (why != NULL)
        return why;
    memset(seen, 0, sizeof *p->seen);
    why = plait_cuda_why(plait_cuda.copy_async(memory, (cu_address)(uintptr_t)tables, bytes, p->gpu->stream),
                         "cuMemcpyAsync");
    return why == NULL ? plait_cuda_why(plait_cuda.stream_synchronize(p->gpu->stream), "cuStreamSynchronize") : why;
}

static struct plait_cuda_optim argument_of(const struct plait_model *m)
{
    const struct plait_optim_options *o = m->options;
    struct plait_cuda_optim a = { .sums = m->sums,
                                  .scale = o->scale,
                                  .momentum = o->momentum,
                                  .decay = o->decay,
                                  .eta = o->eta,
                                  .eps = o->eps,
                                  .norm_decay = o->norm_decay,
                                  .lars = o->method == PLAIT_OPTIM_LARS,
                                  .nesterov = o->nesterov != 0,
                                  .lr_in_momentum = o->lr_in_momentum != 0,
                                  .check = o->check != 0,
                                  .npart = o->npart,
                                  .ntensor = o->ntensor };

    for (uint32_t k = 0; k < o->npart; k++)
        a.npiece += (uint32_t)plait_cuda_npiece(o->parts[k].count);
    return a;
}

static void point(struct plait_stepper *p, const struct tables *t)
{
    p->a.parts = (const void *)(p->memory + t->parts);
    p->a.pieces = (const void *)(p->memory + t->pieces);
    p->a.ranges = (const void *)(p->memory + t->ranges);
    p->a.gradient_squares = (void *)(p->memory + t->gradient_squares);
    p->a.weight_squares = (void *)(p->memory + t->weight_squares);
    p->a.updates = (void *)(p->memory + t->updates);
    p->a.result = (void *)(p->memory + t->result);
}

const char *plait_cuda_make_stepper(int device, const struct plait_model *model, struct plait_stepper **out)
{
    struct plait_stepper *p = calloc(1, sizeof *p);
    struct tables t = { .bytes = 0 };
    char *tables = NULL;
    const char *why = NULL;

    if (p != NULL) {
        p->a = argument_of(model);
        t = place(&p->a);
        tables = calloc(1, t.bytes);
    }
    if (tables == NULL || !fill(model, &t, tables))
        why = plait_cuda_say("out of memory for tables of %u parts", model->options->npart);
    if (why == NULL)
        why = plait_cuda_gpu(device, &p->gpu);
    if (why == NULL)
        INSIDE(p->gpu, why = upload(p, tables, t.bytes));
    free(tables);
    if (why == NULL) {
        point(p, &t);
        *out = p;
    } else {
        plait_cuda_free_stepper(p);
    }
    return why;
}

void plait_cuda_free_stepper(struct plait_stepper *p)
{
    const char *why;

    if (p != NULL && p->memory != NULL)
        TWICE(p->gpu, "cuMemFree", plait_cuda.mem_free((cu_address)(uintptr_t)p->memory));
    if (p != NULL && p->seen != NULL)
        TWICE(p->gpu, "cuMemFreeHost", plait_cuda.mem_free_host(p->seen));
    free(p);
}

/* ---- A step ----------------------------------------------------------------------------------------------------- */

/* None for a rank without pieces. */
static const char *over_pieces(const struct plait_queue *q, enum plait_cuda_kernel kernel,
                               const struct plait_cuda_optim *a)
{
    const unsigned blocks = plait_cuda_piece_blocks(a->npiece);

    return blocks > 0 ? plait_cuda_launch(q->gpu, q->stream, kernel, blocks, a) : NULL;
}

/* The result is copied before the update, so that a refused call changes nothing. */
static const char *put(const struct plait_queue *q, const struct plait_stepper *p, const struct plait_cuda_optim *a)
{
    const bool updates = (a->what & PLAIT_CUDA_TRUST) != 0;
    const char *why = NULL;

    if ((a->what & PLAIT_CUDA_ADD) != 0)
        why = over_pieces(q, PLAIT_CUDA_KERNEL_plait_optim_squares, a);
    if (why == NULL)
        why = plait_cuda_launch(q->gpu, q->stream, PLAIT_CUDA_KERNEL_plait_optim_trust, 1, a);
    if (why == NULL && updates)
        why = plait_cuda_why(plait_cuda.copy_async((cu_address)(uintptr_t)p->seen, (cu_address)(uintptr_t)a->result,
                                                   sizeof *p->seen, q->stream),
                             "cuMemcpyAsync");
    return why == NULL && updates ? over_pieces(q, PLAIT_CUDA_KERNEL_plait_optim_update, a) : why;
}

const char *plait_cuda_step(struct plait_queue *q, const struct plait_stepper *p, const struct plait_stepping *s)
{
    struct plait_cuda_optim a = p->a;
    const char *why;

    a.step = (struct plait_cuda_step){ s->step->lr, s->step->factor, s->step->decay };
    a.call = s->call;
    a.nrank = s->nrank;
    a.what = (s->sums ? PLAIT_CUDA_ADD : 0) | (s->updates ? PLAIT_CUDA_TRUST : 0);
    ENTERED(q->gpu, true, why = put(q, p, &a));
    return why;
}

uint32_t plait_cuda_stepped(const struct plait_stepper *p, struct plait_optim_result *result)
{
    if (result != NULL)
        *result = (struct plait_optim_result){ p->seen->finite != 0, p->seen->norm };
    return __atomic_load_n(&p->seen->ndiffer, __ATOMIC_RELAXED);
}
