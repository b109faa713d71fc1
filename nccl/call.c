/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's collectives and point-to-point calls. */
#include "call.h"

#include "algorithm.h"
#include "error.h"
#include "fuse.h"
#include "group.h"
#include "stream.h"

#include <plait/message.h>

#include <stdio.h>
#include <string.h>

enum plait_status nccl_call_run(const struct nccl_call *c)
{
    struct plait_call options = PLAIT_CALL_DEFAULT;
    char algorithm[64];

    if (c->scale.op == PLAIT_PREMULSUM) {
        options.scale_when = c->scale.when;
        options.scale = c->scale.when == PLAIT_SCALE_LATE ? c->scale.late : c->scale.scalar;
    }
    const enum plait_status status = nccl_algorithm_pick(c, &options, algorithm);
    if (status != PLAIT_OK)
        return status;
    options.algorithm = algorithm[0] != '\0' ? algorithm : NULL;
    options.mark = c->mark;
    options.stream = nccl_call_streams(c) ? c->on : NULL;
    return c->kind->run(c, atomic_load(&c->comm->plait), &options);
}

/* ---- Each kind as the library has it ----------------------------------------------------------------------- */

#define RUN(name, ...)                                                                                               \
    static enum plait_status run_##name(const struct nccl_call *c, struct plait_comm *p, const struct plait_call *o) \
    {                                                                                                                \
        return plait_##name(p, __VA_ARGS__, o);                                                                      \
    }
RUN(allreduce, c->in, c->out, c->count, c->type, c->scale.op)
RUN(reduce_scatter, c->in, c->out, c->count, c->type, c->scale.op)
RUN(allgather, c->in, c->out, c->count, c->type)
RUN(alltoall, c->in, c->out, c->count, c->type)
RUN(broadcast, c->in, c->out, c->count, c->type, c->root)
RUN(reduce, c->in, c->out, c->count, c->type, c->scale.op, c->root)
RUN(gather, c->in, c->out, c->count, c->type, c->root)
RUN(scatter, c->in, c->out, c->count, c->type, c->root)
RUN(send, c->in, c->count, c->type, c->root)
RUN(recv, c->out, c->count, c->type, c->root)
#undef RUN

/* name, coll, reduces, rooted, how */
static const struct nccl_kind allreduce = { "ncclAllReduce", PLAIT_ALLREDUCE, true, false, run_allreduce },
                              reduce_scatter = { "ncclReduceScatter", PLAIT_REDUCE_SCATTER, true, false,
                                                 run_reduce_scatter },
                              allgather = { "ncclAllGather", PLAIT_ALLGATHER, false, false, run_allgather },
                              alltoall = { "ncclAlltoAll", PLAIT_ALLTOALL, false, false, run_alltoall },
                              broadcast = { "ncclBroadcast", PLAIT_BROADCAST, false, true, run_broadcast },
                              reduce = { "ncclReduce", PLAIT_REDUCE, true, true, run_reduce },
                              gather = { "ncclGather", PLAIT_GATHER, false, true, run_gather },
                              scatter = { "ncclScatter", PLAIT_SCATTER, false, true, run_scatter },
                              send = { "ncclSend", -1, false, true, run_send },
                              receive = { "ncclRecv", -1, false, true, run_recv };

/* ---- Calling ----------------------------------------------------------------------------------------------- */

/* The caller's struct has only `size` bytes. */
static ncclResult_t read_config(struct nccl_call *c, const ncclCollConfig_t *config)
{
    ncclCollConfig_t all = NCCL_COLLCONFIG_INITIALIZER;

    if (config == NULL)
        return ncclSuccess;
    if (config->magic != NCCL_API_MAGIC || config->size < offsetof(ncclCollConfig_t, ext))
        return nccl_fail(ncclInvalidArgument, c->comm, "%s: config does not begin with NCCL_COLLCONFIG_INITIALIZER",
                         c->kind->name);
    memcpy(&all, config, config->size < sizeof all ? config->size : sizeof all);
    if (all.launchCompletionEvent != NULL)
        return nccl_fail(ncclInvalidUsage, c->comm,
                         "%s: config->launchCompletionEvent is %p, which is not supported: it must be NULL",
                         c->kind->name, (void *)all.launchCompletionEvent);
    if (all.algSelection != NULL && strlen(all.algSelection) >= sizeof c->algorithms)
        return nccl_fail(ncclInvalidArgument, c->comm, "%s: config->algSelection has more than %zu characters",
                         c->kind->name, sizeof c->algorithms - 1);
    snprintf(c->algorithms, sizeof c->algorithms, "%s", all.algSelection != NULL ? all.algSelection : "");
    c->forced = all.forceAlgSelection != 0;
    return ncclSuccess;
}

static ncclResult_t check(struct nccl_call *c, int type, int root, ncclRedOp_t op)
{
    if (type < 0 || type >= ncclNumTypes)
        return nccl_fail(ncclInvalidArgument, c->comm, "%s: datatype is %d; types are 0 to %d", c->kind->name, type,
                         (int)ncclNumTypes - 1);
    c->type = (enum plait_dtype)type;
    if (c->kind->rooted && (root < 0 || root >= c->comm->nrank))
        return nccl_fail(ncclInvalidArgument, c->comm, "%s: %s is %d; ranks are 0 to %d", c->kind->name,
                         c->kind->coll < 0 ? "peer" : "root", root, c->comm->nrank - 1);
    c->root = (uint32_t)root;
    return c->kind->reduces ? nccl_operator_find(c->comm, op, (ncclDataType_t)type, c->kind->name, &c->scale)
                            : ncclSuccess;
}

static ncclResult_t run_now(struct nccl_call *c)
{
    enum plait_status status = nccl_stream_wait(c);

    if (status == PLAIT_OK)
        status = nccl_call_run(c);
    nccl_stream_close(c);
    return nccl_result(status, c->comm, c->kind->name);
}

static ncclResult_t submit(struct nccl_call c, int type, int root, ncclRedOp_t op, cudaStream_t stream,
                           const ncclCollConfig_t *config)
{
    ncclResult_t result = nccl_enter_ready(c.comm, c.kind->name);

    if (result != ncclSuccess)
        return nccl_group_refuse(result);
    result = check(&c, type, root, op);
    if (result == ncclSuccess)
        result = read_config(&c, config);
    if (result == ncclSuccess)
        result = nccl_stream_open(&c, stream);
    c.generation = c.comm->generation;
    c.number = c.kind->coll >= 0 ? atomic_fetch_add(&c.comm->ncollective, 1) : 0;
    if (result == ncclSuccess && nccl_group_is_open())
        result = nccl_stream_check(&c);
    if (result == ncclSuccess)
        result = nccl_group_is_open() ? nccl_group_add(&c) : run_now(&c);
    if (result != ncclSuccess)
        nccl_stream_close(&c);
    nccl_leave(c.comm);
    return nccl_group_refuse(result);
}

#define CALL(which) .kind = &which, .comm = comm

ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(allreduce), .in = sendbuff, .out = recvbuff, .count = count }, datatype, 0,
                  op, stream, config);
}

ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                     const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(reduce_scatter), .in = sendbuff, .out = recvbuff, .count = recvcount },
                  datatype, 0, op, stream, config);
}

ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(allgather), .in = sendbuff, .out = recvbuff, .count = sendcount }, datatype,
                  0, ncclSum, stream, config);
}

ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(alltoall), .in = sendbuff, .out = recvbuff, .count = count }, datatype, 0,
                  ncclSum, stream, config);
}

ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(broadcast), .in = sendbuff, .out = recvbuff, .count = count }, datatype,
                  root, ncclSum, stream, config);
}

ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(reduce), .in = sendbuff, .out = recvbuff, .count = count }, datatype, root,
                  op, stream, config);
}

ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(gather), .in = sendbuff, .out = recvbuff, .count = count }, datatype, root,
                  ncclSum, stream, config);
}

ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
{
    return submit((struct nccl_call){ CALL(scatter), .in = sendbuff, .out = recvbuff, .count = count }, datatype, root,
                  ncclSum, stream, config);
}

/* ---- Without options ----------------------------------------------------------------------------------------- */

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ncclAllReduceConfig(sendbuff, recvbuff, count, datatype, op, comm, stream, NULL);
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ncclReduceScatterConfig(sendbuff, recvbuff, recvcount, datatype, op, comm, stream, NULL);
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ncclAllGatherConfig(sendbuff, recvbuff, sendcount, datatype, comm, stream, NULL);
}

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream)
{
    return ncclAlltoAllConfig(sendbuff, recvbuff, count, datatype, comm, stream, NULL);
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ncclBroadcastConfig(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return ncclBroadcastConfig(buff, buff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    return ncclReduceConfig(sendbuff, recvbuff, count, datatype, op, root, comm, stream, NULL);
}

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return ncclGatherConfig(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream)
{
    return ncclScatterConfig(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return submit((struct nccl_call){ CALL(send), .in = sendbuff, .count = count }, datatype, peer, ncclSum, stream,
                  NULL);
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return submit((struct nccl_call){ CALL(receive), .out = recvbuff, .count = count }, datatype, peer, ncclSum, stream,
                  NULL);
}

NCCL_TWIN(AllReduceConfig);
NCCL_TWIN(ReduceScatterConfig);
NCCL_TWIN(AllGatherConfig);
NCCL_TWIN(AlltoAllConfig);
NCCL_TWIN(BroadcastConfig);
NCCL_TWIN(ReduceConfig);
NCCL_TWIN(GatherConfig);
NCCL_TWIN(ScatterConfig);
NCCL_TWIN(AllReduce);
NCCL_TWIN(ReduceScatter);
NCCL_TWIN(AllGather);
NCCL_TWIN(AlltoAll);
NCCL_TWIN(Broadcast);
NCCL_TWIN(Bcast);
NCCL_TWIN(Reduce);
NCCL_TWIN(Gather);
NCCL_TWIN(Scatter);
NCCL_TWIN(Send);
NCCL_TWIN(Recv);
