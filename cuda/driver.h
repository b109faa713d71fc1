/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA's driver, loaded at run time: the entry points that the plug-in calls, as a table of functions. The types are
 * declared independently, so that the plug-in builds without a toolkit; with one, driver_check.c compares them with
 * cuda.h.
 */
#ifndef PLAIT_CUDA_DRIVER_H
#define PLAIT_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long cu_address;
typedef struct { /* by value, as the driver takes it */
    char bytes[64];
} cu_ipc_handle;

typedef struct {
    char bytes[16];
} cu_uuid;
typedef union { /* a wait for a value of 32 bits, or a write of one */
    struct {
        uint32_t operation;
        cu_address address;
        uint64_t value;
        uint32_t flags;
        cu_address alias;
    } item;
    uint64_t pad[6];
} cu_mem_op;

enum { /* the used values of the driver's enums */
       DRIVER_OK = 0,
       DRIVER_INVALID_VALUE = 1,
       DRIVER_OUT_OF_MEMORY = 2,
       DRIVER_NO_DEVICE = 100,
       DRIVER_INVALID_CONTEXT = 201,
       DRIVER_ALREADY_MAPPED = 208,
       DRIVER_PEER_UNSUPPORTED = 217,
       DRIVER_NOT_FOUND = 500,
       DRIVER_NOT_READY = 600,
       DRIVER_PEER_ALREADY = 704,
       DRIVER_NOT_SUPPORTED = 801,

       DRIVER_MEMORY_HOST = 1,
       DRIVER_MEMORY_DEVICE = 2,

       DRIVER_POINTER_MEMORY_TYPE = 2,
       DRIVER_POINTER_BUFFER_ID = 7,
       DRIVER_POINTER_IS_MANAGED = 8,
       DRIVER_POINTER_DEVICE_ORDINAL = 9,
       DRIVER_POINTER_RANGE_START = 11,
       DRIVER_POINTER_RANGE_SIZE = 12,

       DRIVER_DEVICE_MULTIPROCESSORS = 16,
       DRIVER_DEVICE_CAPABILITY_MAJOR = 75,
       DRIVER_DEVICE_CAPABILITY_MINOR = 76,

       DRIVER_STREAM_NON_BLOCKING = 1,
       DRIVER_STREAM_NORMAL = 0, /* priorities: */
       DRIVER_STREAM_FIRST = -5, /* the driver takes the nearest one */
       DRIVER_WAIT_EQ = 1,
       DRIVER_WAIT_GEQ = 0,
       DRIVER_VALUE_WAIT = 1,
       DRIVER_VALUE_WRITE = 2,
       DRIVER_EVENT_SLEEP = 1, /* who waits for it does not spin */
       DRIVER_EVENT_NO_TIMING = 2,
       DRIVER_IPC_LAZY_PEER = 1,
       DRIVER_HOST_PORTABLE = 1,
       DRIVER_MANAGED_GLOBAL = 1,
       DRIVER_CAPTURE_NONE = 0,
       DRIVER_CAPTURE_THREAD_LOCAL = 1,
       DRIVER_CAPTURE_RELAXED = 2,
};

/* name in the table, name in the driver, arguments */
#define PLAIT_CUDA_DRIVER_LIST(X)                                                                                   \
    X(init, "cuInit", (unsigned flags))                                                                             \
    X(version, "cuDriverGetVersion", (int *out))                                                                    \
    X(error_name, "cuGetErrorName", (int error, const char **out))                                                  \
    X(error_string, "cuGetErrorString", (int error, const char **out))                                              \
    X(device_count, "cuDeviceGetCount", (int *out))                                                                 \
    X(device_attribute, "cuDeviceGetAttribute", (int *out, int attribute, int device))                              \
    X(device_name, "cuDeviceGetName", (char *out, int room, int device))                                            \
    X(can_access, "cuDeviceCanAccessPeer", (int *out, int device, int other))                                       \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **out, int device))                                         \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                \
    X(context_push, "cuCtxPushCurrent_v2", (void *context))                                                         \
    X(context_pop, "cuCtxPopCurrent_v2", (void **out))                                                              \
    X(context_current, "cuCtxGetCurrent", (void **out))                                                             \
    X(context_device, "cuCtxGetDevice", (int *out))                                                                 \
    X(context_synchronize, "cuCtxSynchronize", (void))                                                              \
    X(enable_peer, "cuCtxEnablePeerAccess", (void *context, unsigned flags))                                        \
    X(pointer_attributes, "cuPointerGetAttributes", (unsigned n, int *attributes, void **data, cu_address pointer)) \
    X(mem_alloc, "cuMemAlloc_v2", (cu_address * out, size_t bytes))                                                 \
    X(mem_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                 \
    X(mem_free, "cuMemFree_v2", (cu_address memory))                                                                \
    X(mem_alloc_managed, "cuMemAllocManaged", (cu_address * out, size_t bytes, unsigned flags))                     \
    X(mem_alloc_host, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                                 \
    X(mem_free_host, "cuMemFreeHost", (void *memory))                                                               \
    X(ipc_get, "cuIpcGetMemHandle", (cu_ipc_handle * out, cu_address memory))                                       \
    X(ipc_open, "cuIpcOpenMemHandle_v2", (cu_address * out, cu_ipc_handle handle, unsigned flags))                  \
    X(ipc_close, "cuIpcCloseMemHandle", (cu_address mapped))                                                        \
    X(memset32_async, "cuMemsetD32Async", (cu_address memory, unsigned value, size_t n, void *stream))              \
    X(copy_async, "cuMemcpyAsync", (cu_address to, cu_address from, size_t bytes, void *stream))                    \
    X(stream_create, "cuStreamCreateWithPriority", (void **out, unsigned flags, int priority))                      \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                                         \
    X(stream_context, "cuStreamGetCtx", (void *stream, void **out))                                                 \
    X(stream_id, "cuStreamGetId", (void *stream, unsigned long long *out))                                          \
    X(stream_synchronize, "cuStreamSynchronize", (void *stream))                                                    \
    X(stream_query, "cuStreamQuery", (void *stream))                                                                \
    X(stream_capture, "cuStreamGetCaptureInfo", (void *stream, int *status, unsigned long long *id))                \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                                               \
    X(capture_begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                                           \
    X(capture_end, "cuStreamEndCapture", (void *stream, void **out))                                                \
    X(graph_destroy, "cuGraphDestroy", (void *graph))                                                               \
    X(graph_make, "cuGraphInstantiateWithFlags", (void **out, void *graph, unsigned long long flags))               \
    X(graph_launch, "cuGraphLaunch", (void *made, void *stream))                                                    \
    X(graph_drop, "cuGraphExecDestroy", (void *made))                                                               \
    X(stream_values, "cuStreamBatchMemOp_v2", (void *stream, unsigned n, cu_mem_op *ops, unsigned flags))           \
    X(device_uuid, "cuDeviceGetUuid_v2", (cu_uuid * out, int device))                                               \
    X(stream_wait_event, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))                          \
    X(event_create, "cuEventCreate", (void **out, unsigned flags))                                                  \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                                                            \
    X(event_record, "cuEventRecord", (void *event, void *stream))                                                   \
    X(event_query, "cuEventQuery", (void *event))                                                                   \
    X(event_synchronize, "cuEventSynchronize", (void *event))                                                       \
    X(module_load, "cuModuleLoadData", (void **out, const void *image))                                             \
    X(module_unload, "cuModuleUnload", (void *module))                                                              \
    X(module_function, "cuModuleGetFunction", (void **out, void *module, const char *name))                         \
    X(launch, "cuLaunchKernel",                                                                                     \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,       \
       unsigned block_z, unsigned shared, void *stream, void **arguments, void **extra))

struct plait_cuda_driver {
#define PLAIT_X(name, symbol, arguments) int(*name) arguments;
    PLAIT_CUDA_DRIVER_LIST(PLAIT_X)
#undef PLAIT_X
};

extern struct plait_cuda_driver plait_cuda;                       /* valid after plait_cuda_find() */
extern void (*plait_cuda_seen)(const void *word, uint32_t value); /* of a stand-in for tests; a driver has none: NULL */

/* Load the driver from `path`, or libcuda.so.1 if that is "", and fill the table. Returns NULL, or the error. */
const char *plait_cuda_find(const char *path);

/* The end of error texts where GPUs do not reach each other's memory. */
#define PLAIT_CUDA_NO_PEERS ": use GPUs with peer access (nvidia-smi topo -p2p r)"

/*
 * The error text of a failed driver call: `call`, or what it was for, the driver's words and the error's name. NULL for
 * DRIVER_OK.
 */
const char *plait_cuda_why(int error, const char *call);

/* Memory of the current context's GPU, not zeroed. Returns NULL, or the error, with what is free. */
const char *plait_cuda_take(size_t bytes, cu_address *out);
const char *plait_cuda_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __clang_analyzer__ /* as in lib/base/status.h */
#define plait_cuda_say(...) (plait_cuda_say(__VA_ARGS__), "")
#endif

#endif
