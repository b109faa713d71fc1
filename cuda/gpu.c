/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include "kernels/images.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_GPUS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct gpu *) gpus[MOST_GPUS];

static const struct {
    const char *name;
    unsigned threads;
} kernels[] = {
#define PLAIT_X(name, args, threads) { #name, threads },
    PLAIT_CUDA_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
};

/* Calls that restore state are tried twice: a call may return the error of an earlier asynchronous one. */
static void pop(const struct inside *inside)
{
    void *context;

    if (inside->pushed && plait_cuda.context_pop(&context) != DRIVER_OK)
        plait_cuda.context_pop(&context);
}

const char *plait_cuda_enter(const struct gpu *gpu, bool puts, struct inside *inside)
{
    void *current = NULL, *wanted = gpu != NULL ? gpu->context : NULL;

    *inside = (struct inside){ .puts = puts, .mode = DRIVER_CAPTURE_RELAXED };
    if (plait_cuda.context_current(&current) != DRIVER_OK)
        current = NULL;
    for (size_t i = 0; wanted == NULL && current == NULL && i < MOST_GPUS; i++) {
        const struct gpu *any = atomic_load(&gpus[i]);
        wanted = any != NULL ? any->context : NULL;
    }
    if (wanted != NULL && wanted != current) {
        const char *why = plait_cuda_why(plait_cuda.context_push(wanted), "cuCtxPushCurrent");
        if (why != NULL)
            return why;
        inside->pushed = true;
    }
    if (puts)
        return NULL;
    const char *why = plait_cuda_why(plait_cuda.capture_mode(&inside->mode), "cuThreadExchangeStreamCaptureMode");
    if (why != NULL)
        pop(inside);
    return why;
}

void plait_cuda_leave(const struct inside *inside)
{
    int mode = inside->mode;

    if (!inside->puts &&
        plait_cuda.capture_mode(&mode) != DRIVER_OK) { /* the thread must not stay in our context: try again */
        mode = inside->mode;
        plait_cuda.capture_mode(&mode);
    }
    pop(inside);
}

enum { MOST_MODULES = 16 };

static const char *find_function(void *const *modules, size_t n, const char *name, void **out)
{
    for (size_t i = 0; i < n; i++) {
        const int error = plait_cuda.module_function(out, modules[i], name);
        if (error != DRIVER_NOT_FOUND)
            return plait_cuda_why(error, "cuModuleGetFunction");
    }
    return plait_cuda_say("this build of Plait has no device code for %s: build it where nvcc is", name);
}

/* A driver refuses PTX newer than itself with several error codes. */
static const char *load_image(const struct plait_cuda_image *image, void **out)
{
    const char *why = plait_cuda_why(plait_cuda.module_load(out, image->data), "cuModuleLoadData");
    char error[64];
    Dl_info own = { .dli_fname = "the plug-in" };
    int driver = 0;

    if (why == NULL)
        return NULL;
    snprintf(error, sizeof error, "%s", why);
    plait_cuda.version(&driver);
    dladdr(kernels, &own);
    return plait_cuda_say("%s: the device code was built by %s; the driver is of CUDA %d.%d, and must not be older: "
                          "install a newer driver, or build %s again, with an older nvcc or with -Dgpu_architectures",
                          error, plait_cuda_images_by, driver / 1000, driver % 1000 / 10, own.dli_fname);
}

static const char *load_kernels(struct gpu *gpu)
{
    void *modules[MOST_MODULES];
    size_t n = 0;
    const char *why = NULL;

    for (const struct plait_cuda_image *i = plait_cuda_images; i->name != NULL && n < MOST_MODULES && why == NULL;
         i++) {
        why = load_image(i, &modules[n]);
        n += why == NULL;
    }
    for (size_t k = 0; k < PLAIT_CUDA_NKERNEL && why == NULL; k++)
        why = find_function(modules, n, kernels[k].name, &gpu->function[k]);
    while (why != NULL && n > 0)
        plait_cuda.module_unload(modules[--n]);
    return why;
}

/*
 * Waits for values in memory, and writes of them, in the order of a stream: no attribute of a GPU says whether it has
 * them, so one is tried.
 */
static const char *try_values(const struct gpu *gpu)
{
    cu_mem_op write = { .item = { .operation = DRIVER_VALUE_WRITE } };
    const char *why = plait_cuda_why(plait_cuda.mem_alloc(&write.item.address, sizeof(uint32_t)), "cuMemAlloc");

    if (why != NULL)
        return why;
    const int error = plait_cuda.stream_values(gpu->stream, 1, &write, 0);
    const int ended = plait_cuda.stream_synchronize(gpu->stream);
    if (plait_cuda.mem_free(write.item.address) != DRIVER_OK)
        plait_cuda.mem_free(write.item.address);
    if (error == DRIVER_NOT_SUPPORTED)
        return plait_cuda_say(
            "GPU %d, or its driver, has no batched memory operations of streams, with which ranks wait "
            "for each other (cuStreamBatchMemOp: CUDA_ERROR_NOT_SUPPORTED): use another GPU, or a "
            "newer driver",
            gpu->device);
    why = plait_cuda_why(error, "cuStreamBatchMemOp");
    return why == NULL ? plait_cuda_why(ended, "cuStreamSynchronize") : why;
}

/* With its context current. */
static const char *fill_gpu(struct gpu *gpu)
{
    int n = 0;
    const char *why = plait_cuda_why(plait_cuda.device_attribute(&n, DRIVER_DEVICE_MULTIPROCESSORS, gpu->device),
                                     "cuDeviceGetAttribute");

    gpu->most_blocks = 8 * (unsigned)n;
    if (why == NULL) /* for work that the host waits for, which must not queue behind work that waits for the host */
        why = plait_cuda_why(plait_cuda.stream_create(&gpu->stream, DRIVER_STREAM_NON_BLOCKING, DRIVER_STREAM_FIRST),
                             "cuStreamCreateWithPriority");
    if (why != NULL)
        return why;
    why = try_values(gpu);
    if (why == NULL)
        why = load_kernels(gpu);
    if (why != NULL)
        plait_cuda.stream_destroy(gpu->stream);
    return why;
}

static const char *open_gpu(int device, struct gpu **out)
{
    struct gpu *gpu = calloc(1, sizeof *gpu);
    struct inside inside;
    const char *why = gpu == NULL ? plait_cuda_say("out of memory for a GPU") : NULL;

    if (why == NULL)
        why = plait_cuda_why(plait_cuda.context_retain(&gpu->context, device), "cuDevicePrimaryCtxRetain");
    if (why != NULL) {
        free(gpu);
        return why;
    }
    gpu->device = device;
    why = plait_cuda_enter(gpu, false, &inside);
    if (why == NULL) {
        why = fill_gpu(gpu);
        plait_cuda_leave(&inside);
    }
    if (why == NULL) {
        *out = gpu;
    } else {
        plait_cuda.context_release(device);
        free(gpu);
    }
    return why;
}

const char *plait_cuda_current(int *out)
{
    const int error = plait_cuda.context_device(out);

    if (error != DRIVER_INVALID_CONTEXT)
        return plait_cuda_why(error, "cuCtxGetDevice");
    *out = 0;
    return NULL;
}

const char *plait_cuda_gpu(int device, struct gpu **out)
{
    const char *why = NULL;
    int n = 0;

    if (device < 0)
        why = plait_cuda_current(&device);
    if (why != NULL)
        return why;
    if (device < MOST_GPUS && (*out = atomic_load(&gpus[device])) != NULL)
        return NULL;
    why = plait_cuda_why(plait_cuda.device_count(&n), "cuDeviceGetCount");
    if (why == NULL && (device >= n || device >= MOST_GPUS))
        return plait_cuda_say("there is no GPU %d: the driver has %d", device, n);
    pthread_mutex_lock(&lock);
    if (why == NULL && (*out = atomic_load(&gpus[device])) == NULL) {
        why = open_gpu(device, out);
        if (why == NULL)
            atomic_store(&gpus[device], *out);
    }
    pthread_mutex_unlock(&lock);
    return why;
}

const char *plait_cuda_launch(const struct gpu *gpu, void *stream, enum plait_cuda_kernel kernel, unsigned blocks,
                              const void *argument)
{
    void *arguments[] = { (void *)(uintptr_t)argument };
    const int error = plait_cuda.launch(gpu->function[kernel], blocks, 1, 1, kernels[kernel].threads, 1, 1, 0, stream,
                                        arguments, NULL);

    return plait_cuda_why(error, kernels[kernel].name);
}
