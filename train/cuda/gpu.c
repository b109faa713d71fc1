/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include "../../cuda/driver.h"

#include <plait/config.h>

#include <string.h>

enum { OLDEST_DRIVER = 12000, OLDEST_GPU = 75, OLDEST_BF16 = 80, MIB = 1 << 20 };

/* The value of a setting of the library, which is "" unless somebody set it. */
static void setting(const char *name, char out[256])
{
    struct plait_setting s;

    out[0] = '\0';
    for (size_t k = 0; plait_config_get(k, &s) == PLAIT_OK; k++)
        if (strcmp(s.name, name) == 0)
            memcpy(out, s.value, sizeof s.value);
}

/* For tests, as the library does it (lib/memory/devices.c). */
static const char *driver_file(char out[256])
{
    char tests[256];

    setting("PLAIT_CUDA_DRIVER", out);
    setting("PLAIT_FOR_TESTS", tests);
    if (out[0] != '\0' && strcmp(tests, "1") != 0)
        return plait_cuda_say("PLAIT_CUDA_DRIVER is set, which is for tests only: unset it, or set PLAIT_FOR_TESTS=1 "
                              "too");
    return NULL;
}

static const char *no_gpu(void)
{
    return plait_cuda_say("there is no GPU here that CUDA's driver can use: see nvidia-smi, CUDA_VISIBLE_DEVICES, and "
                          "whether the container was given its GPUs");
}

static const char *start_driver(void)
{
    const int status = plait_cuda.init(0);

    if (status == DRIVER_NO_DEVICE)
        return no_gpu();
    return status == DRIVER_OK
               ? NULL
               : plait_cuda_say("%s: see nvidia-smi", plait_cuda_why(status, "cannot start the driver of the GPUs"));
}

static const char *find_driver(int *version)
{
    char file[256];
    const char *why = driver_file(file);

    if (why == NULL)
        why = plait_cuda_find(file);
    if (why != NULL && strncmp(why, "cuInit:", strlen("cuInit:")) == 0) /* all entries were found */
        why = start_driver();
    if (why != NULL)
        return why;
    why = plait_cuda_why(plait_cuda.version(version), "cannot ask the driver for its version");
    if (why == NULL && *version < OLDEST_DRIVER)
        return plait_cuda_say("the driver is of CUDA %d.%d: install a driver of CUDA 12 or newer", *version / 1000,
                              *version % 1000 / 10);
    return why;
}

static const char *attribute(int *out, int which, int number)
{
    return plait_cuda_why(plait_cuda.device_attribute(out, which, number), "cannot ask what the GPU can do");
}

static const char *describe(struct gpu *gpu)
{
    int major = 0, minor = 0;
    const char *why = attribute(&major, DRIVER_DEVICE_CAPABILITY_MAJOR, gpu->number);

    if (why == NULL)
        why = attribute(&minor, DRIVER_DEVICE_CAPABILITY_MINOR, gpu->number);
    if (why == NULL)
        why = attribute(&gpu->multiprocessors, DRIVER_DEVICE_MULTIPROCESSORS, gpu->number);
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.device_name(gpu->name, sizeof gpu->name, gpu->number),
                             "cannot ask for the name of the GPU");
    gpu->capability = 10 * major + minor;
    return why;
}

static const char *count(int *out)
{
    const char *why = plait_cuda_why(plait_cuda.device_count(out), "cannot count the GPUs");

    return why == NULL && *out == 0 ? no_gpu() : why;
}

const char *gpu_count(int *out)
{
    int version = 0;
    const char *why = find_driver(&version);

    return why == NULL ? count(out) : why;
}

static const char *find_gpu(struct gpu *gpu)
{
    int n = 0;
    const char *why = count(&n);

    if (why != NULL)
        return why;
    if (gpu->number < 0 || gpu->number >= n)
        return plait_cuda_say("there is no GPU %d: the driver has %d, numbered from 0 (nvidia-smi, "
                              "CUDA_VISIBLE_DEVICES)",
                              gpu->number, n);
    return describe(gpu);
}

static const char *check_capability(const struct gpu *gpu, enum precision precision)
{
    const int c = gpu->capability;

    if (c < OLDEST_GPU)
        return plait_cuda_say("GPU %d (%s) has compute capability %d.%d, and 7.5 is the least: use a newer GPU",
                              gpu->number, gpu->name, c / 10, c % 10);
    if (precision == PRECISION_BF16 && c < OLDEST_BF16)
        return plait_cuda_say("GPU %d (%s) has compute capability %d.%d, and bf16 needs 8.0: use --precision fp16 or "
                              "fp32",
                              gpu->number, gpu->name, c / 10, c % 10);
    return NULL;
}

static const char *open_context(struct gpu *gpu)
{
    const int status = plait_cuda.context_retain(&gpu->context, gpu->number);

    if (status == DRIVER_OUT_OF_MEMORY)
        return plait_cuda_say("GPU %d (%s) has no memory left for a context: nvidia-smi lists the processes that "
                              "use it",
                              gpu->number, gpu->name);
    if (status != DRIVER_OK) {
        gpu->context = NULL;
        return plait_cuda_why(status, "cannot create a context on the GPU");
    }
    return gpu_use(gpu);
}

const char *gpu_open(int number, enum precision precision, struct gpu *out)
{
    struct gpu gpu = { .number = number };
    const char *why = find_driver(&gpu.driver);
    size_t total;

    if (why == NULL)
        why = find_gpu(&gpu);
    if (why == NULL)
        why = check_capability(&gpu, precision);
    if (why == NULL)
        why = open_context(&gpu);
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.stream_create(&gpu.stream, DRIVER_STREAM_NON_BLOCKING, DRIVER_STREAM_NORMAL),
                             "cannot create a stream on the GPU");
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.mem_info(&gpu.free, &total), "cannot ask for the memory of the GPU");
    if (why == NULL)
        *out = gpu;
    else
        gpu_close(&gpu);
    return why;
}

void gpu_close(struct gpu *gpu)
{
    void *current;

    if (gpu->stream != NULL)
        plait_cuda.stream_destroy(gpu->stream);
    if (gpu->context != NULL) {
        if (plait_cuda.context_current(&current) == DRIVER_OK && current == gpu->context)
            plait_cuda.context_pop(&current);
        plait_cuda.context_release(gpu->number);
    }
    *gpu = (struct gpu){ 0 };
}

const char *gpu_use(const struct gpu *gpu)
{
    void *current = NULL;
    const char *why = plait_cuda_why(plait_cuda.context_current(&current), "cannot use the context of the GPU");

    if (why != NULL || current == gpu->context)
        return why;
    return plait_cuda_why(plait_cuda.context_push(gpu->context), "cannot use the context of the GPU");
}

const char *gpu_alloc(const struct gpu *gpu, size_t bytes, void **out)
{
    size_t left = 0, total = 0;
    cu_address memory = 0;
    const int status = plait_cuda.mem_alloc(&memory, bytes > 0 ? bytes : 1);

    if (status == DRIVER_OUT_OF_MEMORY) {
        plait_cuda.mem_info(&left, &total);
        return plait_cuda_say("GPU %d (%s) has no memory for %zu MiB more: %zu of its %zu MiB are free, %zu were when "
                              "this rank began: use a smaller --micro or --batch, or a --precision of 16 bits",
                              gpu->number, gpu->name, (bytes + MIB - 1) / MIB, left / MIB, total / MIB,
                              gpu->free / MIB);
    }
    if (status == DRIVER_OK)
        *out = (void *)(uintptr_t)memory;
    return plait_cuda_why(status, "cannot allocate memory of the GPU");
}

void gpu_free(void *memory)
{
    if (memory != NULL)
        plait_cuda.mem_free((cu_address)(uintptr_t)memory);
}
