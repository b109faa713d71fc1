/* SPDX-License-Identifier: BSD-3-Clause */
/* What a layout needs: memory of the buckets, their persistent operations, this rank's pieces. */
#include "fusion.h"

#include "base/status.h"

#include <plait/coll.h>
#include <plait/memory.h>

#include <stdlib.h>

/* ---- Memory -------------------------------------------------------------------- */

/* Before cut_pieces(). */
static bool lives_in_bucket(const struct plait_fusion *f, uint32_t tensor)
{
    return f->tensors[tensor].data == NULL;
}

static bool has_payload_type(const struct plait_fusion *f, uint32_t tensor)
{
    return f->tensors[tensor].type == f->flat.buckets[f->flat.places[tensor].bucket].type;
}

/* A tensor alone in its bucket, of the payload's type, is sent from the caller's memory; else NULL. */
static char *travels_from(const struct plait_fusion *f, uint32_t k)
{
    const struct plait_slab *s = &f->flat.buckets[k];

    return s->ntensor == 1 && !f->options.sharded && has_payload_type(f, s->first) ? f->tensors[s->first].data : NULL;
}

/* Bytes for gradients that live in this bucket in another type than its payload. */
static size_t gradient_bytes(const struct plait_fusion *f, uint32_t k)
{
    const struct plait_slab *s = &f->flat.buckets[k];

    for (uint32_t t = s->first; t != PLAIT_NOTHING; t = f->flat.places[t].next)
        if (lives_in_bucket(f, t) && !has_payload_type(f, t))
            return s->count * plait_dtype_size(f->tensors[t].type);
    return 0;
}

/* Take the next bytes of the fusion's memory; NULL for 0 bytes. If memory is NULL, only count them. */
static char *cut_off(char *memory, size_t *at, size_t bytes)
{
    char *start = memory != NULL && bytes > 0 ? memory + *at : NULL;

    *at += (bytes + PLAIT_FUSION_ALIGN - 1) / PLAIT_FUSION_ALIGN * PLAIT_FUSION_ALIGN;
    return start;
}

/* Assign the buckets' memory; return the bytes of all. */
static size_t place_buckets(struct plait_fusion *f, char *memory)
{
    size_t at = 0;

    for (uint32_t k = 0; k < f->flat.nbucket; k++) {
        const struct plait_slab *s = &f->flat.buckets[k];
        struct plait_bucket *b = &f->buckets[k];
        b->payload = travels_from(f, k);
        if (b->payload == NULL)
            b->payload = cut_off(memory, &at, s->count * plait_dtype_size(s->type));
        b->gradients = cut_off(memory, &at, gradient_bytes(f, k));
        b->weights = cut_off(memory, &at, s->count * plait_dtype_size(f->options.weights));
    }
    return at;
}

static enum plait_status allocate(struct plait_fusion *f)
{
    const uint32_t n = f->flat.nbucket;
    void *memory = NULL;

    f->buckets = calloc(n, sizeof *f->buckets);
    f->pieces = calloc(f->ntensor, sizeof *f->pieces);
    if (f->buckets == NULL || f->pieces == NULL)
        return plait_fail_memory("out of memory for %u buckets", n);
    for (uint32_t k = 0; k < n; k++)
        plait_bucket_open(&f->buckets[k], 0, f->flat.buckets[k].ntensor);
    const size_t bytes = place_buckets(f, NULL);
    enum plait_status status = PLAIT_OK;
    if (bytes > 0)
        status = f->stream != NULL ? plait_mem_alloc_on(plait_device_used()->device_of(f->stream), bytes, &memory)
                                   : plait_mem_alloc(bytes, &memory);
    f->memory = memory;
    place_buckets(f, f->memory);
    return status;
}

/* Where gradients live. A piece is a tensor's part in this rank's share of the bucket: all of it, or its shard. */
static void cut_pieces(struct plait_fusion *f)
{
    for (uint32_t t = 0; t < f->ntensor; t++) {
        struct plait_place *p = &f->flat.places[t];
        const struct plait_bucket *b = &f->buckets[p->bucket];
        const size_t size = plait_dtype_size(f->tensors[t].type);
        const size_t share = f->flat.buckets[p->bucket].count / (f->options.sharded ? f->nrank : 1);
        const size_t first = f->options.sharded ? f->rank * share : 0, end = first + share;
        const size_t from = p->start > first ? p->start : first;
        const size_t to = p->start + f->tensors[t].count < end ? p->start + f->tensors[t].count : end;
        if (lives_in_bucket(f, t))
            f->tensors[t].data = (has_payload_type(f, t) ? b->payload : b->gradients) + p->start * size;
        if (from >= to)
            continue;
        p->piece = f->npiece++;
        struct plait_piece *piece = &f->pieces[p->piece];
        *piece = (struct plait_piece){ .tensor = t, .start = from - p->start, .count = to - from };
        piece->gradient = (char *)f->tensors[t].data + piece->start * size;
        if (f->options.weights != PLAIT_NDTYPE)
            piece->weight = (char *)plait_fusion_weights(f, t) + piece->start * plait_dtype_size(f->options.weights);
    }
}

/* ---- Operations ------------------------------------------------------------------------------------------- */

static enum plait_status bind_bucket(struct plait_fusion *f, uint32_t k)
{
    const struct plait_slab *s = &f->flat.buckets[k];
    const size_t share = s->count / f->nrank, size = plait_dtype_size(f->options.weights);
    char *payload = f->buckets[k].payload, *weights = f->buckets[k].weights;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    enum plait_status status;

    call.algorithm = f->options.algorithm;
    call.round = f->options.round;
    call.reproducible = f->options.reproducible != 0;
    call.persistent = 1;
    call.request = &f->buckets[k].request;
    status = f->options.sharded
                 ? plait_reduce_scatter(f->comm, payload, payload + f->rank * share * plait_dtype_size(s->type), share,
                                        s->type, f->options.op, &call)
                 : plait_allreduce(f->comm, payload, payload, s->count, s->type, f->options.op, &call);
    if (status == PLAIT_OK)
        plait_bind_factor(f->buckets[k].request->job.o, f->out);
    if (status != PLAIT_OK || weights == NULL)
        return status;
    call = (struct plait_call)PLAIT_CALL_DEFAULT;
    call.persistent = 1;
    call.stream = f->options.stream;
    call.request = &f->buckets[k].gather;
    return plait_allgather(f->comm, weights + f->rank * share * size, weights, share, f->options.weights, &call);
}

enum plait_status plait_fusion_make_layout(struct plait_fusion *f, const struct plait_layout *layout)
{
    const uint32_t nshard = f->options.sharded ? f->nrank : 1;
    enum plait_status status = plait_flat_make(f->tensors, f->ntensor, layout, f->options.payload, nshard, &f->flat);

    if (status == PLAIT_OK)
        status = allocate(f);
    if (status != PLAIT_OK)
        return status;
    cut_pieces(f);
    f->streaming = f->flat.bytes > f->comm->cache;
    for (uint32_t k = 0; status == PLAIT_OK && k < f->flat.nbucket; k++)
        status = bind_bucket(f, k);
    return status == PLAIT_OK && f->stream != NULL ? plait_fusion_device_make(f) : status;
}

void plait_fusion_drop_layout(struct plait_fusion *f)
{
    if (f->stream != NULL)
        plait_fusion_device_drop(f);
    for (uint32_t k = 0; f->buckets != NULL && k < f->flat.nbucket; k++) {
        plait_object_drop(&f->buckets[k].request);
        plait_object_drop(&f->buckets[k].gather);
    }
    free(f->buckets);
    plait_flat_free(&f->flat);
    plait_mem_free(f->memory);
    free(f->pieces);
}
