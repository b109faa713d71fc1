/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All workers exchange together, with persistent collectives on one comm. The steps of an exchange are
 *
 *     broadcast   sync1: the master's centre
 *     reduce      the sum of weights or of rounded differences: to the master, to all, or a shard to each rank
 *     update      of the weights, and of this rank's part of the centre; sync2 updates each slice as it arrives
 *     gather      sharded: the new centre; in sync3 it may overlap with computation until the next exchange
 */
#include "elastic.h"

#include "pass.h"

#include "base/status.h"

#include <plait/memory.h>

#include <stdlib.h>
#include <string.h>

static bool is_sharded(const struct plait_elastic *e)
{
    return e->options.centre == PLAIT_CENTRE_SHARDED;
}

static bool overlaps(const struct plait_elastic *e)
{
    return e->options.mode == PLAIT_ELASTIC_SYNC3;
}

/* ---- Preparation ------------------------------------------------------------------------------------------- */

static enum plait_status allocate(struct plait_elastic *e)
{
    const uint32_t nrank = e->nrank, rank = e->rank;
    const bool narrow = e->options.payload != PLAIT_FLOAT32;
    const size_t size = plait_dtype_size(e->options.payload);
    void *centre = NULL;

    e->own = is_sharded(e)                                        ? plait_elastic_part(e->count, nrank, rank)
             : e->options.mode == PLAIT_ELASTIC_SYNC1 && rank > 0 ? (struct plait_extent){ 0, 0 }
                                                                  : (struct plait_extent){ 0, e->count };
    e->shard_counts = calloc(nrank, sizeof *e->shard_counts);
    if (e->shard_counts == NULL)
        return plait_fail_memory("out of memory for %u ranks", nrank);
    for (uint32_t r = 0; r < nrank; r++)
        e->shard_counts[r] = plait_elastic_part(e->count, nrank, r).count;
    enum plait_status status = plait_mem_alloc(e->count * sizeof(float), &centre);
    e->centre = centre;
    if (status == PLAIT_OK && e->own.count > 0)
        status = plait_mem_alloc(e->own.count * size, &e->sums);
    if (status == PLAIT_OK && narrow)
        status = plait_mem_alloc(e->count * size, &e->differences);
    return status;
}

static struct plait_call bound(const struct plait_elastic *e, const char *algorithm, struct plait_request **request)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = algorithm;
    call.reproducible = e->options.reproducible != 0;
    call.persistent = 1;
    call.request = request;
    return call;
}

static enum plait_status bind_master(struct plait_elastic *e, const void *in, enum plait_dtype type)
{
    struct plait_call call = bound(e, "binomial", &e->broadcast);
    enum plait_status status = plait_broadcast(e->comm, e->centre, e->centre, e->count, PLAIT_FLOAT32, 0, &call);

    call.request = &e->reduce;
    return status == PLAIT_OK ? plait_reduce(e->comm, in, e->sums, e->count, type, PLAIT_SUM, 0, &call) : status;
}

static enum plait_status bind_shards(struct plait_elastic *e, const void *in, enum plait_dtype type)
{
    struct plait_call call = bound(e, e->options.algorithm, &e->reduce);
    enum plait_status status =
        plait_reduce_scatterv(e->comm, in, e->sums, e->shard_counts, NULL, type, PLAIT_SUM, &call);

    call = bound(e, NULL, &e->gather);
    return status == PLAIT_OK ? plait_allgatherv(e->comm, e->centre + e->own.start, e->centre, e->shard_counts, NULL,
                                                 PLAIT_FLOAT32, &call)
                              : status;
}

static enum plait_status bind_all(struct plait_elastic *e)
{
    const void *in = e->differences != NULL ? e->differences : e->weights;
    struct plait_call call = bound(e, e->options.algorithm, &e->reduce);

    if (e->options.mode == PLAIT_ELASTIC_SYNC1)
        return bind_master(e, in, e->options.payload);
    if (is_sharded(e))
        return bind_shards(e, in, e->options.payload);
    return plait_allreduce(e->comm, in, e->sums, e->count, e->options.payload, PLAIT_SUM, &call);
}

/* ---- Work on each slice ------------------------------------------------------------------------------------ */

static void subtract(void *elastic, size_t start, size_t n)
{
    struct plait_elastic *e = elastic;
    const enum plait_dtype payload = e->options.payload;

    plait_elastic_subtract(e->kernels, payload, (char *)e->differences + start * plait_dtype_size(payload),
                           e->weights + start, e->centre + start, n, e->nworker);
}

/* Update n weights. If this rank keeps that part of the centre, `sums` is not NULL and the centre is updated, too. */
static void update_part(struct plait_elastic *e, size_t start, size_t n, const char *sums)
{
    const struct plait_kernels *k = e->kernels;
    const enum plait_dtype payload = e->options.payload;
    float *w = e->weights + start, *c = e->centre + start;

    if (e->differences == NULL && sums == NULL)
        plait_elastic_pull(w, c, n, e->pull);
    else if (e->differences == NULL)
        plait_elastic_meet(w, c, (const float *)(const void *)sums, n, e->pull, (float)e->nworker);
    else
        plait_elastic_add(k, payload, w, (char *)e->differences + start * plait_dtype_size(payload), n, -e->pull);
    if (e->differences != NULL && sums != NULL)
        plait_elastic_add(k, payload, c, sums, n, e->pull);
}

/* Update elements [start, start + n) of the vector, or of every rank's shard. */
static void update(void *elastic, size_t start, size_t n)
{
    struct plait_elastic *e = elastic;
    const uint32_t nblock = is_sharded(e) ? e->nrank : 1;
    const size_t size = plait_dtype_size(e->options.payload);
    const char *sums = (char *)e->sums + plait_object_sums_at(e->reduce, start) * size;

    for (uint32_t b = 0; b < nblock; b++) {
        const struct plait_extent block = plait_elastic_part(e->count, nblock, b);
        const bool own = nblock > 1 ? b == e->rank : e->own.count > 0;
        const size_t left = block.count > start ? block.count - start : 0;
        update_part(e, block.start + start, left < n ? left : n, own ? sums : NULL);
    }
}

/* Overlap work on a slice with slices in flight. Not in sync3: weights are in use then. sync1 is as in the paper. */
static void bind_work(struct plait_elastic *e)
{
    const enum plait_elastic_mode mode = e->options.mode;

    e->subtracts = e->differences != NULL && mode != PLAIT_ELASTIC_SYNC1;
    e->updates_slices = mode == PLAIT_ELASTIC_SYNC2;
    plait_object_overlap(e->reduce, e, e->subtracts ? subtract : NULL, e->updates_slices ? update : NULL);
}

static enum plait_status prepare(struct plait_elastic *e)
{
    enum plait_status status = overlaps(e) ? plait_object_drive(e->comm) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = allocate(e);
    if (status == PLAIT_OK)
        status = bind_all(e);
    if (status == PLAIT_OK)
        bind_work(e);
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
    if (e->differences != NULL && !e->subtracts)
        subtract(e, 0, e->count);
    return plait_start(e->reduce);
}

/* Wait for the last all-gather of the centre. */
static enum plait_status end_gather(struct plait_elastic *e)
{
    if (!e->gathering)
        return PLAIT_OK;
    e->gathering = false;
    return plait_wait(&e->gather);
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
    if (status == PLAIT_OK)
        status = end_gather(e);
    if (status != PLAIT_OK)
        return status;
    if (!e->updates_slices)
        update(e, 0, e->count);
    if (e->gather == NULL)
        return PLAIT_OK;
    status = plait_start(e->gather);
    e->gathering = status == PLAIT_OK;
    return status == PLAIT_OK && !overlaps(e) ? end_gather(e) : status;
}

static enum plait_status read_centre(struct plait_elastic *e, float *out)
{
    enum plait_status status = end_gather(e);

    if (status == PLAIT_OK && e->broadcast != NULL)
        status = plait_run_again(e->broadcast);
    if (status == PLAIT_OK)
        memcpy(out, e->centre, e->count * sizeof(float));
    return status;
}

static void leave(struct plait_elastic *e)
{
    plait_object_drop(&e->broadcast);
    plait_object_drop(&e->reduce);
    plait_object_drop(&e->gather);
}

const struct plait_exchanger plait_elastic_sync = { prepare, start, finish, read_centre, leave };
