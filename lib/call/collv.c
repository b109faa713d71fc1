/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives with variable block sizes (v-forms). */
#include "call.h"

#include "base/status.h"
#include "engine/operate.h"
#include "operation/run.h"
#include "spaces.h"

#include <stdlib.h>

/* ---- Where the blocks lie -------------------------------------------------------------------------------- */

struct given { /* one side of a call; counts is NULL if the rank has no such buffer */
    const size_t *counts, *starts;
};

struct side {                /* derived from it */
    size_t *counts, *starts; /* [nrank] */
    bool packed;             /* contiguous blocks: the call gives no starts */
    size_t end, bytes;       /* extent in elements and in bytes; bytes is SIZE_MAX if too many */
    uint32_t last;           /* the block that ends there */
};

/* The layout of the last valid call: mostly the next call has the same one. */
struct plait_slots {
    struct plait_key key;
    bool right;  /* false: there was no valid call */
    size_t size; /* of an element */
    struct side in, out;
    struct plait_sizes sizes;
    ptrdiff_t place; /* bytes from OUT to IN if in place; PTRDIFF_MIN: there is no in-place form */
    size_t *order;   /* [nrank] scratch */
    size_t numbers[];
};

static struct plait_slots *create(uint32_t n)
{
    struct plait_slots *s = malloc(sizeof *s + (size_t)5 * n * sizeof *s->numbers);

    if (s == NULL)
        return NULL;
    *s = (struct plait_slots){ .in = { .counts = s->numbers, .starts = s->numbers + n },
                               .out = { .counts = s->numbers + 2 * n, .starts = s->numbers + 3 * n },
                               .order = s->numbers + 4 * n };
    s->sizes = (struct plait_sizes){
        .in = s->in.counts, .in_at = s->in.starts, .out = s->out.counts, .out_at = s->out.starts
    };
    return s;
}

static bool lie_so(const struct side *side, const struct given *given, uint32_t n)
{
    if (given->starts == NULL && !side->packed)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (given->counts[i] != side->counts[i] || (given->starts != NULL && given->starts[i] != side->starts[i]))
            return false;
    return true;
}

static void place_side(struct side *side, const struct given *given, uint32_t n, size_t size, size_t *most)
{
    size_t end = 0;

    side->bytes = SIZE_MAX;
    side->packed = given->starts == NULL;
    for (uint32_t i = 0; i < n; i++) {
        const size_t count = given->counts[i], start = given->starts != NULL ? given->starts[i] : end;
        side->counts[i] = count;
        side->starts[i] = start;
        if (count == 0) /* may start anywhere */
            continue;
        const bool beyond = count > PLAIT_MOST_BYTES || start > PLAIT_MOST_BYTES;
        if (beyond || start + count > end)
            side->last = i;
        if (beyond) /* else the sums below might overflow */
            return;
        end = start + count > end ? start + count : end;
        *most = count > *most ? count : *most;
    }
    side->end = end;
    if (end * size <= PLAIT_MOST_BYTES)
        side->bytes = end * size;
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
                                  struct plait_slots *s)
{
    const uint32_t in = g->in.nslot > 1 ? comm->rank : 0, out = g->out.nslot > 1 ? comm->rank : 0;
    const struct plait_sizes *v = &s->sizes;

    s->place = PTRDIFF_MIN;
    if (g->in.nslot == 0 || g->out.nslot == 0)
        return PLAIT_OK;
    if (v->in[in] != v->out[out])
        return plait_fail(PLAIT_ERR_ARG, "%s: rank %u gives itself %zu elements and expects %zu", name, comm->rank,
                          v->in[in], v->out[out]);
    if (g->kind == PLAIT_KIND_PART)
        s->place = (ptrdiff_t)((v->out_at[out] - v->in_at[in]) * s->size);
    return PLAIT_OK;
}

static __attribute__((noinline)) enum plait_status place(struct plait_comm *comm, const char *name,
                                                         const struct plait_args *a, const struct plait_geometry *g,
                                                         const struct given *in, const struct given *out)
{
    if (comm->slots == NULL && (comm->slots = create(comm->nrank)) == NULL)
        return plait_cannot_begin(comm, plait_fail_memory("out of memory for an operation"), a);
    struct plait_slots *s = comm->slots;
    struct plait_sizes *v = &s->sizes;
    enum plait_status status = PLAIT_OK;

    s->right = false; /* until the checks have passed */
    s->size = plait_dtype_size(a->type);
    v->most = 0;
    place_side(&s->in, in, g->in.nslot, s->size, &v->most);
    place_side(&s->out, out, g->out.nslot, s->size, &v->most);
    const struct side *beyond = s->in.bytes == SIZE_MAX ? &s->in : s->out.bytes == SIZE_MAX ? &s->out : NULL;
    if (beyond != NULL)
        return plait_fail(
            PLAIT_ERR_ARG,
            "%s: a count or start of %s is more than fits in memory: block %u has %zu elements from %zu on", name,
            beyond == &s->in ? "in" : "out", beyond->last, beyond->counts[beyond->last], beyond->starts[beyond->last]);
    if (out->starts != NULL)
        status = check_apart(name, v->out, v->out_at, g->out.nslot, s->order);
    if (status == PLAIT_OK)
        status = find_own(comm, name, g, s);
    if (status != PLAIT_OK)
        return status;
    v->in_end = s->in.end;
    v->known = known_most(comm, g, a->root, v);
    s->key = plait_key(a);
    s->right = true;
    return PLAIT_OK;
}

/* Has the call the layout of the last one? */
static inline bool lie_as_before(const struct plait_slots *s, const struct plait_args *a,
                                 const struct plait_geometry *g, const struct given *in, const struct given *out)
{
    return s != NULL && s->right && plait_same_key(s->key, plait_key(a)) && lie_so(&s->in, in, g->in.nslot) &&
           lie_so(&s->out, out, g->out.nslot);
}

/* ---- The operation --------------------------------------------------------------------------------------- */

static enum plait_status find(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    return comm->last != NULL && plait_fits(comm->last, a, call) ? PLAIT_OK : plait_bind(comm, a, call);
}

/*
 * The largest block (a->count) decides whether the operation is eager. If not, its plan is for blocks of any size,
 * without a count.
 */
static enum plait_status choose(struct plait_comm *comm, struct plait_args *a, const struct plait_call *call)
{
    if (!a->space->host || a->count * plait_dtype_size(a->type) > plait_most_eager_block(comm, a->coll))
        a->count = 0;
    const enum plait_status status = find(comm, a, call);
    if (status != PLAIT_OK || a->count == 0 || comm->last->selection.eager)
        return status;
    a->count = 0; /* the caller asks for an algorithm that is not eager */
    return find(comm, a, call);
}

/* Another operation than the last one, or a call that must be queued. */
static __attribute__((noinline)) enum plait_status run(struct plait_comm *comm, struct plait_args *a,
                                                       const struct plait_call *call)
{
    const bool now = !plait_space_must_queue(comm, a, call);
    const struct plait_sizes *sizes = &comm->slots->sizes;

    if (!now)
        pthread_mutex_lock(&comm->lock);
    enum plait_status status = choose(comm, a, call);
    if (status != PLAIT_OK)
        status = plait_cannot_begin(comm, status, a);
    if (now)
        return status == PLAIT_OK ? plait_space_run(comm, a, sizes, call) : status;
    const struct plait_job job = { .o = comm->last, .in = a->in, .out = a->out, .sizes = *sizes, .queue = a->queue };
    return plait_request_collective(comm, &job, call, status);
}

static const char *const names[PLAIT_NCOLL] = {
    [PLAIT_REDUCE_SCATTER] = "reduce_scatterv",
    [PLAIT_ALLGATHER] = "allgatherv",
    [PLAIT_GATHER] = "gatherv",
    [PLAIT_SCATTER] = "scatterv",
    [PLAIT_ALLTOALL] = "alltoallv",
};

/* The checks that need no counts, for a call that does not resemble the last operation. */
static __attribute__((noinline)) enum plait_status check(const struct plait_comm *comm, const char *name,
                                                         const struct plait_args *a, const struct plait_call *call)
{
    const enum plait_status status =
        plait_check_operation(comm->kernels, name, a->coll, comm->nrank, 0, a->type, a->op, call);

    return status == PLAIT_OK ? plait_check_root(name, a->root, comm->nrank) : status;
}

/* Inlined into each caller: the compiler then knows the collective. */
static inline __attribute__((always_inline)) enum plait_status sized_inside(struct plait_comm *comm,
                                                                            struct plait_args a, struct given in,
                                                                            struct given out,
                                                                            const struct plait_call *call)
{
    const char *name = names[a.coll];
    enum plait_status status = PLAIT_OK;
    struct plait_geometry room;

    a.sized = true;
    a.space = &plait_host_space;
    const bool again = comm->last != NULL && plait_resembles(comm->last, &a, call);
    if (!again)
        status = check(comm, name, &a, call);
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
    const size_t in_bytes = s->in.bytes, out_bytes = s->out.bytes;
    a.alias = in_bytes == 0 || out_bytes == 0 || /* nothing overlaps */
              (uintptr_t)a.in - (uintptr_t)a.out == (uintptr_t)s->place;
    if (!plait_buffers_fit(&a, in_bytes, out_bytes))
        return plait_refuse(plait_wrong_buffers(&a, g, "v", in_bytes, out_bytes));
    /* A rank with an empty block cannot tell whether it is in place. So where all ranks must agree the plan is out of
     * place: it reads this rank's block before it writes it. */
    a.inplace = g->rooted && plait_works_inplace(a.coll, a.alias, call);
    if (plait_has_spaces())
        status = plait_space_find(comm, name, in_bytes, out_bytes, g->combines ? s->size : 1, call, &a);
    if (status != PLAIT_OK)
        return plait_refuse(plait_space_cannot(comm, status, &a));
    a.count = s->sizes.known;
    if (again && a.count > 0 && comm->last->selection.eager && plait_fits_too(comm->last, &a) && a.space->host &&
        !plait_must_queue(comm, call))
        return plait_run(comm, comm->last, a.in, a.out, &s->sizes, call);
    return run(comm, &a, call);
}

static inline __attribute__((always_inline)) enum plait_status
sized(struct plait_comm *comm, struct plait_args a, struct given in, struct given out, const struct plait_call *call)
{
    const enum plait_status status = plait_enter_alone(comm, names[a.coll], a.op, call);

    return status == PLAIT_OK ? plait_leave(comm, sized_inside(comm, a, in, out, call)) : plait_refuse(status);
}

enum plait_status plait_reduce_scatterv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                        const size_t *starts, enum plait_dtype type, enum plait_op op,
                                        const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_REDUCE_SCATTER, type, op, .in = in, .out = out },
                 (struct given){ counts, starts }, own_of(comm, counts), call);
}

enum plait_status plait_allgatherv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                   const size_t *starts, enum plait_dtype type, const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_ALLGATHER, type, .in = in, .out = out }, own_of(comm, counts),
                 (struct given){ counts, starts }, call);
}

enum plait_status plait_gatherv(struct plait_comm *comm, const void *in, size_t count, void *out, const size_t *counts,
                                const size_t *starts, enum plait_dtype type, uint32_t root,
                                const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_GATHER, type, 0, root, .in = in, .out = out },
                 (struct given){ &count, NULL }, (struct given){ counts, starts }, call);
}

enum plait_status plait_scatterv(struct plait_comm *comm, const void *in, const size_t *counts, const size_t *starts,
                                 void *out, size_t count, enum plait_dtype type, uint32_t root,
                                 const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_SCATTER, type, 0, root, .in = in, .out = out },
                 (struct given){ counts, starts }, (struct given){ &count, NULL }, call);
}

enum plait_status plait_alltoallv(struct plait_comm *comm, const void *in, const size_t *in_counts,
                                  const size_t *in_starts, void *out, const size_t *out_counts,
                                  const size_t *out_starts, enum plait_dtype type, const struct plait_call *call)
{
    return sized(comm, (struct plait_args){ PLAIT_ALLTOALL, type, .in = in, .out = out },
                 (struct given){ in_counts, in_starts }, (struct given){ out_counts, out_starts }, call);
}
