/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"

#include "values.h"

#include <stdlib.h>
#include <string.h>

const enum plait_coll collectives[NCOLLECTIVE] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_BROADCAST, PLAIT_REDUCE,
                                                   PLAIT_GATHER,         PLAIT_SCATTER,   PLAIT_ALLTOALL };

const enum plait_coll sized_collectives[NSIZED] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_GATHER, PLAIT_SCATTER,
                                                    PLAIT_ALLTOALL };

/* ---- Sizes --------------------------------------------------------------------------------------------- */

size_t collective_block(const struct collective *c, uint32_t blk)
{
    uint32_t h = c->sizes * 0x9e3779b9u ^ (blk + 1) * 0x85ebca6bu;

    h = (h ^ h >> 16) * 0x7feb352du;
    h ^= h >> 15;
    return c->sizes == 0 ? c->count : h % 4 == 0 ? 0 : h / 4 % (c->count + 1);
}

static bool is_vector(const struct collective *c)
{
    return plait_geometry_of(c->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
}

static uint32_t block_of(const struct plait_side *side, uint32_t slot)
{
    return side->blk + slot * side->stride;
}

/* Where a slot starts; where blocks differ in size, an element lies between them. */
static size_t start_of(const struct collective *c, const struct plait_side *side, uint32_t slot)
{
    size_t at = 0;

    for (uint32_t i = 0; i < slot; i++)
        at += collective_block(c, block_of(side, i)) + (c->sizes != 0);
    return at;
}

size_t collective_elements(const struct collective *c, const struct plait_side *side)
{
    if (is_vector(c))
        return side->nslot > 0 ? c->count : 0;
    return start_of(c, side, side->nslot);
}

size_t collective_room(const struct collective *c, uint32_t nrank)
{
    size_t most = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, r, 1);
        const size_t in = collective_elements(c, &g.in), out = collective_elements(c, &g.out);
        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    return most;
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static enum plait_status run_equal(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                                   const struct plait_call *call)
{
    switch (c->coll) {
    case PLAIT_BARRIER:
        return plait_barrier(comm, call);
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, in, out, c->count, c->type, c->op, call);
    case PLAIT_ALLGATHER:
        return plait_allgather(comm, in, out, c->count, c->type, call);
    case PLAIT_BROADCAST:
        return plait_broadcast(comm, in, out, c->count, c->type, c->root, call);
    case PLAIT_REDUCE:
        return plait_reduce(comm, in, out, c->count, c->type, c->op, c->root, call);
    case PLAIT_GATHER:
        return plait_gather(comm, in, out, c->count, c->type, c->root, call);
    case PLAIT_SCATTER:
        return plait_scatter(comm, in, out, c->count, c->type, c->root, call);
    case PLAIT_ALLTOALL:
        return plait_alltoall(comm, in, out, c->count, c->type, call);
    default:
        return plait_allreduce(comm, in, out, c->count, c->type, c->op, call);
    }
}

struct sizes { /* of a side */
    size_t counts[COLLECTIVE_RANKS], starts[COLLECTIVE_RANKS];
};

static struct sizes sizes_of(const struct collective *c, const struct plait_side *side)
{
    struct sizes s;

    for (uint32_t i = 0; i < side->nslot; i++) {
        const uint32_t blk = block_of(side, i);
        s.counts[i] = collective_block(c, blk) + (c->odd == blk + 1);
        s.starts[i] = start_of(c, side, i);
    }
    return s;
}

static enum plait_status run_sized(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                                   const struct plait_call *call)
{
    const struct plait_geometry g =
        plait_geometry_of(c->coll, plait_comm_nrank(comm), c->root, plait_comm_rank(comm), 1);
    const struct sizes i = sizes_of(c, &g.in), o = sizes_of(c, &g.out);

    switch (c->coll) {
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatterv(comm, in, out, i.counts, i.starts, c->type, c->op, call);
    case PLAIT_ALLGATHER:
        return plait_allgatherv(comm, in, out, o.counts, o.starts, c->type, call);
    case PLAIT_GATHER:
        return plait_gatherv(comm, in, i.counts[0], out, g.out.nslot > 0 ? o.counts : NULL, o.starts, c->type, c->root,
                             call);
    case PLAIT_SCATTER:
        return plait_scatterv(comm, in, g.in.nslot > 0 ? i.counts : NULL, i.starts, out, o.counts[0], c->type, c->root,
                              call);
    case PLAIT_ALLTOALL:
        return plait_alltoallv(comm, in, i.counts, i.starts, out, o.counts, o.starts, c->type, call);
    default:
        abort(); /* has no such form */
    }
}

static enum plait_status run(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                             const struct plait_call *call)
{
    return (c->sizes != 0 ? run_sized : run_equal)(comm, c, in, out, call);
}

enum plait_status collective_call(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                                  struct plait_call call)
{
    call.algorithm = c->spec[0] != '\0' ? c->spec : NULL;
    call.slice = c->slice;
    call.round = c->round;
    return run(comm, c, in, out, &call);
}

enum plait_status collective_run(struct plait_comm *comm, const struct collective *c, const void *in, void *out)
{
    const struct plait_call call = PLAIT_CALL_DEFAULT;
    const bool plain = c->spec[0] == '\0' && c->slice == 0 && c->round == PLAIT_ROUND_DEFAULT;

    return plain ? run(comm, c, in, out, NULL) : collective_call(comm, c, in, out, call);
}

/* ---- Values -------------------------------------------------------------------------------------------- */

bool collective_is_inplace(const struct collective *c, uint32_t rank)
{
    return c->inplace && !(c->mixed && rank % 2 == 1);
}

struct collective_buffers collective_place(const struct collective *c, uint32_t nrank, uint32_t rank, char *in,
                                           char *out)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    const size_t size = plait_dtype_size(c->type);
    struct collective_buffers b = { g.in.nslot > 0 ? in : NULL, g.out.nslot > 0 ? out : NULL };

    if (!collective_is_inplace(c, rank) || b.in == NULL || b.out == NULL)
        return b;
    if (is_vector(c))
        b.in = out;
    else if (g.in.nslot > g.out.nslot)
        b.out = in + start_of(c, &g.in, rank) * size;
    else
        b.in = out + (g.in.nslot < g.out.nslot ? start_of(c, &g.out, rank) * size : 0);
    return b;
}

void collective_fill(const struct collective *c, uint32_t nrank, uint32_t rank, void *in)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);

    values_fill(in, c->type, c->op, nrank, rank, collective_elements(c, &g.in));
}

void collective_want(const struct collective *c, uint32_t nrank, uint32_t rank, char *scratch, char *out)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    const size_t size = plait_dtype_size(c->type);
    uint32_t filled = UINT32_MAX;

    if (is_vector(c) && g.out.nslot > 0 && g.combines)
        values_want(out, c->type, c->op, nrank, c->count);
    else if (is_vector(c) && g.out.nslot > 0)
        values_fill(out, c->type, c->op, nrank, c->root, c->count);
    for (uint32_t i = 0; !is_vector(c) && i < g.out.nslot; i++) {
        const uint32_t blk = block_of(&g.out, i);
        const uint32_t from = g.combines ? rank : plait_block_source(c->coll, nrank, c->root, blk);
        const struct plait_geometry source = plait_geometry_of(c->coll, nrank, c->root, from, 1);
        if (from != filled && g.combines)
            values_want(scratch, c->type, c->op, nrank, collective_elements(c, &source.in));
        else if (from != filled)
            collective_fill(c, nrank, from, scratch);
        filled = from;
        const size_t at = start_of(c, &source.in, plait_side_slot(&source.in, blk));
        memcpy(out + start_of(c, &g.out, i) * size, scratch + at * size, collective_block(c, blk) * size);
    }
}

bool collective_right(const struct collective *c, uint32_t nrank, uint32_t rank, const char *out, const char *want)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    const size_t size = plait_dtype_size(c->type);

    if (is_vector(c))
        return g.out.nslot == 0 || c->count == 0 || memcmp(out, want, c->count * size) == 0;
    for (uint32_t i = 0; i < g.out.nslot; i++) {
        const size_t at = start_of(c, &g.out, i) * size, bytes = collective_block(c, block_of(&g.out, i)) * size;
        if (bytes > 0 && memcmp(out + at, want + at, bytes) != 0)
            return false;
    }
    return true;
}
