/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All workers exchange together, with persistent collectives on one comm. The steps of an exchange are
 *
 *     broadcast   sync1: the master's centre
 *     reduce      the sum of weights or of rounded differences: to the master, or to all
 *     update      of the weights, and of this rank's centre; sync2 updates each slice as it arrives
 */
#include "elastic.h"

#include <plait/memory.h>

#include <string.h>

static bool overlaps(const struct plait_elastic *e)
{
    return e->options.mode == PLAIT_ELASTIC_SYNC3;
}

/* ---- Preparation ------------------------------------------------------------------------------------------- */

static enum plait_status allocate(struct plait_elastic *e)
{
    const size_t size = plait_dtype_size(e->options.payload);
    void *centre = NULL;
    enum plait_status status = plait_mem_alloc(e->count * sizeof(float), &centre);

    e->own.count = e->options.mode == PLAIT_ELASTIC_SYNC1 && e->rank > 0 ? 0 : e->count;
    e->centre = centre;
    if (status == PLAIT_OK && e->own.count > 0)
        status = plait_mem_alloc(e->count * size, &e->sums);
    if (status == PLAIT_OK && e->options.payload != PLAIT_FLOAT32)
        status = plait_mem_alloc(e->count * size, &e->differences);
    return status;
}

static enum plait_status bind_all(struct plait_elastic *e)
{
    const void *in = e->differences != NULL ? e->differences : e->weights;
    const enum plait_dtype type = e->options.payload;
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = e->options.algorithm;
    call.reproducible = e->options.reproducible != 0;
    call.persistent = 1;
    call.request = &e->reduce;
    if (e->options.mode != PLAIT_ELASTIC_SYNC1)
        return plait_allreduce(e->comm, in, e->sums, e->count, type, PLAIT_SUM, &call);
    call.algorithm = "binomial";
    const enum plait_status status = plait_reduce(e->comm, in, e->sums, e->count, type, PLAIT_SUM, 0, &call);
    call.request = &e->broadcast;
    return status == PLAIT_OK ? plait_broadcast(e->comm, e->centre, e->centre, e->count, PLAIT_FLOAT32, 0, &call)
                              : status;
}

/* ---- Work on each slice ------------------------------------------------------------------------------------ */

static void subtract(void *elastic, size_t start, size_t n)
{
    struct plait_elastic *e = elastic;
    const enum plait_dtype payload = e->options.payload;

    plait_elastic_subtract(e->kernels, payload, (char *)e->differences + start * plait_dtype_size(payload),
                           e->weights + start, e->centre + start, n, e->nworker);
}

/* Update n weights from element `start` on, and the centre if this rank keeps it. */
static void update(void *elastic, size_t start, size_t n)
{
    struct plait_elastic *e = elastic;
    const struct plait_kernels *k = e->kernels;
    const enum plait_dtype payload = e->options.payload;
    const size_t size = plait_dtype_size(payload);
    const char *sums = (char *)e->sums + plait_slice_place(e->reduce->job.o, &e->reduce->job.work, start) * size;
    float *w = e->weights + start, *c = e->centre + start;

    if (e->differences == NULL) {
        const float *s = e->own.count > 0 ? (const float *)(const void *)sums : NULL;
        plait_elastic_meet(w, c, s, n, e->pull, (float)e->nworker);
        return;
    }
    plait_elastic_add(k, payload, w, (char *)e->differences + start * size, n, -e->pull);
    if (e->own.count > 0)
        plait_elastic_add(k, payload, c, sums, n, e->pull);
}

/* Work on a slice overlaps with slices in flight. Not in sync3: weights are in use then. sync1 is as in the paper. */
static bool subtracts_slices(const struct plait_elastic *e)
{
    return e->differences != NULL && e->options.mode != PLAIT_ELASTIC_SYNC1;
}

static bool updates_slices(const struct plait_elastic *e)
{
    return e->options.mode == PLAIT_ELASTIC_SYNC2;
}

static enum plait_status prepare(struct plait_elastic *e)
{
    enum plait_status status = overlaps(e) ? plait_object_drive(e->comm) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = allocate(e);
    if (status == PLAIT_OK)
        status = bind_all(e);
    if (status == PLAIT_OK)
        e->reduce->job.work = (struct plait_slice_work){ subtracts_slices(e) ? subtract : NULL,
                                                         updates_slices(e) ? update : NULL, e, updates_slices(e) };
    return plait_object_fail(e->comm, status);
}

/* ---- Exchanges --------------------------------------------------------------------------------------------- */

static enum plait_status begin(struct plait_elastic *e)
{
    if (e->broadcast != NULL) {
        const enum plait_status status = plait_run_again(e->broadcast);
        if (status != PLAIT_OK)
            return status;
    }
    if (e->differences != NULL && !subtracts_slices(e))
        subtract(e, 0, e->count);
    return plait_start(e->reduce);
}

static enum plait_status start(struct plait_elastic *e)
{
    return overlaps(e) ? begin(e) : PLAIT_OK;
}

static enum plait_status finish(struct plait_elastic *e)
{
    const struct plait_elastic_options *o = &e->options;

    e->counts.pull = o->rho > 0 ? o->lr * o->rho : o->beta / e->nworker;
    e->pull = (float)e->counts.pull;
    enum plait_status status = overlaps(e) ? PLAIT_OK : begin(e);
    if (status == PLAIT_OK)
        status = plait_wait(&e->reduce);
    if (status == PLAIT_OK && !updates_slices(e))
        update(e, 0, e->count);
    return status;
}

static enum plait_status read_centre(struct plait_elastic *e, float *out)
{
    const enum plait_status status = e->broadcast != NULL ? plait_run_again(e->broadcast) : PLAIT_OK;

    if (status == PLAIT_OK)
        memcpy(out, e->centre, e->count * sizeof(float));
    return status;
}

static void leave(struct plait_elastic *e)
{
    plait_object_drop(&e->broadcast);
    plait_object_drop(&e->reduce);
}

const struct plait_exchanger plait_elastic_sync = { prepare, start, finish, read_centre, leave };
