/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_memory.h"

#include <string.h>

const char *plait_cuda_locate(const void *memory, struct plait_location *out)
{
    unsigned type = 0, managed = 0;
    int device = -1;
    int attributes[] = { DRIVER_POINTER_MEMORY_TYPE, DRIVER_POINTER_IS_MANAGED, DRIVER_POINTER_DEVICE_ORDINAL };
    void *data[] = { &type, &managed, &device };
    const char *why;

    CALL(NULL, "cuPointerGetAttributes",
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
    const char *why = plait_cuda_why(plait_cuda.mem_alloc(&memory, bytes), "cuMemAlloc");

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

const char *plait_cuda_export(const void *memory, struct plait_exported *out)
{
    unsigned long long id = 0;
    void *start = NULL;
    size_t size = 0;
    int attributes[] = { DRIVER_POINTER_BUFFER_ID, DRIVER_POINTER_RANGE_START, DRIVER_POINTER_RANGE_SIZE };
    void *data[] = { &id, &start, &size };
    cu_ipc_handle handle;
    const char *why;

    _Static_assert(sizeof handle == sizeof out->handle, "one is the other");
    TWICE(NULL, "cuPointerGetAttributes",
          plait_cuda.pointer_attributes(sizeof data / sizeof *data, attributes, data, (cu_address)(uintptr_t)memory));
    const struct plait_exported found = { .id = id, .base = (uintptr_t)start, .bytes = size };
    if (why != NULL || (id != 0 && plait_is_same_export(&found, out)))
        return why;
    TWICE(NULL, "cuIpcGetMemHandle", plait_cuda.ipc_get(&handle, found.base));
    if (why != NULL)
        return why;
    *out = found;
    memcpy(out->handle, &handle, sizeof handle);
    return NULL;
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
        return plait_cuda_say("GPU %d cannot reach the memory of the GPU that another process uses", device);
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
        return plait_cuda_say("GPU %d cannot reach the memory of GPU %d", device, other);
    if (why == NULL) {
        int error = DRIVER_OK;
        INSIDE(gpu, error = plait_cuda.enable_peer(peer->context, 0));
        if (why == NULL && error != DRIVER_PEER_ALREADY)
            why = plait_cuda_why(error, "cuCtxEnablePeerAccess");
    }
    return why;
}
