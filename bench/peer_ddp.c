/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf-ddp.so: one rank of PyTorch as a worker of plait-perf. ddp.py loads it, passes it functions for what only
 * Python can do, and serves commands through it. So neither the build nor this file needs Python or PyTorch.
 */
#include "collectives.h"
#include "worker.h"

#include <stdlib.h>
#include <string.h>

/* Functions of ddp.py, which has the same list. They return false on failure, and `error` says why. */
struct ddp_calls {
    char *error;
    /* Has Gloo this collective of this type and operator? */
    bool (*supports)(const char *coll, const char *type, const char *op);
    /* `count` is that of Plait's function; NULL: this rank has no such buffer. In place, `in` lies in `out`. */
    bool (*run)(const char *coll, const char *type, const char *op, bool inplace, uint32_t root, uint64_t count,
                void *in, void *out);
    /*
     * Prepare steps of tensors in the order in which they appear, or reuse those that were prepared. A step reads [n]
     * gradients of [n] counts at `from`, and leaves averages at [n] `to`, which is written.
     *
     * in_buckets  gradients are views of DDP's buckets; else they are `from`
     * seconds     of computation
     */
    bool (*fuse)(uint32_t n, float *const *from, const uint64_t *count, bool in_buckets, double seconds, float **to);
    bool (*forward)(void);
    bool (*backward)(void);
    uint32_t (*nbucket)(void);
    void (*forget)(void);
};

static const char *op_name(enum plait_op op)
{
    return op == PLAIT_NOP ? "" : plait_op_name(op);
}

static bool supports(void *self, const struct operation *o)
{
    const struct ddp_calls *c = self;

    return c->supports(collective_name(o->coll), plait_dtype_name(o->type), op_name(o->op));
}

static bool run(void *self, const struct operation *o)
{
    const struct ddp_calls *c = self;

    return c->run(collective_name(o->coll), plait_dtype_name(o->type), op_name(o->op), o->inplace, o->root, o->count,
                  o->in, o->out);
}

static const char *error_text(void *self)
{
    return ((const struct ddp_calls *)self)->error;
}

static bool fuse(void *self, const struct step *s, struct operation *g, uint32_t n)
{
    const struct ddp_calls *c = self;
    float **from = calloc(n, sizeof *from), **to = calloc(n, sizeof *to);
    uint64_t *count = calloc(n, sizeof *count);
    bool ok = from != NULL && to != NULL && count != NULL;

    for (uint32_t i = 0; ok && i < n; i++) {
        from[i] = g[i].in;
        count[i] = g[i].count;
    }
    ok = ok && c->fuse(n, from, count, !s->own, s->seconds, to);
    for (uint32_t i = 0; ok && i < n; i++)
        g[i].out = to[i];
    free(from);
    free(to);
    free(count);
    return ok;
}

static void forget(void *self)
{
    ((const struct ddp_calls *)self)->forget();
}

static bool before(void *self)
{
    return ((const struct ddp_calls *)self)->forward();
}

static bool step(void *self)
{
    return ((const struct ddp_calls *)self)->backward();
}

/* What Gloo sends is not counted. */
static void figures(void *self, bool fused, struct step_figures *out)
{
    *out = (struct step_figures){ .nbucket = fused ? ((const struct ddp_calls *)self)->nbucket() : 0 };
}

static const struct fuser fuser = {
    .averages = true,
    .alloc = worker_alloc,
    .free = worker_free,
    .fuse = fuse,
    .forget = forget,
    .before = before,
    .step = step,
    .figures = figures,
};

static const struct backend ddp = {
    .name = "gloo",
    .alloc = worker_alloc,
    .free = worker_free,
    .supports = supports,
    .run = run,
    .error = error_text,
    .fuser = &fuser,
};

/* Called by ddp.py only. Like worker_meet(), then worker_serve(). */
__attribute__((visibility("default"))) bool plait_perf_ddp(const char *where, uint32_t rank, const char *about,
                                                           struct ddp_calls *calls);

bool plait_perf_ddp(const char *where, uint32_t rank, const char *about, struct ddp_calls *calls)
{
    int fd;
    struct stage *stage = worker_meet(where, rank, about, &fd);

    if (stage == NULL)
        return false;
    worker_watch(fd, stage, rank);
    const bool ok = worker_serve(fd, stage, rank, &ddp, calls);
    stage_unmap(stage);
    return ok;
}
