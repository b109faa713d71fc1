/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives of blocks that differ in size. */
#include "call.h"

#include "device_run.h"
#include "devices.h"
#include "run.h"
#include "status.h"

#include <stdlib.h>

/*
 * Where the slots of a side start: the caller's, or one behind the other. Elements that they cover, and the bytes of
 * these: SIZE_MAX: too many.
 */
static size_t place_slots(const size_t *counts, const size_t *starts, uint32_t n, size_t size, size_t *own,
                          const size_t **out, size_t *most, size_t *bytes)
{
    size_t end = 0;

    *bytes = SIZE_MAX;
    *out = starts != NULL ? starts : own;
    for (uint32_t i = 0; i < n; i++) {
        own[i] = end;
        if (counts[i] == 0) /* wherever it starts */
            continue;
        if (counts[i] > PLAIT_MOST_BYTES || (*out)[i] > PLAIT_MOST_BYTES) /* and what follows overflows nowhere */
            return end;
        end = (*out)[i] + counts[i] > end ? (*out)[i] + counts[i] : end;
        *most = counts[i] > *most ? counts[i] : *most;
    }
    if (end * size <= PLAIT_MOST_BYTES)
        *bytes = end * size;
    return end;
}

/* order: [n] scratch. It gets the parts that are not empty as they lie. */
static enum plait_status check_apart(const char *name, const size_t *counts, const size_t *starts, uint32_t n,
                                     size_t *order)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = m;
        if (counts[i] == 0)
            continue;
        for (; k > 0 && starts[order[k - 1]] > starts[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
        m++;
    }
    for (uint32_t k = 1; k < m; k++) {
        const size_t a = order[k - 1], b = order[k];
        if (starts[a] + counts[a] > starts[b])
            return plait_fail(
                PLAIT_ERR_ARG,
                "%sv: parts %zu and %zu of out overlap: elements %zu to %zu and %zu to %zu; they must not", name, a, b,
                starts[a], starts[a] + counts[a] - 1, starts[b], starts[b] + counts[b] - 1);
    }
    return PLAIT_OK;
}

struct sized { /* a side of a call; NULL counts where the rank has no such buffer */
    const size_t *counts, *starts;
};

/* This rank's block of those whose counts all ranks know. */
static struct sized own_of(const struct plait_comm *comm, const size_t *counts)
{
    return (struct sized){ comm != NULL && counts != NULL ? &counts[comm->rank] : NULL, NULL };
}

/* Elements in the largest part that one rank gives another, where all ranks know that; else 0. */
static size_t known_most(const struct plait_comm *comm, const struct plait_geometry *g, uint32_t root,
                         const struct plait_sizes *v)
{
    const uint32_t other = 1 - comm->rank;
    size_t most = 0;

    if (g->kind == PLAIT_KIND_PART && !g->rooted)
        return v->most;
    if (comm->nrank != 2)
        return 0;
    if (g->in.nslot > 0 && !(g->in.nslot == 1 && comm->rank == root))
        most = v->in[g->in.nslot > 1 ? other : 0];
    if (g->out.nslot > 0 && !(g->out.nslot == 1 && comm->rank == root)) {
        const size_t n = v->out[g->out.nslot > 1 ? other : 0];
        most = n > most ? n : most;
    }
    return most;
}

static enum plait_status find(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    return comm->last != NULL && plait_fits(comm->last, a, call) ? PLAIT_OK : plait_bind(comm, a, call);
}

/*
 * The largest part decides whether the operation is tiny; if it is not, its plan is that of parts of any size. So one that
 * has a count is tiny, and the same again is as well.
 */
static enum plait_status choose(struct plait_comm *comm, struct plait_args *a, size_t most, bool again,
                                const struct plait_call *call)
{
    a->count = most;
    if (again && most > 0 && comm->last->selection.tiny && plait_fits_too(comm->last, a))
        return PLAIT_OK;
    if (most > 0 && !plait_may_be_tiny(comm, a->coll, most * plait_dtype_size(a->type), a->queue != NULL))
        a->count = 0;
    const enum plait_status status = find(comm, a, call);
    if (status != PLAIT_OK || a->count == 0 || comm->last->selection.tiny)
        return status;
    a->count = 0; /* the caller asks for an algorithm that is not */
    return find(comm, a, call);
}

/* again: it resembles comm->last. */
static enum plait_status run(struct plait_comm *comm, struct plait_args *a, const struct plait_sizes *sizes, bool again,
                             const struct plait_call *call)
{
    const bool now = !(a->queue != NULL ? plait_device_must_queue(comm, call) : plait_must_queue(comm, call));

    if (!now)
        pthread_mutex_lock(&comm->lock);
    enum plait_status status = choose(comm, a, sizes->known, again && now && a->queue == NULL, call);
    if (status != PLAIT_OK)
        status = plait_cannot_begin(comm, status, a);
    if (now && a->queue != NULL)
        return status == PLAIT_OK ? plait_device_run(comm, a, sizes, call) : status;
    if (now)
        return status == PLAIT_OK ? plait_run(comm, comm->last, a->in, a->out, sizes, call) : status;
    const struct plait_job job = { .o = comm->last, .in = a->in, .out = a->out, .sizes = *sizes, .queue = a->queue };
    return plait_request_collective(comm, &job, call, status);
}

/* What the counts have no part in; of the last operation *again it is known to be right. */
static enum plait_status check(struct plait_comm *comm, const char *name, const struct plait_args *a, bool *again,
                               const struct plait_call *call)
{
    enum plait_status status = plait_enter(comm, name, a->op, call);

    *again = status == PLAIT_OK && comm->last != NULL && plait_resembles(comm->last, a, call);
    if (status != PLAIT_OK || *again)
        return status;
    status = plait_check_operation(comm->kernels, a->coll, comm->nrank, 0, a->type, a->op, call);
    return status == PLAIT_OK ? plait_check_root(name, a->root, comm->nrank) : status;
}

static enum plait_status sized(struct plait_comm *comm, struct plait_args a, struct sized in, struct sized out,
                               const struct plait_call *call)
{
    const char *name = plait_coll_name(a.coll);
    struct plait_geometry room;
    bool again;

    a.sized = true;
    enum plait_status status = check(comm, name, &a, &again, call);
    if (status != PLAIT_OK)
        return plait_refuse(status);
    if (!again)
        room = plait_geometry_of(a.coll, comm->nrank, a.root, comm->rank, 1);
    const struct plait_geometry *g = again ? &comm->last->geometry : &room;
    const size_t size = plait_dtype_size(a.type);
    if ((g->in.nslot > 0 && in.counts == NULL) || (g->out.nslot > 0 && out.counts == NULL))
        return plait_refuse(plait_fail(PLAIT_ERR_ARG, "%sv: the counts of %s are NULL", name,
                                       g->in.nslot > 0 && in.counts == NULL ? "in" : "out"));
    if (comm->starts == NULL && (comm->starts = malloc(2 * comm->nrank * sizeof *comm->starts)) == NULL)
        return plait_refuse(plait_cannot_begin(comm, plait_fail_memory("out of memory for an operation"), &a));
    struct plait_sizes v = { .in = in.counts, .out = out.counts };
    size_t in_bytes, out_bytes;
    v.in_end = place_slots(in.counts, in.starts, g->in.nslot, size, comm->starts, &v.in_at, &v.most, &in_bytes);
    place_slots(out.counts, out.starts, g->out.nslot, size, comm->starts + comm->nrank, &v.out_at, &v.most, &out_bytes);
    if (in_bytes == SIZE_MAX || out_bytes == SIZE_MAX)
        return plait_refuse(plait_fail(PLAIT_ERR_ARG, "%sv: a count or start of %s is more than fits in memory", name,
                                       in_bytes == SIZE_MAX ? "in" : "out"));
    if (out.starts != NULL) /* what was to be filled with starts is free */
        status = check_apart(name, out.counts, out.starts, g->out.nslot, comm->starts + comm->nrank);
    if (status != PLAIT_OK)
        return plait_refuse(status);
    /* What it gives itself: of all ranks' slots its own, else the one that there is. */
    const bool both = g->in.nslot > 0 && g->out.nslot > 0;
    const uint32_t own_in = g->in.nslot > 1 ? comm->rank : 0, own_out = g->out.nslot > 1 ? comm->rank : 0;
    if (g->kind == PLAIT_KIND_PART && both && a.in != NULL && a.out != NULL)
        a.alias = in_bytes > 0 && out_bytes > 0 &&
                  (const char *)a.in + v.in_at[own_in] * size == (const char *)a.out + v.out_at[own_out] * size;
    a.alias |= in_bytes == 0 || out_bytes == 0; /* nothing overlaps */
    if (!plait_buffers_fit(&a, in_bytes, out_bytes))
        return plait_refuse(plait_wrong_buffers(&a, g, "v", in_bytes, out_bytes));
    if (both && v.in[own_in] != v.out[own_out])
        return plait_refuse(plait_fail(PLAIT_ERR_ARG, "%sv: rank %u gives itself %zu elements and expects %zu", name,
                                       comm->rank, v.in[own_in], v.out[own_out]));
    /* A rank with an empty part cannot tell: where all must agree the plan is the one out of place, which reads this
     * rank's part before it writes it. */
    a.inplace = g->rooted && plait_works_inplace(a.coll, a.alias, call);
    v.known = known_most(comm, g, a.root, &v);
    if (plait_device_used() != NULL)
        status =
            plait_device_find(comm, name, a.in, in_bytes, a.out, out_bytes, g->combines ? size : 1, call, &a.queue);
    if (status != PLAIT_OK)
        return plait_refuse(plait_device_cannot(comm, status, &a));
    return run(comm, &a, &v, again, call);
}

enum plait_status plait_reduce_scatterv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                        const size_t *starts, enum plait_dtype type, enum plait_op op,
                                        const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_REDUCE_SCATTER, type, op, .in = in, .out = out },
                 (struct sized){ counts, starts }, own_of(comm, counts), call);
}

enum plait_status plait_allgatherv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                   const size_t *starts, enum plait_dtype type, const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_ALLGATHER, type, .in = in, .out = out }, own_of(comm, counts),
                 (struct sized){ counts, starts }, call);
}

enum plait_status plait_gatherv(struct plait_comm *comm, const void *in, size_t count, void *out, const size_t *counts,
                                const size_t *starts, enum plait_dtype type, uint32_t root,
                                const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_GATHER, type, 0, root, .in = in, .out = out },
                 (struct sized){ &count, NULL }, (struct sized){ counts, starts }, call);
}

enum plait_status plait_scatterv(struct plait_comm *comm, const void *in, const size_t *counts, const size_t *starts,
                                 void *out, size_t count, enum plait_dtype type, uint32_t root,
                                 const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_SCATTER, type, 0, root, .in = in, .out = out },
                 (struct sized){ counts, starts }, (struct sized){ &count, NULL }, call);
}

enum plait_status plait_alltoallv(struct plait_comm *comm, const void *in, const size_t *in_counts,
                                  const size_t *in_starts, void *out, const size_t *out_counts,
                                  const size_t *out_starts, enum plait_dtype type, const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_ALLTOALL, type, .in = in, .out = out },
                 (struct sized){ in_counts, in_starts }, (struct sized){ out_counts, out_starts }, call);
}
