/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of tests with memory and streams of a GPU, as programs have them: from the driver that PLAIT_CUDA_DRIVER names, which is
 * the stand-in (tests/cuda/standin.h).
 */
#ifndef PLAIT_TESTS_NCCL_GPU_H
#define PLAIT_TESTS_NCCL_GPU_H

#include "../cuda/capture.h"
#include "../cuda/driver_types.h"
#include "../cuda/standin_ask.h"
#include "ranks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, the driver's, its arguments */
#define GPU_CALL_LIST(X)                                                                      \
    X(init, "cuInit", (unsigned))                                                             \
    X(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                     \
    X(set_current, "cuCtxSetCurrent", (void *))                                               \
    X(alloc, "cuMemAlloc_v2", (unsigned long long *, size_t))                                 \
    X(free, "cuMemFree_v2", (unsigned long long))                                             \
    X(alloc_managed, "cuMemAllocManaged", (unsigned long long *, size_t, unsigned))           \
    X(alloc_pinned, "cuMemHostAlloc", (void **, size_t, unsigned))                            \
    X(free_pinned, "cuMemFreeHost", (void *))                                                 \
    X(copy, "cuMemcpyAsync", (unsigned long long, unsigned long long, size_t, void *))        \
    X(stream_create, "cuStreamCreate", (void **, unsigned))                                   \
    X(stream_destroy, "cuStreamDestroy_v2", (void *))                                         \
    X(synchronize, "cuStreamSynchronize", (void *))                                           \
    X(query, "cuStreamQuery", (void *))                                                       \
    X(wait_value, "cuStreamWaitValue32_v2", (void *, unsigned long long, uint32_t, unsigned)) \
    X(call, "cuLaunchHostFunc", (void *, void (*)(void *), void *))                           \
    X(event_create, "cuEventCreate", (void **, unsigned))                                     \
    X(event_destroy, "cuEventDestroy_v2", (void *))                                           \
    X(event_record, "cuEventRecord", (void *, void *))                                        \
    X(wait_event, "cuStreamWaitEvent", (void *, void *, unsigned))                            \
    X(capture_begin, "cuStreamBeginCapture_v2", (void *, int))                                \
    X(capture_end, "cuStreamEndCapture", (void *, void **))                                   \
    X(instantiate, "cuGraphInstantiateWithFlags", (void **, void *, unsigned long long))      \
    X(launch, "cuGraphLaunch", (void *, void *))                                              \
    X(exec_destroy, "cuGraphExecDestroy", (void *))                                           \
    X(graph_destroy, "cuGraphDestroy", (void *))                                              \
    X(context_create, "cuCtxCreate_v2", (void **, unsigned, int))                             \
    X(context_destroy, "cuCtxDestroy_v2", (void *))

/* The same of CUDA 12.4, for conditional nodes; NULL: the driver is older. */
#define GPU_NEWER_CALL_LIST(X)                                                                                     \
    X(graph_create, "cuGraphCreate", (void **, unsigned))                                                          \
    X(handle_create, "cuGraphConditionalHandleCreate", (unsigned long long *, void *, void *, unsigned, unsigned)) \
    X(add_node, "cuGraphAddNode_v2", (void **, void *, void *const *, const void *, size_t, cu_node_params *))     \
    X(capture_into, "cuStreamBeginCaptureToGraph", (void *, void *, void *const *, const void *, size_t, int))

struct gpu_driver {
#define PLAIT_X(name, symbol, arguments) int(*name) arguments;
    GPU_CALL_LIST(PLAIT_X)
    GPU_NEWER_CALL_LIST(PLAIT_X)
#undef PLAIT_X
};
extern struct gpu_driver gpu; /* after gpu_use() in this process */

struct gpu_rank {
    cudaStream_t stream;
    float *in, *out; /* [elements] of the GPU */
    float *host;     /* [elements] of the host, pinned */
    size_t elements;
};

/* Of the stand-in, in this process; with a driver nothing. From now on streams of failed comms may pass in any order. */
struct standin_left gpu_left(void);
void gpu_careless(void);
/* The n-th call of this thread from now on fails, until gpu_disarm(): the name of the one that did, or NULL. */
void gpu_arm(unsigned n, int error);
const char *gpu_disarm(void);
/* Memory that this thread allocates from now on has no IPC handle; false: a driver is not asked for that. */
bool gpu_hide(bool hide);

/* Can there be two of them? */
bool gpu_has_two(void);

/* This device is the thread's current one. */
bool gpu_use(int device);
/* With memory of the current device. */
bool gpu_begin(struct gpu_rank *g, size_t elements);
bool gpu_end(struct gpu_rank *g);

/* Pinned memory, which copies of a stream need where nobody is to wait for it; zeroed. */
void *gpu_pinned(size_t bytes);

/* On this stream; gpu_get() waits for it. */
bool gpu_put(void *to, const void *from, size_t bytes, cudaStream_t stream);
bool gpu_get(void *to, const void *from, size_t bytes, cudaStream_t stream);

/* What comes on `stream` waits for what is on `other`, whose capture it joins if there is one. */
bool gpu_follow(cudaStream_t stream, cudaStream_t other);

/* ranks_run(), of ranks that make their comms themselves, with devices of their own. */
int gpu_ranks_run(struct ranks r);
int gpu_run(int nprocess, int nthread, int (*body)(ncclComm_t *comm, int rank, int nrank));

#endif
