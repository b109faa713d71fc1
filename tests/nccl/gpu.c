/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include "../kept.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gpu_driver gpu;
static void (*left)(struct standin_left *out);
static void (*careless)(int careless);
static void (*arm)(unsigned long long n, int error);
static void (*hide)(int hide);
static unsigned long long (*disarm)(const char **failed);

static const struct {
    const char *symbol;
    size_t offset;
    bool newer;
} entries[] = {
#define PLAIT_X(name, symbol, arguments) { symbol, offsetof(struct gpu_driver, name), false },
    GPU_CALL_LIST(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, symbol, arguments) { symbol, offsetof(struct gpu_driver, name), true },
        GPU_NEWER_CALL_LIST(PLAIT_X)
#undef PLAIT_X
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

static void load(void)
{
    const char *path = getenv("PLAIT_CUDA_DRIVER");
    void *handle = path != NULL ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;

    if (handle == NULL) {
        fprintf(stderr, "PLAIT_CUDA_DRIVER is %s: %s\n", path != NULL ? path : "not set", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *function = dlsym(handle, entries[i].symbol);
        if (function == NULL && !entries[i].newer) {
            fprintf(stderr, "%s has no %s\n", path, entries[i].symbol);
            return;
        }
        *(void **)(void *)((char *)&gpu + entries[i].offset) = function;
    }
    *(void **)(void *)&left = dlsym(handle, "standin_left");
    *(void **)(void *)&careless = dlsym(handle, "standin_careless");
    *(void **)(void *)&arm = dlsym(handle, "standin_arm");
    *(void **)(void *)&hide = dlsym(handle, "standin_hide");
    *(void **)(void *)&disarm = dlsym(handle, "standin_disarm");
    loaded = gpu.init(0) == 0;
}

struct standin_left gpu_left(void)
{
    struct standin_left now = { 0 };

    if (left != NULL)
        left(&now);
    return now;
}

void gpu_careless(void)
{
    if (careless != NULL)
        careless(1);
}

void gpu_arm(unsigned n, int error)
{
    if (arm != NULL)
        arm(n, error);
}

const char *gpu_disarm(void)
{
    const char *failed = NULL;

    if (disarm != NULL)
        disarm(&failed);
    return failed;
}

bool gpu_hide(bool hide_it)
{
    if (hide != NULL)
        hide(hide_it);
    return hide != NULL;
}

bool gpu_has_two(void)
{
    const char *with_a_driver = getenv("PLAIT_TEST_DEVICES");

    return with_a_driver == NULL || atoi(with_a_driver) > 1;
}

bool gpu_use(int device)
{
    void *context;

    pthread_once(&once, load);
    return loaded && gpu.retain(&context, device) == 0 && gpu.set_current(context) == 0;
}

static float *take(size_t elements)
{
    unsigned long long at = 0;

    return gpu.alloc(&at, elements * sizeof(float)) == 0 ? (float *)(uintptr_t)at : NULL;
}

void *gpu_pinned(size_t bytes)
{
    void *at = NULL;

    return gpu.alloc_pinned(&at, bytes, 0) == 0 ? memset(at, 0, bytes) : NULL;
}

bool gpu_begin(struct gpu_rank *g, size_t elements)
{
    void *stream = NULL;
    const bool made = gpu.stream_create(&stream, 1) == 0;

    *g = (struct gpu_rank){ stream, take(elements), take(elements), gpu_pinned(elements * sizeof(float)), elements };
    return made && g->in != NULL && g->out != NULL && g->host != NULL;
}

bool gpu_end(struct gpu_rank *g)
{
    const bool done = gpu.synchronize(g->stream) == 0; /* what reads the host's memory */

    return done && gpu.free_pinned(g->host) == 0 && gpu.stream_destroy(g->stream) == 0 &&
           gpu.free((uintptr_t)g->in) == 0 && gpu.free((uintptr_t)g->out) == 0;
}

bool gpu_put(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    return gpu.copy((uintptr_t)to, (uintptr_t)from, bytes, stream) == 0;
}

/* A copy to memory that the driver does not know would wait in the driver, and there hold up other ranks. */
bool gpu_get(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    return gpu.synchronize(stream) == 0 && gpu_put(to, from, bytes, stream) && gpu.synchronize(stream) == 0;
}

bool gpu_follow(cudaStream_t stream, cudaStream_t other)
{
    void *event;

    return gpu.event_create(&event, 2) == 0 && gpu.event_record(event, other) == 0 && /* 2: no times */
           gpu.wait_event(stream, event, 0) == 0 && gpu.event_destroy(event) == 0;
}

int gpu_ranks_run(struct ranks r)
{
    r.no_comm = 1;
    if (!kept_world_begin())
        return 1;
    const int failed = ranks_run(&r);
    kept_world_end();
    return failed;
}

int gpu_run(int nprocess, int nthread, int (*body)(ncclComm_t *comm, int rank, int nrank))
{
    return gpu_ranks_run((struct ranks){ .nprocess = nprocess, .nthread = nthread, .body = body });
}
