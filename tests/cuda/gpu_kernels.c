/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_kernels.h"

#include "../random.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS(X)                                                                       \
    X(init, "cuInit", (unsigned))                                                      \
    X(device_name, "cuDeviceGetName", (char *, int, int))                              \
    X(device_attribute, "cuDeviceGetAttribute", (int *, int, int))                     \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **, int))                      \
    X(context_push, "cuCtxPushCurrent_v2", (void *))                                   \
    X(mem_alloc, "cuMemAlloc_v2", (unsigned long long *, size_t))                      \
    X(mem_free, "cuMemFree_v2", (unsigned long long))                                  \
    X(copy, "cuMemcpyAsync", (unsigned long long, unsigned long long, size_t, void *)) \
    X(stream_create, "cuStreamCreate", (void **, unsigned))                            \
    X(stream_wait, "cuStreamSynchronize", (void *))                                    \
    X(module_load, "cuModuleLoadData", (void **, const void *))                        \
    X(module_function, "cuModuleGetFunction", (void **, void *, const char *))         \
    X(launch, "cuLaunchKernel",                                                        \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

static struct {
#define PLAIT_X(name, symbol, arguments) int(*name) arguments;
    CALLS(PLAIT_X)
#undef PLAIT_X
} driver;

static const struct {
    const char *symbol;
    size_t offset;
} entries[] = {
#define PLAIT_X(name, symbol, arguments) { symbol, offsetof(__typeof__(driver), name) },
    CALLS(PLAIT_X)
#undef PLAIT_X
};

static const struct {
    const char *name;
    unsigned threads;
} kernels[] = {
#define PLAIT_X(name, args, threads) { #name, threads },
    PLAIT_CUDA_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
};

static void *functions[PLAIT_CUDA_NKERNEL], *stream;
static char name[128];
static unsigned most_blocks;

/* Did the call work? It is said which did not. */
static bool right(int error, const char *call)
{
    if (error != 0)
        fprintf(stderr, "%s: CUDA error %d\n", call, error);
    return error == 0;
}

static bool load_driver(void)
{
    const char *path = getenv("PLAIT_CUDA_DRIVER");
    void *handle = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *function = dlsym(handle, entries[i].symbol);
        if (function == NULL)
            fprintf(stderr, "the driver has no %s\n", entries[i].symbol);
        if (function == NULL)
            return false;
        *(void **)(void *)((char *)&driver + entries[i].offset) = function;
    }
    return true;
}

bool gpu_load(const struct plait_cuda_image *images, const char *const *names, size_t n, void **found)
{
    for (const struct plait_cuda_image *i = images; i->name != NULL; i++) {
        void *module;
        if (!right(driver.module_load(&module, i->data), i->name))
            return false;
        for (size_t k = 0; k < n; k++)
            if (found[k] == NULL && driver.module_function(&found[k], module, names[k]) != 0)
                found[k] = NULL;
    }
    for (size_t k = 0; k < n; k++)
        if (found[k] == NULL) {
            fprintf(stderr, "this build has no device code for %s: build it where nvcc is\n", names[k]);
            return false;
        }
    return true;
}

static bool load_kernels(void)
{
    const char *names[PLAIT_CUDA_NKERNEL];

    for (size_t k = 0; k < PLAIT_CUDA_NKERNEL; k++)
        names[k] = kernels[k].name;
    return gpu_load(plait_cuda_images, names, PLAIT_CUDA_NKERNEL, functions);
}

bool gpu_open(void)
{
    enum { MULTIPROCESSORS = 16 };
    void *context;
    int n;

    if (!load_driver() || !right(driver.init(0), "cuInit") ||
        !right(driver.device_name(name, sizeof name, 0), "cuDeviceGetName") ||
        !right(driver.device_attribute(&n, MULTIPROCESSORS, 0), "cuDeviceGetAttribute") ||
        !right(driver.context_retain(&context, 0), "cuDevicePrimaryCtxRetain") ||
        !right(driver.context_push(context), "cuCtxPushCurrent") ||
        !right(driver.stream_create(&stream, 1), "cuStreamCreate"))
        return false;
    most_blocks = 8 * (unsigned)n;
    return load_kernels();
}

const char *gpu_name(void)
{
    return name;
}

unsigned gpu_most_blocks(void)
{
    return most_blocks;
}

bool gpu_run(void *function, const char *what, unsigned threads, unsigned blocks, const void *argument)
{
    void *arguments[] = { (void *)(uintptr_t)argument };

    return right(driver.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL), what);
}

bool gpu_launch(enum plait_cuda_kernel kernel, unsigned blocks, const void *argument)
{
    return gpu_run(functions[kernel], kernels[kernel].name, kernels[kernel].threads, blocks, argument);
}

bool gpu_copy(uint64_t to, uint64_t from, size_t bytes)
{
    return right(driver.copy(to, from, bytes, stream), "cuMemcpyAsync");
}

bool gpu_wait(void)
{
    return right(driver.stream_wait(stream), "cuStreamSynchronize");
}

bool room_copy_in(const struct room *room, size_t from, size_t bytes)
{
    return gpu_copy(room->device + from, (uintptr_t)room->host + from, bytes) && gpu_wait();
}

bool room_copy_out(const struct room *room, void *to, size_t from, size_t bytes)
{
    return gpu_copy((uintptr_t)to, room->device + from, bytes) && gpu_wait();
}

bool room_make(struct room *room, size_t bytes)
{
    unsigned long long device = 0;
    uint64_t seed = bytes;

    room->host = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (room->host == NULL || !right(driver.mem_alloc(&device, bytes), "cuMemAlloc")) {
        free(room->host);
        return false;
    }
    room->device = device;
    room->bytes = bytes;
    for (size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
        const float value = (float)(random_next(&seed) % 9) - 4;
        memcpy(room->host + i, &value, sizeof value);
    }
    return room_copy_in(room, 0, bytes);
}

void room_free(struct room *room)
{
    driver.mem_free(room->device);
    free(room->host);
}
