/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a driver allows while a stream is being captured: a table, which the stand-in keeps to and tools/gpu-check compares
 * with a GPU's driver. cuda_captures_test DRIVER
 */
#include "standin_use.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *context, *captured, *other, *event, *exec; /* other: the event was recorded there, long ago */
static cu_address memory;

static void begin(void)
{
    void *graph;

    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxPushCurrent_v2(context));
    ok(cuStreamCreate(&captured, 1));
    ok(cuStreamCreate(&other, 1));
    ok(cuEventCreate(&event, 2));
    ok(cuMemAlloc_v2(&memory, 1024));
    ok(cuMemsetD32Async(memory, 0, 256, other));
    ok(cuEventRecord(event, other));
    ok(cuStreamBeginCapture_v2(captured, VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemsetD32Async(memory, 0, 1, captured));
    ok(cuStreamEndCapture(captured, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    ok(cuStreamSynchronize(other));
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

static int launch_graph(void *stream)
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
    { "cuGraphLaunch", launch_graph, "....x" },
    { "cuStreamQuery", ask_stream, "x.x.x" },
    { "cuStreamSynchronize", wait_for_stream, "x.x.x" },
    { "cuMemAlloc", alloc, "x.x.." },
    { "cuMemHostAlloc", alloc_pinned, "x.x.." },
    { "cuMemcpy", copy_and_wait, "....." },
    { "cuCtxSynchronize", wait_for_context, "xxxxx" },
};
enum { NFACT = sizeof facts / sizeof *facts };

struct attempt {
    const struct fact *fact;
    int status;
};

static void *call_there(void *arg)
{
    struct attempt *t = arg;

    t->status = cuCtxPushCurrent_v2(context) == 0 ? t->fact->call(other) : -1;
    return NULL;
}

static int call_here(const struct fact *f, int way)
{
    int mode = way >= RELAXED ? VALUE_STREAM_CAPTURE_MODE_RELAXED : VALUE_STREAM_CAPTURE_MODE_GLOBAL;

    ok(cuThreadExchangeStreamCaptureMode(&mode));
    const int status = f->call(way == CAPTURED ? captured : other);
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    return status;
}

static char outcome(const struct fact *f, int way)
{
    struct attempt t = { f, 0 };
    void *graph = NULL;
    pthread_t thread;
    int now = 0;
    unsigned long long id;

    ok(cuStreamBeginCapture_v2(captured, way == THEIRS_ALONE ? VALUE_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                             : VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    if (way <= THEIRS_ALONE) {
        assert_int_equal(pthread_create(&thread, NULL, call_there, &t), 0);
        pthread_join(thread, NULL);
    } else {
        t.status = call_here(f, way);
    }
    ok(cuStreamGetCaptureInfo(captured, &now, &id));
    const bool spoilt = cuStreamEndCapture(captured, &graph) != 0;
    assert_int_equal(spoilt, now == VALUE_STREAM_CAPTURE_STATUS_INVALIDATED);
    if (!spoilt)
        ok(cuGraphDestroy(graph));
    ok(cuStreamSynchronize(other));
    return t.status == 0 || t.status == CU_NOT_READY ? (spoilt ? 's' : '.') : spoilt ? 'x' : 'r';
}

static void a_capture_survives_what_it_must(void **state)
{
    int wrong = 0;

    (void)state;
    begin();
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

    assert_true(argc > 1);
    load(argv[1]);
    return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
