/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct plait_cuda_driver plait_cuda;
void (*plait_cuda_seen)(const void *word, uint32_t value);

static _Thread_local char text[1024]; /* may name a file */

/* An argument may be the text of before. */
const char *(plait_cuda_say)(const char *format, ...)
{
    char next[sizeof text];
    va_list args;

    va_start(args, format);
    vsnprintf(next, sizeof next, format, args);
    va_end(args);
    memcpy(text, next, sizeof text);
    return text;
}

const char *plait_cuda_why(int error, const char *call)
{
    const char *name = NULL, *words = NULL;

    if (error == DRIVER_OK)
        return NULL;
    if (plait_cuda.error_name == NULL || plait_cuda.error_name(error, &name) != DRIVER_OK || name == NULL ||
        plait_cuda.error_string(error, &words) != DRIVER_OK || words == NULL)
        return plait_cuda_say("%s: CUDA error %d", call, error);
    return plait_cuda_say("%s: %s (%s)", call, words, name);
}

const char *plait_cuda_take(size_t bytes, cu_address *out)
{
    const int status = plait_cuda.mem_alloc(out, bytes);
    size_t left, total;

    if (status == DRIVER_OUT_OF_MEMORY && plait_cuda.mem_info(&left, &total) == DRIVER_OK)
        return plait_cuda_say("%zu of the GPU's %zu MiB are free", left >> 20, total >> 20);
    return plait_cuda_why(status, "cuMemAlloc");
}

static const struct {
    const char *symbol;
    size_t offset;
} entries[] = {
#define PLAIT_X(name, symbol, arguments) { symbol, offsetof(struct plait_cuda_driver, name) },
    PLAIT_CUDA_DRIVER_LIST(PLAIT_X)
#undef PLAIT_X
};

/*
 * By dlsym() with versioned names, which a driver keeps forever. cuGetProcAddress() would return the same functions,
 * since none depends on the requested version.
 */
const char *plait_cuda_find(const char *path)
{
    void *handle = dlopen(path[0] != '\0' ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    if (handle == NULL)
        return plait_cuda_say("there is no CUDA driver here: %s: install NVIDIA's driver, or give the container its "
                              "libcuda.so.1",
                              dlerror());
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *function = dlsym(handle, entries[i].symbol);
        if (function == NULL)
            return plait_cuda_say("%s has no %s: Plait needs the driver of CUDA 12 or newer",
                                  path[0] != '\0' ? path : "libcuda.so.1", entries[i].symbol);
        *(void **)((char *)&plait_cuda + entries[i].offset) = function;
    }
    *(void **)&plait_cuda_seen = dlsym(handle, "standin_seen");
    return plait_cuda_why(plait_cuda.init(0), "cuInit");
}
