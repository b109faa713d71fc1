/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives as users call them. */
#include "call.h"

#include "operation/operation.h"

/* ---- Memory spaces ---------------------------------------------------------------------------------------- */

const struct plait_space *plait_spaces[PLAIT_MOST_SPACES + 1] = { &plait_gpu_space };

enum plait_status plait_space_find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes,
                                   size_t size, const struct plait_call *call, struct plait_args *a)
{
    enum plait_status status = PLAIT_OK;

    a->space = &plait_host_space;
    for (unsigned i = 0; plait_spaces[i] != NULL && status == PLAIT_OK && a->space == &plait_host_space; i++)
        status = plait_spaces[i]->find(comm, name, in_bytes, out_bytes, size, call, a);
    return status;
}

enum plait_status plait_space_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a)
{
    pthread_mutex_lock(&comm->lock); /* its other operations may be in progress */
    status = plait_cannot_begin(comm, status, a);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

bool plait_space_must_queue(const struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    if (!a->space->queued)
        return plait_must_queue(comm, call);
    return call == NULL || call->stream == NULL || call->request != NULL || plait_must_queue(comm, NULL);
}

/* ---- Collectives ------------------------------------------------------------------------------------------ */

/* Another operation than the last one. */
static __attribute__((noinline)) enum plait_status prepare(struct plait_comm *comm, const struct plait_args *a,
                                                           const struct plait_call *call)
{
    enum plait_status status = plait_check_operation(comm->kernels, plait_coll_name(a->coll), comm->nrank, a, call);

    if (status == PLAIT_OK) {
        const struct plait_geometry g = plait_geometry_of(a->coll, comm->nrank, a->root, comm->rank, 1);
        const size_t bytes = plait_args_bytes(a);
        const size_t in_bytes = plait_side_bytes(&g, &g.in, bytes), out_bytes = plait_side_bytes(&g, &g.out, bytes);
        if (!plait_buffers_fit(a, in_bytes, out_bytes))
            return plait_wrong_buffers(a, &g, "", in_bytes, out_bytes);
        status = plait_bind(comm, a, call);
    }
    return status == PLAIT_OK ? PLAIT_OK : plait_cannot_begin(comm, status, a);
}

/* Check the arguments; comm->last becomes their operation. */
static inline __attribute__((always_inline)) enum plait_status
ready(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    const struct plait_op_plan *last = comm->last;

    if (last == NULL || !plait_fits(last, a, call))
        return prepare(comm, a, call);
    return plait_buffers_fit(a, last->in_bytes, last->out_bytes)
               ? PLAIT_OK
               : plait_wrong_buffers(a, &last->geometry, "", last->in_bytes, last->out_bytes);
}

static inline __attribute__((always_inline)) enum plait_status now(struct plait_comm *comm, const struct plait_args *a,
                                                                   const struct plait_call *call)
{
    const enum plait_status status = ready(comm, a, call);
    return status == PLAIT_OK ? plait_run(comm, a, call) : status;
}

/* Queue the call: operations of the comm are pending, a group is open, or the call asks for it. */
static __attribute__((noinline)) enum plait_status later(struct plait_comm *comm, const struct plait_args *a,
                                                         const struct plait_call *call)
{
    pthread_mutex_lock(&comm->lock);
    return plait_request_collective(comm, a, call, ready(comm, a, call));
}

/* The buffers may lie elsewhere than in the host's memory. */
static __attribute__((noinline)) enum plait_status anywhere(struct plait_comm *comm, struct plait_args a,
                                                            const struct plait_call *call)
{
    const struct plait_geometry g = plait_geometry_of(a.coll, comm->nrank, a.root, comm->rank, 1);
    const size_t bytes = plait_args_bytes(&a);
    const enum plait_status status =
        plait_space_find(comm, plait_coll_name(a.coll), plait_side_bytes(&g, &g.in, bytes),
                         plait_side_bytes(&g, &g.out, bytes), g.combines ? plait_dtype_size(a.type) : 1, call, &a);

    if (status != PLAIT_OK)
        return plait_refuse(plait_space_cannot(comm, status, &a));
    return plait_space_must_queue(comm, &a, call) ? later(comm, &a, call) : now(comm, &a, call);
}

static inline __attribute__((always_inline)) enum plait_status
collective(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    if (plait_has_spaces())
        return anywhere(comm, *a, call);
    if (plait_must_queue(comm, call))
        return later(comm, a, call);
    return now(comm, a, call);
}

static __attribute__((noinline)) ptrdiff_t find_place(const struct plait_comm *comm, const struct plait_args *a)
{
    const struct plait_geometry g = plait_geometry_of(a->coll, comm->nrank, a->root, comm->rank, 1);
    return plait_place_of_in(&g, comm->rank, plait_args_bytes(a));
}

static inline bool is_alias(const struct plait_comm *comm, const struct plait_args *a)
{
    if (a->coll == PLAIT_ALLREDUCE)
        return a->in == a->out;
    if (a->count == 0 || a->in == NULL || a->out == NULL)
        return false;
    const struct plait_op_plan *last = comm->last;
    const bool known = last != NULL && last->count == a->count && plait_same_key(last->key, plait_key(a));
    const ptrdiff_t place = known ? last->place : find_place(comm, a);
    return place != PTRDIFF_MIN && (uintptr_t)a->in == (uintptr_t)a->out + (uintptr_t)place;
}

/* Inlined into each caller: the compiler then knows the collective. name: plait_coll_name(a.coll) */
static inline __attribute__((always_inline)) enum plait_status run(struct plait_comm *comm, const char *name,
                                                                   struct plait_args a, const struct plait_call *call)
{
    const enum plait_status status = plait_enter_alone(comm, name, a.op, call);

    if (status != PLAIT_OK)
        return plait_refuse(status);
    a.space = &plait_host_space;
    a.alias = is_alias(comm, &a);
    a.inplace = a.count > 0 && plait_works_inplace(a.coll, a.alias, call);
    return plait_leave(comm, collective(comm, &a, call));
}

enum plait_status plait_allreduce(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, enum plait_op op, const struct plait_call *call)
{
    return run(comm, "allreduce", (struct plait_args){ PLAIT_ALLREDUCE, type, op, 0, false, count, in, out }, call);
}

enum plait_status plait_barrier(struct plait_comm *comm, const struct plait_call *call)
{
    return run(comm, "barrier", (struct plait_args){ PLAIT_BARRIER, PLAIT_INT32 }, call);
}

enum plait_status plait_reduce_scatter(struct plait_comm *comm, const void *in, void *out, size_t count,
                                       enum plait_dtype type, enum plait_op op, const struct plait_call *call)
{
    return run(comm, "reduce_scatter", (struct plait_args){ PLAIT_REDUCE_SCATTER, type, op, 0, false, count, in, out },
               call);
}

enum plait_status plait_allgather(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, const struct plait_call *call)
{
    return run(comm, "allgather", (struct plait_args){ PLAIT_ALLGATHER, type, 0, 0, false, count, in, out }, call);
}

enum plait_status plait_broadcast(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, uint32_t root, const struct plait_call *call)
{
    return run(comm, "broadcast", (struct plait_args){ PLAIT_BROADCAST, type, 0, root, false, count, in, out }, call);
}

enum plait_status plait_reduce(struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type,
                               enum plait_op op, uint32_t root, const struct plait_call *call)
{
    return run(comm, "reduce", (struct plait_args){ PLAIT_REDUCE, type, op, root, false, count, in, out }, call);
}

enum plait_status plait_gather(struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type,
                               uint32_t root, const struct plait_call *call)
{
    return run(comm, "gather", (struct plait_args){ PLAIT_GATHER, type, 0, root, false, count, in, out }, call);
}

enum plait_status plait_scatter(struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type,
                                uint32_t root, const struct plait_call *call)
{
    return run(comm, "scatter", (struct plait_args){ PLAIT_SCATTER, type, 0, root, false, count, in, out }, call);
}

enum plait_status plait_alltoall(struct plait_comm *comm, const void *in, void *out, size_t count,
                                 enum plait_dtype type, const struct plait_call *call)
{
    return run(comm, "alltoall", (struct plait_args){ PLAIT_ALLTOALL, type, 0, 0, false, count, in, out }, call);
}
