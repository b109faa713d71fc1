/* SPDX-License-Identifier: BSD-3-Clause */
#include "training.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static void forget(struct training *t)
{
    const struct fuser *f = t->backend->fuser;

    if (t->flat != NULL && f != NULL)
        f->free(t->self, t->flat);
    else if (t->flat != NULL)
        t->backend->free(t->self, t->flat);
    if (t->flat_own != NULL)
        t->backend->free(t->self, t->flat_own);
    t->flat = t->flat_own = NULL;
    t->flat_bytes = 0;
    if (f != NULL)
        f->forget(t->self);
}

void training_finish(struct training *t)
{
    if (t->backend != NULL)
        forget(t);
}

static void reverse(struct operation *o, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        const struct operation swap = o[i];
        o[i] = o[n - 1 - i];
        o[n - 1 - i] = swap;
    }
}

static void *touched(void *memory, size_t bytes)
{
    return memory != NULL ? memset(memory, 0, bytes) : NULL;
}

static bool arrange_flat(struct training *t, struct operation *o, uint32_t *n)
{
    const struct fuser *f = t->backend->fuser;
    const size_t bytes = t->total * plait_dtype_size(PLAIT_FLOAT32); /* the widest payload type */

    if (t->flat == NULL) {
        t->flat = touched(f != NULL ? f->alloc(t->self, bytes) : t->backend->alloc(t->self, bytes), bytes);
        t->flat_bytes = bytes;
    }
    if (t->step.own && t->flat_own == NULL)
        t->flat_own = touched(t->backend->alloc(t->self, bytes), bytes);
    o->in = o->out = t->step.own ? t->flat_own : t->flat;
    o->count = t->total;
    *n = 1;
    return t->flat != NULL && o->in != NULL;
}

bool training_arrange(struct training *t, const struct step *s, struct operation *o, uint32_t *n)
{
    if (s->cell != t->step.cell)
        forget(t);
    t->step = *s;
    t->total = 0;
    for (uint32_t i = 0; i < *n; i++)
        t->total += o[i].count;
    reverse(o, *n);
    if (s->scheme == SCHEME_FLAT)
        return arrange_flat(t, o, n);
    return s->scheme != SCHEME_FUSED || t->backend->fuser->fuse(t->self, s, o, *n);
}

static bool exchange_flat(struct training *t, const struct operation *o)
{
    const size_t bytes = o->count * plait_dtype_size(o->type);
    struct operation flat = *o;

    if (!t->step.own)
        return t->backend->run(t->self, o);
    flat.in = flat.out = t->flat;
    memcpy(t->flat, o->in, bytes);
    if (!t->backend->run(t->self, &flat))
        return false;
    memcpy(o->out, t->flat, bytes);
    return true;
}

/* Gradient i is ready. */
static bool appear(struct training *t, const struct operation *o, uint32_t i)
{
    switch ((enum scheme)t->step.scheme) {
    case SCHEME_UNFUSED:
        return t->backend->run(t->self, o);
    case SCHEME_FLAT:
        return exchange_flat(t, o);
    case SCHEME_FUSED:
        return t->backend->fuser->ready(t->self, i);
    default:
        return true;
    }
}

bool training_before(const struct training *t)
{
    const struct fuser *f = t->backend->fuser;

    return t->step.scheme != SCHEME_FUSED || f->before == NULL || f->before(t->self);
}

bool training_averages(const struct training *t)
{
    return t->step.scheme == SCHEME_FUSED && t->backend->fuser->averages;
}

/* The computation is modelled as on another device: it goes on while this rank waits for an exchange. */
bool training_step(struct training *t, const struct operation *o, uint32_t n)
{
    const double begin = t->step.seconds > 0 ? plait_clock() : 0;
    uint64_t done = 0;

    if (t->step.scheme == SCHEME_FUSED && t->backend->fuser->step != NULL)
        return t->backend->fuser->step(t->self);
    for (uint32_t i = 0; i < n; i++) {
        done += o[i].count;
        if (t->step.seconds > 0)
            compute_sleep_until(begin + t->step.seconds * (double)done / (double)t->total);
        if (!appear(t, &o[i], i))
            return false;
    }
    return t->step.scheme != SCHEME_FUSED || t->backend->fuser->finish(t->self);
}
