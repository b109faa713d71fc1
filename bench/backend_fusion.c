/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions of one rank of Plait, one for each row of a cell, so that each keeps its state. */
#include "backend_plait.h"

#include <plait/fusion.h>
#include <plait/memory.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fused {
    struct step step;
    struct plait_fusion *fusion;
};

static void *alloc(void *self, size_t bytes)
{
    void *memory = NULL;

    (void)self;
    return plait_mem_alloc(bytes, &memory) == PLAIT_OK ? memory : NULL;
}

static void release(void *self, void *memory)
{
    (void)self;
    plait_mem_free(memory);
}

static void forget(void *self)
{
    struct plait_rank *r = self;

    for (uint32_t i = 0; i < r->nfused; i++)
        plait_fusion_destroy(r->fused[i].fusion);
    free(r->fused);
    r->fused = NULL;
    r->nfused = 0;
    r->fusion = NULL;
}

/* The progress thread may run on any processor, like that of backend.thread. */
static enum plait_status create(struct plait_rank *r, const struct plait_fusion_options *o, struct plait_fusion **out)
{
    sched_setaffinity(0, sizeof r->allowed, &r->allowed);
    const enum plait_status status = plait_fusion_create(r->comm, o, out);
    if (r->pinned)
        worker_pin(r->rank);
    return status;
}

/* Only with a computation is there a progress thread; without, it would compete with the waiting rank. */
static enum plait_status create_for(struct plait_rank *r, const struct step *s, const struct operation *g, uint32_t n,
                                    struct plait_fusion **out)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor *tensors = calloc(n, sizeof *tensors);
    uint64_t *count = calloc(n, sizeof *count);
    uint32_t *cuts = calloc(n, sizeof *cuts);
    char(*names)[32] = calloc(n, sizeof *names);
    enum plait_status status = PLAIT_ERR_NOMEM;

    if (tensors == NULL || count == NULL || cuts == NULL || names == NULL)
        goto out;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "tensor %u", g[i].tensor);
        count[i] = g[i].count;
        tensors[i] = (struct plait_tensor){ names[i], g[i].count, g[i].type, s->own ? g[i].out : NULL };
    }
    o.name = "plait-perf";
    o.tensors = tensors;
    o.ntensor = n;
    o.payload = s->payload == (uint32_t)g->type ? PLAIT_NDTYPE : (enum plait_dtype)s->payload;
    o.round = r->call.round;
    o.reproducible = r->reproducible;
    o.algorithm = r->call.algorithm;
    o.progress = s->seconds > 0;
    o.trace = (int)s->traced;
    layout_make(&s->layout, count, n, plait_dtype_size((enum plait_dtype)s->payload), cuts, &o.layout);
    status = create(r, &o, out);
out:
    free(tensors);
    free(count);
    free(cuts);
    free(names);
    return status;
}

static bool equal(const struct step *a, const struct step *b)
{
    return memcmp(&a->layout, &b->layout, sizeof a->layout) == 0 && a->payload == b->payload && a->own == b->own &&
           a->traced == b->traced && a->seconds == b->seconds;
}

static struct fused *find(const struct plait_rank *r, const struct step *s)
{
    for (uint32_t i = 0; i < r->nfused; i++)
        if (equal(&r->fused[i].step, s))
            return &r->fused[i];
    return NULL;
}

static bool fuse(void *self, const struct step *s, struct operation *g, uint32_t n)
{
    struct plait_rank *r = self;
    const struct fused *known = find(r, s);

    if (known == NULL) {
        struct fused *grown = realloc(r->fused, (r->nfused + 1) * sizeof *grown);
        if (grown == NULL)
            return false;
        r->fused = grown;
        if (create_for(r, s, g, n, &grown[r->nfused].fusion) != PLAIT_OK)
            return false;
        grown[r->nfused].step = *s;
        known = &grown[r->nfused++];
    }
    r->fusion = known->fusion;
    for (uint32_t i = 0; i < n; i++)
        g[i].in = g[i].out = plait_fusion_data(r->fusion, i);
    return true;
}

static bool ready(void *self, uint32_t tensor)
{
    return plait_fusion_ready(((struct plait_rank *)self)->fusion, tensor) == PLAIT_OK;
}

static bool finish(void *self)
{
    return plait_fusion_wait_all(((struct plait_rank *)self)->fusion, NULL) == PLAIT_OK;
}

static void figures(void *self, bool fused, struct step_figures *out)
{
    const struct plait_rank *r = self;
    struct plait_comm_stats stats;
    struct plait_fusion_times times = { 0 };

    plait_comm_stats(fused ? plait_fusion_comm(r->fusion) : r->comm, &stats);
    if (fused)
        plait_fusion_times(r->fusion, &times);
    *out = (struct step_figures){ .bytes = stats.bytes_sent,
                                  .messages = stats.messages,
                                  .nbucket = fused ? plait_fusion_nbucket(r->fusion) : 0,
                                  .communicating = times.communicating,
                                  .hidden = times.hidden };
}

static bool timeline(void *self, const char *path)
{
    return plait_fusion_trace(((struct plait_rank *)self)->fusion, path) == PLAIT_OK;
}

const struct fuser plait_fuser = {
    .alloc = alloc,
    .free = release,
    .fuse = fuse,
    .forget = forget,
    .ready = ready,
    .finish = finish,
    .figures = figures,
    .timeline = timeline,
};
