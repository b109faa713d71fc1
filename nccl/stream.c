/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include "error.h"
#include "group.h"

#include <plait/memory.h>
#include <plait/stream.h>

/* A buffer that this rank uses: in a rooted collective only the root uses both. */
static const void *buffer_of(const struct nccl_call *c)
{
    const bool root = c->kind->rooted && c->root == (uint32_t)c->comm->rank;

    switch (c->kind->coll) {
    case PLAIT_BROADCAST:
    case PLAIT_SCATTER:
        return root ? c->in : c->out;
    default:
        return c->in != NULL ? c->in : c->out;
    }
}

static ncclResult_t take(struct nccl_call *c, cudaStream_t stream)
{
    enum plait_status status = c->comm->gpu ? plait_stream_create_cuda_on(c->comm->device, stream, &c->on)
                                            : plait_stream_create_cuda(stream, &c->on);

    return nccl_result(status, c->comm, c->kind->name);
}

/* A stream is given: is there a GPU? */
static ncclResult_t find_gpu(const struct nccl_call *c)
{
    bool gpu = c->comm->gpu;
    int device;

    const ncclResult_t result = gpu ? ncclSuccess : nccl_device_now(c->kind->name, &device, &gpu);
    if (result != ncclSuccess || gpu)
        return result;
    return nccl_fail(ncclInvalidUsage, c->comm,
                     "%s: stream is %p: it must be NULL without CUDA, as memory is the host's", c->kind->name,
                     (void *)c->native);
}

ncclResult_t nccl_stream_open(struct nccl_call *c, cudaStream_t stream)
{
    enum plait_memory kind = PLAIT_MEMORY_DEVICE; /* as the operation reports */
    enum plait_status status = PLAIT_OK;
    ncclResult_t result = ncclSuccess;

    c->on = NULL;
    c->native = stream;
    c->blocks = false;
    if (stream != NULL)
        result = find_gpu(c);
    else if (c->count > 0 || !c->comm->gpu) /* else no rank uses its pointers */
        status = plait_mem_kind(buffer_of(c), &kind, NULL);
    if (result != ncclSuccess || status != PLAIT_OK)
        return result != ncclSuccess ? result : nccl_result(status, c->comm, c->kind->name);
    if (kind == PLAIT_MEMORY_HOST)
        return ncclSuccess;
    c->blocks = kind != PLAIT_MEMORY_DEVICE;
    c->shared = nccl_group_stream(c->comm, stream);
    if (c->shared == NULL)
        return take(c, stream);
    c->on = c->shared->on;
    return ncclSuccess;
}

static ncclResult_t check_buffer(const struct nccl_call *c, const char *which, const void *memory)
{
    enum plait_memory kind = PLAIT_MEMORY_DEVICE;
    int device = -1;
    const enum plait_status status = plait_mem_kind(memory, &kind, &device);

    if (status != PLAIT_OK)
        return nccl_result(status, c->comm, c->kind->name);
    if (device < 0)
        return nccl_fail(ncclInvalidArgument, c->comm,
                         "%s: %s is %p, which is %s%s; the stream needs device memory of its GPU: copy it there",
                         c->kind->name, which, memory,
                         kind == PLAIT_MEMORY_HOST ? "memory that CUDA does not know (host memory, or freed)"
                                                   : plait_memory_name(kind),
                         kind == PLAIT_MEMORY_HOST ? "" : " memory");
    if (c->comm->gpu && device != c->comm->device)
        return nccl_fail(ncclInvalidArgument, c->comm,
                         "%s: %s is %p, which is device memory of GPU %d, but the comm is of GPU %d", c->kind->name,
                         which, memory, device, c->comm->device);
    return ncclSuccess;
}

ncclResult_t nccl_stream_check(const struct nccl_call *c)
{
    ncclResult_t result = ncclSuccess;

    if (!nccl_call_streams(c) || c->kind->coll != PLAIT_ALLREDUCE || c->count == 0)
        return ncclSuccess;
    if (c->in != NULL)
        result = check_buffer(c, "sendbuff", c->in);
    if (result == ncclSuccess && c->out != NULL && c->out != c->in)
        result = check_buffer(c, "recvbuff", c->out);
    return result;
}

void nccl_stream_close(struct nccl_call *c)
{
    if (c->shared == NULL)
        plait_stream_destroy(c->on);
    c->on = NULL;
}

enum plait_status nccl_stream_wait(const struct nccl_call *c)
{
    return c->blocks ? plait_stream_synchronize(c->on) : PLAIT_OK;
}

ncclResult_t nccl_device_now(const char *call, int *device, bool *gpu)
{
    int now = -1;
    const ncclResult_t result = nccl_result(plait_device_now(&now), NULL, call);

    *gpu = now >= 0;
    *device = now >= 0 ? now : 0;
    return result;
}

/* Without GPUs, a number for the caller's own use: the host has no devices. */
ncclResult_t nccl_device_check(int device, bool gpu, const char *call)
{
    struct plait_stream *default_one = NULL;
    enum plait_status status;

    if (device < 0)
        return nccl_fail(ncclInvalidArgument, NULL, "%s: device %d: must be 0 or more", call, device);
    if (!gpu)
        return ncclSuccess;
    status = plait_stream_create_cuda_on(device, NULL, &default_one);
    plait_stream_destroy(default_one);
    return nccl_result(status, NULL, call);
}
