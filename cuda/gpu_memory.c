/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_memory.h"

#include <pthread.h>
#include <string.h>

const char *plait_cuda_locate(const void *memory, struct plait_location *out)
{
    unsigned type = 0, managed = 0;
    int device = -1;
    int attributes[] = { DRIVER_POINTER_MEMORY_TYPE, DRIVER_POINTER_IS_MANAGED, DRIVER_POINTER_DEVICE_ORDINAL };
    void *data[] = { &type, &managed, &device };
    const char *why;

    PUT(NULL, "cuPointerGetAttributes",
        plait_cuda.pointer_attributes(sizeof data / sizeof *data, attributes, data, (cu_address)(uintptr_t)memory));
    if (why != NULL)
        return why;
    *out = (struct plait_location){ .kind = managed                        ? PLAIT_MEMORY_MANAGED
                                            : type == DRIVER_MEMORY_DEVICE ? PLAIT_MEMORY_DEVICE
                                            : type == DRIVER_MEMORY_HOST   ? PLAIT_MEMORY_PINNED
                                                                           : PLAIT_MEMORY_HOST,
                                    .device = type == DRIVER_MEMORY_DEVICE || managed ? device : -1 };
    return NULL;
}

static const char *zero(const struct gpu *gpu, cu_address memory, size_t bytes)
{
    const char *why = plait_cuda_why(plait_cuda.memset32_async(memory, 0, bytes / 4, gpu->stream), "cuMemsetD32Async");

    return why == NULL ? plait_cuda_why(plait_cuda.stream_synchronize(gpu->stream), "cuStreamSynchronize") : why;
}

static const char *alloc_device(const struct gpu *gpu, size_t bytes, void **out)
{
    cu_address memory = 0;
    const char *why = plait_cuda_take(bytes, &memory);

    if (why == NULL)
        why = zero(gpu, memory, bytes);
    if (why == NULL)
        *out = (void *)(uintptr_t)memory;
    else if (memory != 0)
        plait_cuda.mem_free(memory);
    return why;
}

static const char *alloc_other(enum plait_memory kind, size_t bytes, void **out)
{
    cu_address memory = 0;
    void *host = NULL;
    const bool managed = kind == PLAIT_MEMORY_MANAGED;
    const char *why =
        managed
            ? plait_cuda_why(plait_cuda.mem_alloc_managed(&memory, bytes, DRIVER_MANAGED_GLOBAL), "cuMemAllocManaged")
            : plait_cuda_why(plait_cuda.mem_alloc_host(&host, bytes, DRIVER_HOST_PORTABLE), "cuMemHostAlloc");

    if (why != NULL)
        return why;
    *out = managed ? (void *)(uintptr_t)memory : host;
    memset(*out, 0, bytes);
    return NULL;
}

const char *plait_cuda_alloc(enum plait_memory kind, int device, size_t bytes, void **out)
{
    const size_t whole = (bytes + 3) / 4 * 4;
    struct gpu *gpu;
    const char *why = plait_cuda_gpu(device, &gpu);

    if (why == NULL)
        INSIDE(gpu, why = kind == PLAIT_MEMORY_DEVICE ? alloc_device(gpu, whole, out) : alloc_other(kind, whole, out));
    return why;
}

const char *plait_cuda_free(enum plait_memory kind, void *memory)
{
    const char *why;

    if (kind == PLAIT_MEMORY_PINNED)
        TWICE(NULL, "cuMemFreeHost", plait_cuda.mem_free_host(memory));
    else
        TWICE(NULL, "cuMemFree", plait_cuda.mem_free((cu_address)(uintptr_t)memory));
    return why;
}

/* ---- Other processes, other GPUs -------------------------------------------------------------------- */

/* The driver's answers for allocations, whose ids are never reused; each replaces an older one in its place. */
enum { MOST_KNOWN = 256 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct answer {
    struct plait_exported memory;
    int error; /* it has no handle */
} known[MOST_KNOWN];

static const char *ask(const struct plait_exported *memory, struct answer *out)
{
    struct answer a = { *memory, DRIVER_OK };
    cu_ipc_handle handle;
    const char *why;

    _Static_assert(sizeof handle == sizeof a.memory.handle, "one is the other");
    TWICE(NULL, "cuIpcGetMemHandle", a.error = plait_cuda.ipc_get(&handle, memory->base));
    if (why == NULL)
        memcpy(a.memory.handle, &handle, sizeof handle);
    if (why == NULL || a.error != DRIVER_OK)
        *out = a;
    return why;
}

const char *plait_cuda_export(const void *memory, struct plait_exported *out)
{
    unsigned long long id = 0;
    void *start = NULL;
    size_t size = 0;
    int attributes[] = { DRIVER_POINTER_BUFFER_ID, DRIVER_POINTER_RANGE_START, DRIVER_POINTER_RANGE_SIZE };
    void *data[] = { &id, &start, &size };
    const char *why = "";

    for (int i = 0; i < 2 && why != NULL; i++)
        PUT(NULL, "cuPointerGetAttributes",
            plait_cuda.pointer_attributes(sizeof data / sizeof *data, attributes, data, (cu_address)(uintptr_t)memory));
    if (why != NULL)
        return why;
    const struct plait_exported found = { .id = id, .base = (uintptr_t)start, .bytes = size };
    struct answer *a = &known[id % MOST_KNOWN];
    pthread_mutex_lock(&lock);
    if (id != 0 && plait_is_same_export(&found, &a->memory))
        why = a->error != DRIVER_OK ? plait_cuda_why(a->error, "cuIpcGetMemHandle") : NULL;
    else
        why = ask(&found, a);
    if (why == NULL)
        *out = a->memory;
    pthread_mutex_unlock(&lock);
    return why;
}

const char *plait_cuda_import(const struct plait_exported *memory, int device, void **out, bool *taken)
{
    struct gpu *gpu;
    cu_ipc_handle copy;
    cu_address at = 0;
    const char *why = plait_cuda_gpu(device, &gpu);

    memcpy(&copy, memory->handle, sizeof copy);
    int error = DRIVER_OK;
    if (why == NULL)
        INSIDE(gpu, error = plait_cuda.ipc_open(&at, copy, DRIVER_IPC_LAZY_PEER));
    if (why == NULL && error == DRIVER_PEER_UNSUPPORTED)
        return plait_cuda_say("GPU %d cannot reach the memory of the GPU that another process uses" PLAIT_CUDA_NO_PEERS,
                              device);
    *taken = error == DRIVER_ALREADY_MAPPED;
    if (why == NULL)
        why = plait_cuda_why(error, "cuIpcOpenMemHandle");
    if (why == NULL)
        *out = (void *)(uintptr_t)at;
    return why;
}

const char *plait_cuda_close_import(void *mapped)
{
    const char *why;

    TWICE(NULL, "cuIpcCloseMemHandle", plait_cuda.ipc_close((cu_address)(uintptr_t)mapped));
    return why;
}

const char *plait_cuda_enable_peer(int device, int other)
{
    struct gpu *gpu, *peer;
    int able = 0;
    const char *why = plait_cuda_gpu(device, &gpu);

    if (why != NULL || device == other)
        return why;
    why = plait_cuda_gpu(other, &peer);
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.can_access(&able, device, other), "cuDeviceCanAccessPeer");
    if (why == NULL && !able)
        return plait_cuda_say("GPU %d cannot reach the memory of GPU %d" PLAIT_CUDA_NO_PEERS, device, other);
    if (why == NULL) {
        int error = DRIVER_OK;
        INSIDE(gpu, error = plait_cuda.enable_peer(peer->context, 0));
        if (why == NULL && error != DRIVER_PEER_ALREADY)
            why = plait_cuda_why(error, "cuCtxEnablePeerAccess");
    }
    return why;
}
