/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion.h"

#include "base/bytes.h"
#include "base/status.h"

#include <stdlib.h>

/* The type in which a tensor is sent. */
static enum plait_dtype payload_of(const struct plait_tensor *tensor, enum plait_dtype payload)
{
    return payload != PLAIT_NDTYPE && tensor->type == PLAIT_FLOAT32 ? payload : tensor->type;
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- Groups: one bucket for each type in a group ---------------------------------------------------------- */

struct grouping {
    const struct plait_layout *layout;
    uint32_t group;              /* of the last tensor, with cuts or cubic */
    uint32_t open[PLAIT_NDTYPE]; /* the bucket of each type that takes more tensors; or PLAIT_NOTHING */
};

static void close_all(struct grouping *g)
{
    for (uint32_t i = 0; i < PLAIT_NDTYPE; i++)
        g->open[i] = PLAIT_NOTHING;
}

/* The first tensor of the next group. */
static uint32_t next_cut(const struct grouping *g)
{
    const uint64_t n = g->group + 1;

    if (g->layout->rule == PLAIT_LAYOUT_CUBIC)
        return 3 * n * n * n < PLAIT_NOTHING ? (uint32_t)(3 * n * n * n) : PLAIT_NOTHING;
    return g->group < g->layout->ncut ? g->layout->cuts[g->group] : PLAIT_NOTHING;
}

static uint32_t add_bucket(struct plait_flat *flat, enum plait_dtype type, uint32_t tensor)
{
    flat->buckets[flat->nbucket] = (struct plait_slab){ .type = type, .first = tensor };
    return flat->nbucket++;
}

/* The bucket that takes this tensor. */
static uint32_t choose(struct grouping *g, struct plait_flat *flat, uint32_t tensor, enum plait_dtype type,
                       size_t bytes)
{
    const bool by_size = g->layout->rule == PLAIT_LAYOUT_THRESHOLD;

    for (; !by_size && tensor >= next_cut(g); g->group++)
        close_all(g);
    if (by_size && bytes >= g->layout->threshold)
        return add_bucket(flat, type, tensor);
    if (g->open[type] == PLAIT_NOTHING)
        g->open[type] = add_bucket(flat, type, tensor);
    const uint32_t b = g->open[type];
    if (by_size && flat->buckets[b].count * plait_dtype_size(type) + bytes >= g->layout->threshold)
        g->open[type] = PLAIT_NOTHING;
    return b;
}

/* ---- Order ------------------------------------------------------------------------------------------------ */

static int by_last(const void *a, const void *b)
{
    const struct plait_slab *x = a, *y = b;
    return x->last < y->last ? -1 : x->last > y->last;
}

/* Sort buckets by last tensor: in this order they become complete. Meanwhile the last tensor identifies a bucket. */
static void order(struct plait_flat *flat, uint32_t ntensor)
{
    uint32_t b = flat->nbucket;

    for (uint32_t t = 0; t < ntensor; t++)
        flat->places[t].bucket = flat->buckets[flat->places[t].bucket].last;
    qsort(flat->buckets, flat->nbucket, sizeof *flat->buckets, by_last);
    for (uint32_t t = ntensor; t-- > 0;) {
        const uint32_t last = flat->places[t].bucket;
        flat->places[t].bucket = last == t ? --b : flat->places[last].bucket;
    }
}

enum plait_status plait_flat_make(const struct plait_tensor *tensors, uint32_t ntensor,
                                  const struct plait_layout *layout, enum plait_dtype payload, uint32_t nshard,
                                  struct plait_flat *out)
{
    struct grouping g = { .layout = layout };
    size_t all = 0;

    *out = (struct plait_flat){ .buckets = calloc(ntensor, sizeof *out->buckets),
                                .places = calloc(ntensor, sizeof *out->places) };
    if (out->buckets == NULL || out->places == NULL)
        return plait_fail_memory("out of memory for the layout of %u tensors", ntensor);
    close_all(&g);
    for (uint32_t t = 0; t < ntensor; t++) {
        const enum plait_dtype type = payload_of(&tensors[t], payload);
        const size_t size = plait_dtype_size(type);
        const uint32_t b = choose(&g, out, t, type, tensors[t].count * size);
        struct plait_slab *bucket = &out->buckets[b];
        out->places[t] = (struct plait_place){ b, PLAIT_NOTHING, PLAIT_NOTHING, bucket->count };
        if (bucket->ntensor > 0)
            out->places[bucket->last].next = t;
        bucket->count += round_up(tensors[t].count, PLAIT_FUSION_ALIGN / size);
        if ((all += tensors[t].count * size) > PLAIT_MOST_BYTES)
            return plait_fail(PLAIT_ERR_ARG, "plait_fusion: the tensors up to %u '%s' are more than fits in memory", t,
                              tensors[t].name);
        bucket->last = t;
        bucket->ntensor++;
    }
    order(out, ntensor);
    for (uint32_t b = 0; b < out->nbucket; b++) {
        struct plait_slab *bucket = &out->buckets[b];
        const size_t size = plait_dtype_size(bucket->type);
        bucket->count = nshard == 1 && bucket->ntensor == 1
                            ? tensors[bucket->first].count
                            : round_up(bucket->count, nshard * PLAIT_FUSION_ALIGN / size);
        out->bytes += bucket->count * size;
    }
    return PLAIT_OK;
}

void plait_flat_free(struct plait_flat *flat)
{
    free(flat->buckets);
    free(flat->places);
}
