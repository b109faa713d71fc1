/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a driver allows while a stream is being captured: a table, which the stand-in keeps to and tools/gpu-check compares
 * with a GPU's driver. cuda_captures_test DRIVER
 */
#include "driver_types.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS(X)                                                                \
    X(cuInit, (unsigned))                                                       \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                 \
    X(cuCtxSetCurrent, (void *))                                                \
    X(cuCtxGetDevice, (int *))                                                  \
    X(cuCtxSynchronize, (void))                                                 \
    X(cuMemAlloc_v2, (cu_address *, size_t))                                    \
    X(cuMemFree_v2, (cu_address))                                               \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                              \
    X(cuMemFreeHost, (void *))                                                  \
    X(cuMemcpy, (cu_address, cu_address, size_t))                               \
    X(cuMemcpyAsync, (cu_address, cu_address, size_t, void *))                  \
    X(cuMemsetD32Async, (cu_address, unsigned, size_t, void *))                 \
    X(cuPointerGetAttributes, (unsigned, int *, void **, cu_address))           \
    X(cuIpcGetMemHandle, (cu_ipc_handle *, cu_address))                         \
    X(cuStreamCreate, (void **, unsigned))                                      \
    X(cuStreamDestroy_v2, (void *))                                             \
    X(cuStreamSynchronize, (void *))                                            \
    X(cuStreamQuery, (void *))                                                  \
    X(cuStreamGetId, (void *, unsigned long long *))                            \
    X(cuStreamGetCtx, (void *, void **))                                        \
    X(cuStreamWriteValue32_v2, (void *, cu_address, uint32_t, unsigned))        \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                            \
    X(cuStreamBeginCapture_v2, (void *, int))                                   \
    X(cuStreamEndCapture, (void *, void **))                                    \
    X(cuStreamGetCaptureInfo, (void *, int *, unsigned long long *))            \
    X(cuThreadExchangeStreamCaptureMode, (int *))                               \
    X(cuLaunchHostFunc, (void *, void (*)(void *), void *))                     \
    X(cuEventCreate, (void **, unsigned))                                       \
    X(cuEventDestroy_v2, (void *))                                              \
    X(cuEventRecord, (void *, void *))                                          \
    X(cuEventQuery, (void *))                                                   \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))       \
    X(cuGraphLaunch, (void *, void *))                                          \
    X(cuGraphExecDestroy, (void *))                                             \
    X(cuGraphDestroy, (void *))

#define PLAIT_X(name, arguments) static int(*name) arguments;
CALLS(PLAIT_X)
#undef PLAIT_X

static void *context, *captured, *other, *event, *exec; /* other: the event was recorded there, long ago */
static cu_address memory;

static bool load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        return false;
#define PLAIT_X(name, arguments)             \
    *(void **)&name = dlsym(library, #name); \
    if (name == NULL)                        \
        return false;
    CALLS(PLAIT_X)
#undef PLAIT_X
    return true;
}

static bool start(void)
{
    void *graph;

    return cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0 &&
           cuStreamCreate(&captured, 1) == 0 && cuStreamCreate(&other, 1) == 0 && cuEventCreate(&event, 2) == 0 &&
           cuMemAlloc_v2(&memory, 1024) == 0 && cuMemsetD32Async(memory, 0, 256, other) == 0 &&
           cuEventRecord(event, other) == 0 && cuStreamBeginCapture_v2(captured, 0) == 0 &&
           cuMemsetD32Async(memory, 0, 1, captured) == 0 && cuStreamEndCapture(captured, &graph) == 0 &&
           cuGraphInstantiateWithFlags(&exec, graph, 0) == 0 && cuGraphDestroy(graph) == 0 &&
           cuStreamSynchronize(other) == 0;
}

/* ---- Calls, on a stream or on none ------------------------------------------------------------------------------ */

static void nothing(void *arg)
{
    (void)arg;
}

static int get_device(void *stream)
{
    int device;

    (void)stream;
    return cuCtxGetDevice(&device);
}

static int wait_for_context(void *stream)
{
    (void)stream;
    return cuCtxSynchronize();
}

static int alloc(void *stream)
{
    cu_address at = 0;
    const int status = cuMemAlloc_v2(&at, 4096);

    (void)stream;
    return status == 0 ? cuMemFree_v2(at) : status;
}

static int alloc_pinned(void *stream)
{
    void *at = NULL;
    const int status = cuMemHostAlloc(&at, 4096, 1);

    (void)stream;
    return status == 0 ? cuMemFreeHost(at) : status;
}

static int copy_and_wait(void *stream)
{
    uint32_t word;

    (void)stream;
    return cuMemcpy((uintptr_t)&word, memory, 4);
}

static int copy(void *stream)
{
    return cuMemcpyAsync(memory, memory + 512, 4, stream);
}

static int set(void *stream)
{
    return cuMemsetD32Async(memory, 0, 1, stream);
}

static int ask_pointer(void *stream)
{
    unsigned type;
    int attribute = 2;
    void *data = &type;

    (void)stream;
    return cuPointerGetAttributes(1, &attribute, &data, memory);
}

static int ask_handle(void *stream)
{
    cu_ipc_handle handle;

    (void)stream;
    return cuIpcGetMemHandle(&handle, memory);
}

static int make_stream(void *stream)
{
    const int status = cuStreamCreate(&stream, 1);

    return status == 0 ? cuStreamDestroy_v2(stream) : status;
}

static int ask_id(void *stream)
{
    unsigned long long id;

    return cuStreamGetId(stream, &id);
}

static int ask_context(void *stream)
{
    void *of;

    return cuStreamGetCtx(stream, &of);
}

static int ask_capture(void *stream)
{
    unsigned long long id;
    int status;

    return cuStreamGetCaptureInfo(stream, &status, &id);
}

static int write_word(void *stream)
{
    return cuStreamWriteValue32_v2(stream, memory, 1, 0);
}

static int call_host(void *stream)
{
    return cuLaunchHostFunc(stream, nothing, NULL);
}

static int make_event(void *stream)
{
    void *made;
    const int status = cuEventCreate(&made, 2);

    (void)stream;
    return status == 0 ? cuEventDestroy_v2(made) : status;
}

static int record(void *stream)
{
    void *made;
    int status = cuEventCreate(&made, 2);

    if (status == 0)
        status = cuEventRecord(made, stream);
    return status == 0 ? cuEventDestroy_v2(made) : status;
}

static int ask_event(void *stream)
{
    (void)stream;
    return cuEventQuery(event);
}

static int await_event(void *stream)
{
    return cuStreamWaitEvent(stream, event, 0);
}

static int launch(void *stream)
{
    return cuGraphLaunch(exec, stream);
}

static int wait_for_stream(void *stream)
{
    return cuStreamSynchronize(stream);
}

static int ask_stream(void *stream)
{
    return cuStreamQuery(stream);
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

/*
 * By whom while a stream is being captured, and where: another thread, on another stream, where the capture is of the mode
 * global, and of one thread's own; the same thread, on another stream; the same in the mode relaxed, which is Plait's; and
 * that on the stream that is captured.
 */
enum { THEIRS_GLOBAL, THEIRS_ALONE, OWN, RELAXED, CAPTURED, NWAY };

/* Of each: '.' allowed; 'x' refused, and the capture is spoilt; 'r' refused, and it is not; 's' allowed, and it is spoilt. */
static const struct fact {
    const char *name;
    int (*call)(void *stream);
    char ways[NWAY + 1];
} facts[] = {
    { "cuCtxGetDevice", get_device, "....." },
    { "cuPointerGetAttributes", ask_pointer, "....." },
    { "cuIpcGetMemHandle", ask_handle, "....." },
    { "cuStreamGetCtx", ask_context, "....." },
    { "cuStreamGetCaptureInfo", ask_capture, "....." },
    { "cuStreamGetId", ask_id, "....x" },
    { "cuStreamCreate, cuStreamDestroy", make_stream, "....." },
    { "cuEventCreate, cuEventDestroy", make_event, "....." },
    { "cuEventRecord", record, "....." },
    { "cuEventQuery", ask_event, "x.x.." },
    { "cuStreamWaitEvent", await_event, "....x" },
    { "cuMemcpyAsync", copy, "....." },
    { "cuMemsetD32Async", set, "....." },
    { "cuStreamWriteValue32", write_word, "....." },
    { "cuLaunchHostFunc", call_host, "....." },
    { "cuGraphLaunch", launch, "....x" },
    { "cuStreamQuery", ask_stream, "x.x.x" },
    { "cuStreamSynchronize", wait_for_stream, "x.x.x" },
    { "cuMemAlloc", alloc, "x.x.." },
    { "cuMemHostAlloc", alloc_pinned, "x.x.." },
    { "cuMemcpy", copy_and_wait, "....." },
    { "cuCtxSynchronize", wait_for_context, "xxxxx" },
};
enum { NFACT = sizeof facts / sizeof *facts };

struct try {
    const struct fact *fact;
    int status;
};

static void *call_there(void *arg)
{
    struct try *t = arg;

    t->status = cuCtxSetCurrent(context) == 0 ? t->fact->call(other) : -1;
    return NULL;
}

static int call_here(const struct fact *f, int way)
{
    int mode = way >= RELAXED ? 2 : 0;

    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    const int status = f->call(way == CAPTURED ? captured : other);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    return status;
}

static char outcome(const struct fact *f, int way)
{
    struct try t = { f, 0 };
    void *graph = NULL;
    pthread_t thread;
    int now = 0;
    unsigned long long id;

    assert_int_equal(cuStreamBeginCapture_v2(captured, way == THEIRS_ALONE ? 1 : 0), 0);
    if (way <= THEIRS_ALONE) {
        assert_int_equal(pthread_create(&thread, NULL, call_there, &t), 0);
        pthread_join(thread, NULL);
    } else {
        t.status = call_here(f, way);
    }
    assert_int_equal(cuStreamGetCaptureInfo(captured, &now, &id), 0);
    const bool spoilt = cuStreamEndCapture(captured, &graph) != 0;
    assert_int_equal(spoilt, now == 2);
    if (!spoilt)
        assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuStreamSynchronize(other), 0);
    return t.status == 0 || t.status == CU_NOT_READY ? (spoilt ? 's' : '.') : spoilt ? 'x' : 'r';
}

static void a_capture_survives_what_it_must(void **state)
{
    int wrong = 0;

    (void)state;
    for (unsigned i = 0; i < NFACT; i++) {
        char seen[NWAY + 1] = "";
        for (int way = 0; way < NWAY; way++)
            seen[way] = outcome(&facts[i], way);
        if (strcmp(seen, facts[i].ways) == 0)
            continue;
        wrong++;
        fprintf(stderr, "%s: %s, not %s\n", facts[i].name, seen, facts[i].ways);
    }
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_capture_survives_what_it_must) };

    if (argc < 2 || !load(argv[1]) || !start()) {
        fprintf(stderr, "cuda_captures_test DRIVER: it cannot be used\n");
        return 1;
    }
    return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
