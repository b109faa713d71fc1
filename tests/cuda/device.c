/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include "base/clock.h"

#include <plait/memory.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device device;
struct device_ask ask;

static const struct {
    const char *symbol;
    size_t offset;
    bool graphs;
} entries[] = {
    { "cuInit", offsetof(struct device, init), false },
    { "cuDevicePrimaryCtxRetain", offsetof(struct device, context_retain), false },
    { "cuCtxPushCurrent_v2", offsetof(struct device, context_push), false },
    { "cuCtxPopCurrent_v2", offsetof(struct device, context_pop), false },
    { "cuThreadExchangeStreamCaptureMode", offsetof(struct device, capture_mode), false },
    { "cuStreamCreate", offsetof(struct device, stream_create), false },
    { "cuStreamDestroy_v2", offsetof(struct device, stream_destroy), false },
    { "cuStreamSynchronize", offsetof(struct device, stream_synchronize), false },
    { "cuStreamQuery", offsetof(struct device, stream_query), false },
    { "cuLaunchHostFunc", offsetof(struct device, stream_call), false },
    { "cuMemcpyAsync", offsetof(struct device, copy), false },
    { "cuStreamBeginCapture_v2", offsetof(struct device, capture_begin), true },
    { "cuStreamEndCapture", offsetof(struct device, capture_end), true },
    { "cuGraphInstantiateWithFlags", offsetof(struct device, instantiate), true },
    { "cuGraphLaunch", offsetof(struct device, launch), true },
    { "cuGraphExecDestroy", offsetof(struct device, exec_destroy), true },
    { "cuGraphGetNodes", offsetof(struct device, graph_nodes), true },
    { "cuGraphDestroy", offsetof(struct device, graph_destroy), true },
};

/* In their place with a driver. */
static unsigned long long no_calls(void)
{
    return 0;
}

static void no_fail(unsigned long long n)
{
    (void)n;
}

static void no_arm(unsigned long long n, int error)
{
    (void)n, (void)error;
}

static unsigned long long no_disarm(const char **failed)
{
    *failed = NULL;
    return 0;
}

static unsigned long long no_puts(void *stream)
{
    (void)stream;
    return 0;
}

static unsigned long long no_named(const char *name)
{
    (void)name;
    return 0;
}

static void no_left(struct standin_left *out)
{
    memset(out, 0, sizeof *out);
}

static void no_careless(int careless)
{
    (void)careless;
}

static const struct {
    const char *symbol;
    size_t offset;
} asked[] = {
#define PLAIT_X(name, result, arguments) { #name, offsetof(struct device_ask, name) },
    STANDIN_LIST(PLAIT_X)
#undef PLAIT_X
};

static bool load(void)
{
    const char *path = getenv("PLAIT_CUDA_DRIVER");
    void *handle = path != NULL ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;

    if (handle == NULL) {
        fprintf(stderr, "PLAIT_CUDA_DRIVER is %s: %s\n", path != NULL ? path : "not set", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *function = dlsym(handle, entries[i].symbol);
        if (function == NULL && !entries[i].graphs) {
            fprintf(stderr, "%s has no %s\n", path, entries[i].symbol);
            return false;
        }
        *(void **)(void *)((char *)&device + entries[i].offset) = function;
    }
    ask = (struct device_ask){ no_calls, no_named,    no_fail, no_arm,   no_disarm, no_puts,
                               no_puts,  no_careless, no_left, no_calls, no_fail,   no_careless };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        void *function = dlsym(handle, asked[i].symbol);
        if (function != NULL)
            *(void **)(void *)((char *)&ask + asked[i].offset) = function;
    }
    return device.init(0) == 0;
}

/* In the process of the rank: a forked child cannot use what its parent has loaded. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

static void load_once(void)
{
    loaded = load();
}

bool device_load(void)
{
    pthread_once(&once, load_once);
    return loaded;
}

bool device_begin(struct device_rank *d, size_t bytes)
{
    return device_begin_on(d, bytes, 0);
}

bool device_begin_on(struct device_rank *d, size_t bytes, int number)
{
    void *context;

    memset(d, 0, sizeof *d);
    d->bytes = bytes;
    d->host = malloc(bytes);
    return device_load() && d->host != NULL && device.context_retain(&context, number) == 0 &&
           device.context_push(context) == 0 && device.stream_create(&d->cuda, 1) == 0 &&
           plait_stream_create_cuda(d->cuda, &d->stream) == PLAIT_OK &&
           plait_mem_alloc_as(PLAIT_MEMORY_DEVICE, bytes, (void **)&d->in) == PLAIT_OK &&
           plait_mem_alloc_as(PLAIT_MEMORY_DEVICE, bytes, (void **)&d->out) == PLAIT_OK;
}

bool device_begin_among(struct device_rank *d, size_t bytes, uint32_t rank)
{
    const char *n = getenv("PLAIT_STANDIN_DEVICES");

    return device_begin_on(d, bytes, n != NULL ? (int)((rank + 1) / 2) % atoi(n) : 0);
}

bool device_end(struct device_rank *d)
{
    const bool right = plait_stream_synchronize(d->stream) == PLAIT_OK && plait_mem_free(d->in) == PLAIT_OK &&
                       plait_mem_free(d->out) == PLAIT_OK && plait_stream_destroy(d->stream) == PLAIT_OK &&
                       device.stream_destroy(d->cuda) == 0;

    free(d->host);
    return right;
}

_Atomic bool device_kept;

enum plait_status device_leave(struct plait_comm *comm)
{
    const double start = plait_clock();
    const enum plait_status status = plait_comm_destroy(comm);

    if (plait_clock() - start >= 2)
        device_kept = true;
    return status;
}

/* Longer copies wait for the stream in the driver, where they would hold up other ranks that are threads. */
#define AT_ONCE (64 << 10)

bool device_write(const struct device_rank *d, void *to, const void *from, size_t bytes)
{
    return bytes == 0 || ((bytes <= AT_ONCE || device.stream_synchronize(d->cuda) == 0) &&
                          device.copy((uintptr_t)to, (uintptr_t)from, bytes, d->cuda) == 0);
}

bool device_read(const struct device_rank *d, void *to, const void *from, size_t bytes)
{
    return device.stream_synchronize(d->cuda) == 0 && device_write(d, to, from, bytes) &&
           device.stream_synchronize(d->cuda) == 0;
}
