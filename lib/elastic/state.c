/* SPDX-License-Identifier: BSD-3-Clause */
/* The initial centre; saved states. */
#include "elastic.h"

#include "base/status.h"
#include "call/agree.h"

#include <plait/memory.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Header of a state. The centre follows, then momenta if there are any. */
struct head {
    char magic[8];
    uint64_t count, calls, momenta;
    double lr;
};
static const char magic[8] = "elastic1";

enum plait_status plait_elastic_spread(struct plait_elastic *e, const float *from)
{
    void *all = e->centre;

    if (e->nserver > 0) { /* no rank has room for the whole centre */
        const enum plait_status status = plait_mem_alloc(e->count * sizeof(float), &all);
        if (status != PLAIT_OK)
            return plait_object_fail(e->comm, status);
    }
    PLAIT_KNOWN(all != NULL && (e->rank != 0 || from != NULL));
    if (e->rank == 0 && all != from)
        memcpy(all, from, e->count * sizeof(float));
    const enum plait_status status = plait_broadcast(e->comm, all, all, e->count, PLAIT_FLOAT32, 0, NULL);
    if (all != e->centre) {
        if (status == PLAIT_OK && e->serves)
            memcpy(e->centre, (float *)all + e->own.start, e->own.count * sizeof(float));
        if (status == PLAIT_OK)
            plait_barrier(e->comm, NULL); /* no rank reads `all` any more */
        plait_mem_free(all);
    }
    return status;
}

size_t plait_elastic_state(const struct plait_elastic *e)
{
    if (e == NULL || e->serves)
        return 0;
    return sizeof(struct head) + e->count * sizeof(float) * (e->options.momentum > 0 ? 2 : 1);
}

enum plait_status plait_elastic_save(struct plait_elastic *e, void *state)
{
    enum plait_status status = plait_elastic_enter_idle(e, "plait_elastic_save", PLAIT_ELASTIC_WORKER);

    if (status == PLAIT_OK && state == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "plait_elastic_save: state is NULL");
    if (status != PLAIT_OK)
        return status;
    struct head h = { .count = e->count, .calls = e->calls, .momenta = e->options.momentum > 0, .lr = e->options.lr };
    memcpy(h.magic, magic, sizeof magic);
    float *centre = (float *)((char *)state + sizeof h);
    status = plait_elastic_centre(e, centre);
    if (status != PLAIT_OK)
        return status;
    memcpy(state, &h, sizeof h);
    if (h.momenta && e->velocity != NULL)
        memcpy(centre + e->count, e->velocity, e->count * sizeof(float));
    else if (h.momenta)
        memset(centre + e->count, 0, e->count * sizeof(float));
    return PLAIT_OK;
}

static enum plait_status check_new(const struct plait_elastic *e)
{
    return e->begun || e->updates > 0
               ? plait_fail(PLAIT_ERR_ARG, "plait_elastic_restore: %s has exchanged already; restore into a new object",
                            e->name)
               : PLAIT_OK;
}

static enum plait_status check_state(const struct plait_elastic *e, const void *state, size_t bytes, struct head *h)
{
    if (e->serves)
        return PLAIT_OK;
    if (state == NULL || bytes < sizeof *h || memcmp(state, magic, sizeof magic) != 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_restore: state is %s",
                          state == NULL ? "NULL" : "not one of plait_elastic_save()");
    memcpy(h, state, sizeof *h);
    if (h->count != e->count || h->momenta > 1 || bytes != sizeof *h + e->count * sizeof(float) * (1 + h->momenta))
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_elastic_restore: the state has %zu bytes and says %llu weights; %s has %zu", bytes,
                          (unsigned long long)h->count, e->name, e->count);
    if (!(h->lr >= 0 && isfinite(h->lr)))
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_restore: lr is %g in the state; 0 (none) or above is possible",
                          h->lr);
    return PLAIT_OK;
}

static double new_lr(const struct plait_elastic *e, const struct head *h)
{
    return h->lr > 0 ? h->lr : e->options.lr;
}

struct restored {
    const struct plait_elastic *e;
    const struct head *h;
};

/* In sync modes the number of calls must be equal on all ranks, with rho also the pull. */
static void describe(const void *state, struct plait_text *t)
{
    const struct restored *s = state;

    if (s->e->nserver == 0)
        plait_text_add(t, "calls in the state %llu\n", (unsigned long long)s->h->calls);
    if (s->e->nserver == 0 && s->e->options.rho > 0)
        plait_text_add_real(t, "lr of the state", new_lr(s->e, s->h));
}

enum plait_status plait_elastic_restore(struct plait_elastic *e, const void *state, size_t bytes)
{
    struct head h = { .count = 0 };
    float *velocity = NULL;

    enum plait_status status = plait_elastic_enter_idle(e, "plait_elastic_restore", PLAIT_ELASTIC_BOTH);
    if (status != PLAIT_OK)
        return status;
    status = check_new(e);
    if (status != PLAIT_OK && e->nserver > 0) /* the servers are serving: they take no part in plait_all_alike() */
        return status;
    if (status == PLAIT_OK)
        status = check_state(e, state, bytes, &h);
    if (status == PLAIT_OK && h.momenta && e->options.momentum > 0) {
        velocity = malloc(e->count * sizeof(float));
        if (velocity == NULL)
            status = plait_fail_memory("out of memory for momenta of %zu weights", e->count);
    }
    status = plait_all_alike(e->comm, "plait_elastic_restore", e->name, describe, &(struct restored){ e, &h }, status);
    const float *centre = e->serves || status != PLAIT_OK ? NULL : (const float *)((const char *)state + sizeof h);
    if (status == PLAIT_OK)
        status = plait_elastic_spread(e, centre);
    if (status != PLAIT_OK || e->serves) {
        free(velocity);
        return status;
    }
    PLAIT_KNOWN(centre != NULL);
    if (velocity != NULL)
        memcpy(velocity, centre + e->count, e->count * sizeof(float));
    free(e->velocity);
    e->velocity = velocity;
    e->calls = h.calls;
    e->options.lr = new_lr(e, &h);
    return PLAIT_OK;
}
