/* SPDX-License-Identifier: BSD-3-Clause */
#include "libraries.h"

#include "allocate.h"
#include "convolution.h"
#include "find.h"

#include "../../cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLDEST_CUDNN = 90000,
    NEWER_CUDNN = 100000,
    OLDEST_CUBLAS = 12,
    HOPPER = 90,
    CUBLAS_WORKSPACE = 4 << 20, /* as cuBLAS itself takes; without one of ours it would allocate in a pass */
    CUBLAS_WORKSPACE_HOPPER = 32 << 20
};

/* ---- Loading ---- */

static const struct find_symbol cudnn_entries[] = {
#define PLAIT_X(name, symbol, result, arguments) { symbol, offsetof(struct cudnn_functions, name) },
    CUDNN9_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
};
static const struct find_symbol blas_entries[] = {
#define PLAIT_X(name, symbol, result, arguments) { symbol, offsetof(struct cublas_functions, name) },
    CUBLAS12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
};

/* How to get a library for this driver: "cudnn", "cudnn<10" where the newest is too new, or "cublas". */
static const char *remedy(const struct gpu *gpu, const char *what, char out[160])
{
    const bool old = gpu->driver != 0 && gpu->driver < 13000;
    const bool dnn = strcmp(what, "cudnn") == 0, bounded = strcmp(what, "cudnn<10") == 0;
    const char *package = dnn       ? (old ? "nvidia-cudnn-cu12" : "nvidia-cudnn-cu13")
                          : bounded ? (old ? "'nvidia-cudnn-cu12<10'" : "'nvidia-cudnn-cu13<10'")
                                    : (old ? "nvidia-cublas-cu12" : "nvidia-cublas");

    snprintf(out, 160, "pip install %s, or put the library's folder into LD_LIBRARY_PATH", package);
    return out;
}

/* ---- cuDNN ---- */

/* 8 counts thousands: 8907 is 8.9.7; 9 ten thousands: 91900 is 9.19.0. */
static void cudnn_text(size_t version, char out[24])
{
    const size_t major = version < 10000 ? 1000 : 10000;

    snprintf(out, 24, "%zu.%zu.%zu", version / major, version % major / 100, version % 100);
}

/* There is no cuDNN 9. Is there an older or a newer one? */
static const char *no_cudnn(const struct gpu *gpu, const char *folder, const struct found *f)
{
    const int others[] = { 8, 10 };
    char name[32], how[160];

    for (size_t k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "libcudnn.so.%d", others[k]);
        const struct found other = find_library(name, folder);
        if (other.handle == NULL)
            continue;
        dlclose(other.handle);
        return plait_cuda_say("%s is cuDNN %d, and 9 is needed: %s", other.file, others[k],
                              remedy(gpu, others[k] > 9 ? "cudnn<10" : "cudnn", how));
    }
    return plait_cuda_say("there is no cuDNN 9 here, which computes convolutions on GPUs: %s: %s", f->why,
                          remedy(gpu, "cudnn", how));
}

static const char *check_cudnn(struct libraries *l, const char *missing)
{
    const size_t cuda = missing == NULL ? l->cudnn.cudart_version() : 0;
    const size_t version = l->cudnn.version != NULL ? l->cudnn.version() : OLDEST_CUDNN;
    char how[160];

    remedy(&l->gpu, version >= NEWER_CUDNN ? "cudnn<10" : "cudnn", how);
    if (l->cudnn.version != NULL)
        cudnn_text(version, l->cudnn_version);
    if (version < OLDEST_CUDNN || version >= NEWER_CUDNN)
        return plait_cuda_say("%s is cuDNN %s, and 9 is needed: %s", l->cudnn_file, l->cudnn_version, how);
    if (missing != NULL)
        return plait_cuda_say("%s has no %s: cuDNN 9 is needed: %s", l->cudnn_file, missing, how);
    if (l->gpu.driver != 0 && cuda / 1000 > (size_t)l->gpu.driver / 1000)
        return plait_cuda_say("%s is for CUDA %zu, and the driver is of CUDA %d.%d: install a newer driver, or %s",
                              l->cudnn_file, cuda / 1000, l->gpu.driver / 1000, l->gpu.driver % 1000 / 10, how);
    return NULL;
}

static const char *load_cudnn(struct libraries *l, const char *folder)
{
    const struct found f = find_library("libcudnn.so.9", folder);

    if (f.handle == NULL)
        return no_cudnn(&l->gpu, folder, &f);
    snprintf(l->cudnn_file, sizeof l->cudnn_file, "%s", f.file);
    return check_cudnn(l,
                       find_symbols(f.handle, cudnn_entries, sizeof cudnn_entries / sizeof *cudnn_entries, &l->cudnn));
}

static const char *no_memory(const struct libraries *l, const char *call)
{
    return plait_cuda_say("%s: GPU %d (%s) has no memory left: use a smaller --micro; nvidia-smi lists the processes "
                          "that use it",
                          call, l->gpu.number, l->gpu.name);
}

const char *libraries_why(const struct libraries *l, const char *call, int status, const char *more)
{
    if (status == CUDNN9_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        return no_memory(l, call);
    return plait_cuda_say("%s of cuDNN %s (%s): %s%s%s", call, l->cudnn_version, l->cudnn_file,
                          l->cudnn.error_string(status), more[0] != '\0' ? ": " : "", more);
}

static const char *cudnn_why(const struct libraries *l, const char *call, int status)
{
    char more[256] = "";

    if (status == CUDNN9_STATUS_SUCCESS)
        return NULL;
    l->cudnn.last_error(more, sizeof more);
    return libraries_why(l, call, status, more);
}

static const char *create_cudnn(struct libraries *l)
{
    const char *why = cudnn_why(l, "cudnnCreate", l->cudnn.create(&l->dnn));

    if (why == NULL)
        why = cudnn_why(l, "cudnnSetStream", l->cudnn.set_stream(l->dnn, l->gpu.stream));
    return why;
}

/* ---- cuBLAS ---- */

static const char *blas_why(const struct libraries *l, const char *call, int status)
{
    if (status == BLAS_CUBLAS_STATUS_SUCCESS)
        return NULL;
    if (status == BLAS_CUBLAS_STATUS_ALLOC_FAILED)
        return no_memory(l, call);
    return plait_cuda_say("%s of cuBLAS %s (%s): %s", call, l->blas_version, l->blas_file,
                          l->blas.status_string(status));
}

static const char *check_blas(struct libraries *l, const char *missing)
{
    int major = 0, minor = 0, patch = 0;
    char how[160];

    remedy(&l->gpu, "cublas", how);
    if (missing != NULL)
        return plait_cuda_say("%s has no %s: cuBLAS 12 or newer is needed: %s", l->blas_file, missing, how);
    l->blas.property(BLAS_MAJOR_VERSION, &major);
    l->blas.property(BLAS_MINOR_VERSION, &minor);
    l->blas.property(BLAS_PATCH_LEVEL, &patch);
    snprintf(l->blas_version, sizeof l->blas_version, "%d.%d.%d", major, minor, patch);
    if (major < OLDEST_CUBLAS)
        return plait_cuda_say("%s is cuBLAS %s, and 12 or newer is needed: %s", l->blas_file, l->blas_version, how);
    return NULL;
}

/* That of CUDA 13 needs a driver of CUDA 13. */
static const char *load_blas(struct libraries *l, const char *folder)
{
    static const char *const names[] = { "libcublas.so.13", "libcublas.so.12" };
    struct found f = { .handle = NULL };
    char how[160];

    for (size_t k = l->gpu.driver < 13000; k < 2 && f.handle == NULL; k++)
        f = find_library(names[k], folder);
    if (f.handle == NULL)
        return plait_cuda_say("there is no cuBLAS 12 or 13 for this driver here, which computes matrix products on "
                              "GPUs: %s: %s",
                              f.why, remedy(&l->gpu, "cublas", how));
    snprintf(l->blas_file, sizeof l->blas_file, "%s", f.file);
    return check_blas(l, find_symbols(f.handle, blas_entries, sizeof blas_entries / sizeof *blas_entries, &l->blas));
}

/* The stream comes first: setting it takes the workspace away. */
static const char *create_blas(struct libraries *l)
{
    const size_t bytes = l->gpu.capability >= HOPPER ? CUBLAS_WORKSPACE_HOPPER : CUBLAS_WORKSPACE;
    const char *why = gpu_alloc(&l->gpu, bytes, &l->workspace);

    if (why == NULL)
        why = blas_why(l, "cublasCreate", l->blas.create(&l->products));
    if (why == NULL)
        why = blas_why(l, "cublasSetStream", l->blas.set_stream(l->products, l->gpu.stream));
    if (why == NULL)
        why = blas_why(l, "cublasSetWorkspace", l->blas.set_workspace(l->products, l->workspace, bytes));
    return why;
}

/* ---- Both ---- */

const char *libraries_create(const struct gpu *gpu, const char *folder, struct libraries **out)
{
    struct libraries *l = allocate(1, sizeof *l);
    const char *why;

    l->gpu = *gpu;
    why = load_cudnn(l, folder);
    if (why == NULL)
        why = load_blas(l, folder);
    if (why == NULL)
        why = create_cudnn(l);
    if (why == NULL)
        why = create_blas(l);
    if (why == NULL)
        *out = l;
    else
        libraries_destroy(l);
    return why;
}

/* The libraries stay loaded: cuDNN has threads and thread-local memory. */
void libraries_destroy(struct libraries *l)
{
    if (l == NULL)
        return;
    convolution_destroy_all(l);
    if (l->described != NULL)
        l->cudnn.drop(l->described);
    if (l->products != NULL)
        l->blas.destroy(l->products);
    if (l->dnn != NULL)
        l->cudnn.destroy(l->dnn);
    gpu_free(l->workspace);
    free(l);
}

const char *libraries_describe(const char *json, const char *folder, struct libraries **out)
{
    struct libraries *l = allocate(1, sizeof *l);
    const char *why = load_cudnn(l, folder);

    snprintf(l->gpu.name, sizeof l->gpu.name, "described");
    if (why == NULL)
        why = cudnn_why(l, "cudnnBackendCreateDescriptor",
                        l->cudnn.make(CUDNN9_BACKEND_DEVICEPROP_DESCRIPTOR, &l->described));
    if (why == NULL)
        why = cudnn_why(l, "cudnnBackendSetAttribute",
                        l->cudnn.set(l->described, CUDNN9_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN9_TYPE_CHAR,
                                     (int64_t)strlen(json), json));
    if (why == NULL)
        why = cudnn_why(l, "cudnnBackendFinalize", l->cudnn.finalize(l->described));
    if (why == NULL)
        *out = l;
    else
        libraries_destroy(l);
    return why;
}
