/* SPDX-License-Identifier: BSD-3-Clause */
/* Loaded before libplait: every collective gets the last element wrong on rank 1, where that has a result. */
#include <plait/comm.h>
#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/message.h>
#include <plait/request.h>

#include <dlfcn.h>
#include <string.h>

static void spoil(const struct plait_comm *comm, void *out, size_t elements, enum plait_dtype type)
{
    if (plait_comm_rank(comm) == 1 && out != NULL)
        ((unsigned char *)out)[elements * plait_dtype_size(type) - 1] ^= 1;
}

/* What a request will have made when it is waited for. */
static _Thread_local struct result {
    const struct plait_comm *comm;
    void *out;
    size_t elements;
    enum plait_dtype type;
} later;

enum plait_status plait_wait(struct plait_request **request)
{
    enum plait_status (*real)(struct plait_request **);
    void *symbol = dlsym(RTLD_NEXT, "plait_wait");

    memcpy(&real, &symbol, sizeof real);
    const enum plait_status status = real(request);
    if (status == PLAIT_OK && later.comm != NULL)
        spoil(later.comm, later.out, later.elements, later.type);
    later.comm = NULL;
    return status;
}

/* Of fused gradients, the first one's first byte. */
enum plait_status plait_fusion_wait_all(struct plait_fusion *fusion, struct plait_fusion_result *result)
{
    enum plait_status (*real)(struct plait_fusion *, struct plait_fusion_result *);
    void *symbol = dlsym(RTLD_NEXT, "plait_fusion_wait_all");

    memcpy(&real, &symbol, sizeof real);
    const enum plait_status status = real(fusion, result);
    if (status == PLAIT_OK)
        spoil(plait_fusion_comm(fusion), plait_fusion_data(fusion, 0), 1, PLAIT_UINT8);
    return status;
}

/* The last receive of a group, if it is no request. */
static _Thread_local struct result grouped;

enum plait_status plait_group_end(void)
{
    enum plait_status (*real)(void);
    void *symbol = dlsym(RTLD_NEXT, "plait_group_end");

    memcpy(&real, &symbol, sizeof real);
    const enum plait_status status = real();
    if (status == PLAIT_OK && grouped.comm != NULL)
        spoil(grouped.comm, grouped.out, grouped.elements, grouped.type);
    grouped.comm = NULL;
    return status;
}

enum plait_status plait_recv(struct plait_comm *comm, void *out, size_t count, enum plait_dtype type, uint32_t from,
                             const struct plait_call *call)
{
    enum plait_status (*real)(struct plait_comm *, void *, size_t, enum plait_dtype, uint32_t,
                              const struct plait_call *);
    void *symbol = dlsym(RTLD_NEXT, "plait_recv");

    memcpy(&real, &symbol, sizeof real);
    *(call->request != NULL ? &later : &grouped) = (struct result){ comm, out, count, type };
    return real(comm, out, count, type, from, call);
}

static size_t sum(const size_t *counts, const struct plait_comm *comm)
{
    size_t n = 0;

    for (uint32_t i = 0; counts != NULL && i < plait_comm_nrank(comm); i++)
        n += counts[i];
    return n;
}

/* The function of this name, with the true one inside; `elements` of out. */
#define BROKEN(name, parameters, arguments, elements)                                \
    enum plait_status name parameters                                                \
    {                                                                                \
        enum plait_status(*real) parameters;                                         \
        void *symbol = dlsym(RTLD_NEXT, #name);                                      \
                                                                                     \
        memcpy(&real, &symbol, sizeof real);                                         \
        const enum plait_status status = real arguments;                             \
        if (status == PLAIT_OK && call->request == NULL)                             \
            spoil(comm, out, elements, type);                                        \
        later = (struct result){ call->request ? comm : NULL, out, elements, type }; \
        return status;                                                               \
    }
#define VECTORS  struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type
#define OPERATOR enum plait_op op
#define THE_ROOT uint32_t root
#define CALL     const struct plait_call *call
#define EVERYONE (count * plait_comm_nrank(comm))
#define COUNTS   const size_t *counts, const size_t *starts

/* Returns at once, on every rank. */
enum plait_status plait_barrier(struct plait_comm *comm, const struct plait_call *call)
{
    enum plait_status (*real)(struct plait_comm *, const struct plait_call *);
    void *symbol = dlsym(RTLD_NEXT, "plait_barrier");

    memcpy(&real, &symbol, sizeof real);
    return call != NULL && call->request != NULL ? real(comm, call) : PLAIT_OK;
}

BROKEN(plait_allreduce, (VECTORS, OPERATOR, CALL), (comm, in, out, count, type, op, call), count)
BROKEN(plait_reduce_scatter, (VECTORS, OPERATOR, CALL), (comm, in, out, count, type, op, call), count)
BROKEN(plait_allgather, (VECTORS, CALL), (comm, in, out, count, type, call), EVERYONE)
BROKEN(plait_broadcast, (VECTORS, THE_ROOT, CALL), (comm, in, out, count, type, root, call), count)
BROKEN(plait_reduce, (VECTORS, OPERATOR, THE_ROOT, CALL), (comm, in, out, count, type, op, root, call), count)
BROKEN(plait_gather, (VECTORS, THE_ROOT, CALL), (comm, in, out, count, type, root, call), EVERYONE)
BROKEN(plait_scatter, (VECTORS, THE_ROOT, CALL), (comm, in, out, count, type, root, call), count)
BROKEN(plait_alltoall, (VECTORS, CALL), (comm, in, out, count, type, call), EVERYONE)
BROKEN(plait_reduce_scatterv,
       (struct plait_comm * comm, const void *in, void *out, COUNTS, enum plait_dtype type, OPERATOR, CALL),
       (comm, in, out, counts, starts, type, op, call), counts[plait_comm_rank(comm)])
BROKEN(plait_allgatherv, (struct plait_comm * comm, const void *in, void *out, COUNTS, enum plait_dtype type, CALL),
       (comm, in, out, counts, starts, type, call), sum(counts, comm))
BROKEN(plait_gatherv,
       (struct plait_comm * comm, const void *in, size_t count, void *out, COUNTS, enum plait_dtype type, THE_ROOT,
        CALL),
       (comm, in, count, out, counts, starts, type, root, call), sum(counts, comm))
BROKEN(plait_scatterv,
       (struct plait_comm * comm, const void *in, COUNTS, void *out, size_t count, enum plait_dtype type, THE_ROOT,
        CALL),
       (comm, in, counts, starts, out, count, type, root, call), count)
BROKEN(plait_alltoallv,
       (struct plait_comm * comm, const void *in, const size_t *in_counts, const size_t *in_starts, void *out, COUNTS,
        enum plait_dtype type, CALL),
       (comm, in, in_counts, in_starts, out, counts, starts, type, call), sum(counts, comm))
