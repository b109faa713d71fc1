/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives with variable block sizes (v-forms). */
#include "call.h"

#include "operation/operation.h"

#include <stdlib.h>

/* ---- Where the blocks lie -------------------------------------------------------------------------------- */

struct given { /* one side of a call; counts is NULL if the rank has no such buffer */
    const size_t *counts, *starts;
};

/* The blocks of this rank's IN and OUT in the last call: mostly the next one has the same. */
struct plait_slots {
    struct plait_key key;
    bool right;                 /* false: there was no valid call */
    bool in_packed, out_packed; /* contiguous blocks: the call gave no starts */
    struct plait_sizes sizes;
    ptrdiff_t place;  /* bytes from OUT to IN if in place; PTRDIFF_MIN: there is no in-place form */
    size_t numbers[]; /* [4][nrank] targets of sizes, and [nrank] scratch */
};

static struct plait_slots *create(uint32_t n)
{
    struct plait_slots *s = calloc(1, sizeof *s + (size_t)5 * n * sizeof *s->numbers);

    if (s != NULL)
        plait_sizes_lie_at(&s->sizes, s->numbers, n);
    return s;
}

/* Are these the blocks of the last call's side? */
static bool lie_so(const struct given *given, const size_t *counts, const size_t *starts, bool packed, uint32_t n)
{
    if (given->starts == NULL && !packed)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (given->counts[i] != counts[i] || (given->starts != NULL && given->starts[i] != starts[i]))
            return false;
    return true;
}

/*
 * Writes counts and starts [n] of one side: contiguous blocks if the call gives no starts. *end: the extent, in
 * elements. Error: it is more than fits in memory. `which`: "in" or "out".
 */
static enum plait_status place_side(const char *name, const char *which, const struct given *given, uint32_t n,
                                    size_t size, size_t *counts, size_t *starts, size_t *end, size_t *most)
{
    uint32_t last = 0; /* the block that ends there */
    bool beyond = false;

    *end = 0;
    for (uint32_t i = 0; i < n && !beyond; i++) {
        const size_t count = given->counts[i], start = given->starts != NULL ? given->starts[i] : *end;
        counts[i] = count;
        starts[i] = start;
        if (count == 0) /* may start anywhere */
            continue;
        beyond = count > PLAIT_MOST_BYTES || start > PLAIT_MOST_BYTES; /* else the sum below might overflow */
        if (beyond || start + count > *end) {
            last = i;
            *end = start + count;
        }
        *most = count > *most ? count : *most;
    }
    if (!beyond && *end * size <= PLAIT_MOST_BYTES)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG,
                      "%s: a count or start of %s is more than fits in memory: block %u has %zu elements from %zu on",
                      name, which, last, counts[last], starts[last]);
}

/* The parts of out must not overlap. order: [n] scratch, for the parts that are not empty, sorted by start. */
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
            return plait_fail(PLAIT_ERR_ARG,
                              "%s: parts %zu and %zu of out overlap: elements %zu to %zu and %zu to %zu; they must not",
                              name, a, b, starts[a], starts[a] + counts[a] - 1, starts[b], starts[b] + counts[b] - 1);
    }
    return PLAIT_OK;
}

/* This rank's block, where all ranks know all counts. */
static struct given own_of(const struct plait_comm *comm, const size_t *counts)
{
    return (struct given){ comm != NULL && counts != NULL ? &counts[comm->rank] : NULL, NULL };
}

/* Elements of the largest block between two ranks, if all ranks know it; else 0. */
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

/* Check and place the block from this rank to itself: its own slot where each rank has one, else the only slot. */
static enum plait_status find_own(struct plait_comm *comm, const char *name, const struct plait_geometry *g,
                                  size_t size, struct plait_slots *s)
{
    const uint32_t in = g->in.nslot > 1 ? comm->rank : 0, out = g->out.nslot > 1 ? comm->rank : 0;
    const struct plait_sizes *v = &s->sizes;

    s->place = PTRDIFF_MIN;
    if (g->in.nslot == 0 || g->out.nslot == 0)
        return PLAIT_OK;
    if (v->in[in] != v->out[out])
        return plait_fail(PLAIT_ERR_ARG, "%s: rank %u sends itself %zu elements, but expects %zu", name, comm->rank,
                          v->in[in], v->out[out]);
    s->place = g->kind == PLAIT_KIND_PART ? (ptrdiff_t)((v->out_at[out] - v->in_at[in]) * size) : 0;
    return PLAIT_OK;
}

/* Has the call the blocks of the last one? */
static inline bool lie_as_before(const struct plait_slots *s, const struct plait_args *a,
                                 const struct plait_geometry *g, const struct given *in, const struct given *out)
{
    return s != NULL && s->right && plait_same_key(s->key, plait_key(a)) &&
           lie_so(in, s->sizes.in, s->sizes.in_at, s->in_packed, g->in.nslot) &&
           lie_so(out, s->sizes.out, s->sizes.out_at, s->out_packed, g->out.nslot);
}

/* Check and place all blocks: comm->slots. */
static __attribute__((noinline)) enum plait_status place(struct plait_comm *comm, const char *name,
                                                         const struct plait_args *a, const struct plait_geometry *g,
                                                         const struct given *in, const struct given *out)
{
    if (comm->slots == NULL && (comm->slots = create(comm->nrank)) == NULL)
        return plait_cannot_begin(comm, plait_fail_memory("out of memory for an operation"), a);
    struct plait_slots *s = comm->slots;
    struct plait_sizes *v = &s->sizes;
    size_t *numbers = s->numbers;
    const size_t size = plait_dtype_size(a->type);
    const uint32_t n = comm->nrank;

    s->right = false; /* until the checks have passed */
    v->most = 0;
    enum plait_status status =
        place_side(name, "in", in, g->in.nslot, size, numbers, numbers + n, &v->in_end, &v->most);
    if (status == PLAIT_OK)
        status =
            place_side(name, "out", out, g->out.nslot, size, numbers + 2 * n, numbers + 3 * n, &v->out_end, &v->most);
    if (status == PLAIT_OK && out->starts != NULL)
        status = check_apart(name, v->out, v->out_at, g->out.nslot, numbers + 4 * n);
    if (status == PLAIT_OK)
        status = find_own(comm, name, g, size, s);
    v->known = status == PLAIT_OK ? known_most(comm, g, a->root, v) : 0;
    s->in_packed = in->starts == NULL;
    s->out_packed = out->starts == NULL;
    s->key = plait_key(a);
    s->right = status == PLAIT_OK;
    return status;
}

/* ---- The operation --------------------------------------------------------------------------------------- */

/* The largest block (a->count) decides whether the operation is eager. If not, many sizes share its plan. */
static enum plait_status choose(struct plait_comm *comm, struct plait_args *a, const struct plait_call *call)
{
    const struct plait_geometry g = plait_geometry_of(a->coll, 1, 0, 0, 1);
    const bool small = a->count > 0 && a->space->host && plait_args_bytes(a) <= plait_most_eager_block(comm, a->coll);
    const enum plait_status status = small ? plait_bind(comm, a, call) : PLAIT_OK;

    if (status != PLAIT_OK || (small && comm->last->selection.eager))
        return status;
    a->count = plait_vform_count(&g, a->count); /* or the caller asks for an algorithm that is not eager */
    return plait_bind(comm, a, call);
}

static __attribute__((noinline)) enum plait_status run(struct plait_comm *comm, struct plait_args *a,
                                                       const struct plait_call *call)
{
    if (plait_space_must_queue(comm, a, call)) {
        pthread_mutex_lock(&comm->lock);
        return plait_request_collective(comm, a, call, choose(comm, a, call));
    }
    const enum plait_status status = choose(comm, a, call);
    return status == PLAIT_OK ? plait_run(comm, a, call) : plait_cannot_begin(comm, status, a);
}

/* Inlined into each caller: the compiler then knows the collective. */
static inline __attribute__((always_inline)) enum plait_status vform_inside(struct plait_comm *comm, const char *name,
                                                                            struct plait_args a, struct given in,
                                                                            struct given out,
                                                                            const struct plait_call *call)
{
    enum plait_status status = PLAIT_OK;
    struct plait_geometry room;

    a.vform = true;
    a.space = &plait_host_space;
    const bool again = comm->last != NULL && plait_resembles(comm->last, &a, call);
    if (!again) /* the checks that need no counts */
        status = plait_check_operation(comm->kernels, name, comm->nrank, &a, call);
    if (status != PLAIT_OK)
        return plait_refuse(status);
    if (!again)
        room = plait_geometry_of(a.coll, comm->nrank, a.root, comm->rank, 1);
    const struct plait_geometry *g = again ? &comm->last->geometry : &room;
    if ((g->in.nslot > 0 && in.counts == NULL) || (g->out.nslot > 0 && out.counts == NULL))
        return plait_refuse(plait_fail(PLAIT_ERR_ARG, "%s: the counts of %s are NULL", name,
                                       g->in.nslot > 0 && in.counts == NULL ? "in" : "out"));
    if (!again || !lie_as_before(comm->slots, &a, g, &in, &out))
        status = place(comm, name, &a, g, &in, &out);
    if (status != PLAIT_OK)
        return plait_refuse(status);
    const struct plait_slots *s = comm->slots;
    const size_t in_bytes = s->sizes.in_end * plait_dtype_size(a.type);
    const size_t out_bytes = s->sizes.out_end * plait_dtype_size(a.type);
    a.sizes = &s->sizes;
    a.alias = in_bytes == 0 || out_bytes == 0 || /* nothing overlaps */
              (uintptr_t)a.in - (uintptr_t)a.out == (uintptr_t)s->place;
    if (!plait_buffers_fit(&a, in_bytes, out_bytes))
        return plait_refuse(plait_wrong_buffers(&a, g, "v", in_bytes, out_bytes));
    /* A rank with an empty block cannot tell whether it is in place. So a plan on which all ranks must agree runs out
     * of place: it reads this rank's block before it writes it. */
    a.inplace = g->rooted && plait_works_inplace(a.coll, a.alias, call);
    if (plait_has_spaces())
        status =
            plait_space_find(comm, name, in_bytes, out_bytes, g->combines ? plait_dtype_size(a.type) : 1, call, &a);
    if (status != PLAIT_OK)
        return plait_refuse(plait_space_cannot(comm, status, &a));
    a.count = s->sizes.known;
    if (again && a.count > 0 && comm->last->selection.eager && comm->last->count == a.count &&
        comm->last->inplace == a.inplace && a.space->host && !plait_space_must_queue(comm, &a, call))
        return plait_run(comm, &a, call);
    return run(comm, &a, call);
}

static inline __attribute__((always_inline)) enum plait_status vform(struct plait_comm *comm, const char *name,
                                                                     struct plait_args a, struct given in,
                                                                     struct given out, const struct plait_call *call)
{
    const enum plait_status status = plait_enter_alone(comm, name, a.op, call);

    return status == PLAIT_OK ? plait_leave(comm, vform_inside(comm, name, a, in, out, call)) : plait_refuse(status);
}

enum plait_status plait_reduce_scatterv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                        const size_t *starts, enum plait_dtype type, enum plait_op op,
                                        const struct plait_call *call)
{
    return vform(comm, "reduce_scatterv", (struct plait_args){ PLAIT_REDUCE_SCATTER, type, op, .in = in, .out = out },
                 (struct given){ counts, starts }, own_of(comm, counts), call);
}

enum plait_status plait_allgatherv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                   const size_t *starts, enum plait_dtype type, const struct plait_call *call)
{
    return vform(comm, "allgatherv", (struct plait_args){ PLAIT_ALLGATHER, type, .in = in, .out = out },
                 own_of(comm, counts), (struct given){ counts, starts }, call);
}

enum plait_status plait_gatherv(struct plait_comm *comm, const void *in, size_t count, void *out, const size_t *counts,
                                const size_t *starts, enum plait_dtype type, uint32_t root,
                                const struct plait_call *call)
{
    return vform(comm, "gatherv", (struct plait_args){ PLAIT_GATHER, type, 0, root, .in = in, .out = out },
                 (struct given){ &count, NULL }, (struct given){ counts, starts }, call);
}

enum plait_status plait_scatterv(struct plait_comm *comm, const void *in, const size_t *counts, const size_t *starts,
                                 void *out, size_t count, enum plait_dtype type, uint32_t root,
                                 const struct plait_call *call)
{
    return vform(comm, "scatterv", (struct plait_args){ PLAIT_SCATTER, type, 0, root, .in = in, .out = out },
                 (struct given){ counts, starts }, (struct given){ &count, NULL }, call);
}

enum plait_status plait_alltoallv(struct plait_comm *comm, const void *in, const size_t *in_counts,
                                  const size_t *in_starts, void *out, const size_t *out_counts,
                                  const size_t *out_starts, enum plait_dtype type, const struct plait_call *call)
{
    return vform(comm, "alltoallv", (struct plait_args){ PLAIT_ALLTOALL, type, .in = in, .out = out },
                 (struct given){ in_counts, in_starts }, (struct given){ out_counts, out_starts }, call);
}
