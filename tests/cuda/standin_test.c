/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in for CUDA's driver: what it does, what it refuses, and that it sees each kind of race. */
#include "driver_types.h"

#include <kernels.h>

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The driver -------------------------------------------------------------------------------------------- */

#define CALLS(X)                                                                                                \
    X(cuInit, (unsigned))                                                                                       \
    X(cuGetErrorName, (int, const char **))                                                                     \
    X(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))                                       \
    X(cuDeviceGetCount, (int *))                                                                                \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                 \
    X(cuCtxPushCurrent_v2, (void *))                                                                            \
    X(cuCtxPopCurrent_v2, (void **))                                                                            \
    X(cuCtxEnablePeerAccess, (void *, unsigned))                                                                \
    X(cuMemAlloc_v2, (cu_address *, size_t))                                                                    \
    X(cuMemFree_v2, (cu_address))                                                                               \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                              \
    X(cuPointerGetAttributes, (unsigned, int *, void **, cu_address))                                           \
    X(cuIpcGetMemHandle, (cu_ipc_handle *, cu_address))                                                         \
    X(cuIpcOpenMemHandle_v2, (cu_address *, cu_ipc_handle, unsigned))                                           \
    X(cuIpcCloseMemHandle, (cu_address))                                                                        \
    X(cuMemcpyAsync, (cu_address, cu_address, size_t, void *))                                                  \
    X(cuMemcpy, (cu_address, cu_address, size_t))                                                               \
    X(cuMemsetD32Async, (cu_address, unsigned, size_t, void *))                                                 \
    X(cuMemsetD32_v2, (cu_address, unsigned, size_t))                                                           \
    X(cuStreamCreate, (void **, unsigned))                                                                      \
    X(cuStreamDestroy_v2, (void *))                                                                             \
    X(cuStreamSynchronize, (void *))                                                                            \
    X(cuStreamQuery, (void *))                                                                                  \
    X(cuStreamWriteValue32_v2, (void *, cu_address, uint32_t, unsigned))                                        \
    X(cuStreamWaitValue32_v2, (void *, cu_address, uint32_t, unsigned))                                         \
    X(cuStreamBatchMemOp_v2, (void *, unsigned, const cu_mem_op *, unsigned))                                   \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                            \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                   \
    X(cuStreamEndCapture, (void *, void **))                                                                    \
    X(cuStreamIsCapturing, (void *, int *))                                                                     \
    X(cuThreadExchangeStreamCaptureMode, (int *))                                                               \
    X(cuLaunchHostFunc, (void *, void (*)(void *), void *))                                                     \
    X(cuEventCreate, (void **, unsigned))                                                                       \
    X(cuEventDestroy_v2, (void *))                                                                              \
    X(cuEventRecord, (void *, void *))                                                                          \
    X(cuEventQuery, (void *))                                                                                   \
    X(cuEventSynchronize, (void *))                                                                             \
    X(cuModuleLoadData, (void **, const void *))                                                                \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                     \
    X(cuLaunchKernel,                                                                                           \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                       \
    X(cuGraphLaunch, (void *, void *))                                                                          \
    X(cuGraphExecDestroy, (void *))                                                                             \
    X(cuGraphDestroy, (void *))                                                                                 \
    X(standin_fail, (unsigned long long))

#define PLAIT_X(name, arguments) static int(*name) arguments;
CALLS(PLAIT_X)
#undef PLAIT_X

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define PLAIT_X(name, arguments)             \
    *(void **)&name = dlsym(library, #name); \
    if (name == NULL)                        \
        exit(2);
    CALLS(PLAIT_X)
#undef PLAIT_X
}

static void ok(int result)
{
    assert_int_equal(result, CU_OK);
}

/* ---- What the tests share ---------------------------------------------------------------------------------- */

enum { N = 1000, STREAMS = 2 };

struct place {
    void *context, *streams[STREAMS], *event;
    cu_address a, b, word;
};

static struct place start(void)
{
    struct place p;

    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&p.context, 0));
    ok(cuCtxPushCurrent_v2(p.context));
    for (int i = 0; i < STREAMS; i++)
        ok(cuStreamCreate(&p.streams[i], 1));
    ok(cuEventCreate(&p.event, 2));
    ok(cuMemAlloc_v2(&p.a, N * 4));
    ok(cuMemAlloc_v2(&p.b, N * 4));
    ok(cuMemAlloc_v2(&p.word, 64));
    ok(cuMemsetD32_v2(p.word, 0, 16));
    return p;
}

static void expect(cu_address from, uint32_t value)
{
    uint32_t got[N];

    ok(cuMemcpy((uintptr_t)got, from, sizeof got));
    for (int i = 0; i < N; i++)
        assert_int_equal(got[i], value);
}

/* In a process of its own; returns what it wrote to stderr. Did it end by abort()? */
static bool dies(void (*run)(void), char *text, size_t room)
{
    int pipes[2], status;
    size_t n = 0;
    ssize_t got;

    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 2);
        signal(SIGABRT, SIG_DFL);
        run();
        _exit(0);
    }
    close(pipes[1]);
    while (n + 1 < room && (got = read(pipes[0], text + n, room - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(pipes[0]);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void expect_death(void (*run)(void), const char *first, const char *second)
{
    char text[4096];

    if (!dies(run, text, sizeof text))
        fail_msg("nothing was noticed; stderr: %s", text);
    if (strstr(text, first) == NULL || strstr(text, second) == NULL)
        fail_msg("'%s' and '%s' are not in: %s", first, second, text);
}

static void expect_life(void (*run)(void))
{
    char text[4096];

    if (dies(run, text, sizeof text))
        fail_msg("%s", text);
}

/* ---- What it does ------------------------------------------------------------------------------------------ */

static void *kernel(const char *name)
{
    void *module, *function;

    ok(cuModuleLoadData(&module, "any"));
    ok(cuModuleGetFunction(&function, module, name));
    return function;
}

static int launch(void *function, void *argument, unsigned blocks, void *stream)
{
    void *arguments[] = { argument };

    return cuLaunchKernel(function, blocks, 1, 1, PLAIT_CUDA_THREADS, 1, 1, 0, stream, arguments, NULL);
}

static void add(const struct place *p, void *stream)
{
    struct plait_cuda_reduce a = { .dst = (void *)(uintptr_t)p->b, .count = N, .nsrc = 2, .op = PLAIT_SUM };

    a.source[0] = (void *)(uintptr_t)p->a;
    a.source[1] = (void *)(uintptr_t)p->b;
    ok(launch(kernel("plait_reduce_int32"), &a, 3, stream));
}

static void kernels_copies_and_memsets_happen_in_the_order_of_their_stream(void **state)
{
    const struct place p = start();

    (void)state;
    ok(cuMemsetD32Async(p.a, 3, N, p.streams[0]));
    ok(cuMemsetD32Async(p.b, 4, N, p.streams[0]));
    add(&p, p.streams[0]);
    add(&p, p.streams[0]);
    ok(cuMemcpyAsync(p.a, p.b, N * 4, p.streams[0]));
    ok(cuStreamSynchronize(p.streams[0]));
    expect(p.a, 10);
}

static void streams_wait_for_events_and_values(void **state)
{
    const struct place p = start();

    (void)state;
    for (uint32_t i = 1; i <= 50; i++) {
        ok(cuMemsetD32Async(p.a, i, N, p.streams[0]));
        ok(cuStreamWriteValue32_v2(p.streams[0], p.word, i, 0));
        ok(cuStreamWaitValue32_v2(p.streams[1], p.word, i, 0));
        ok(cuMemcpyAsync(p.b, p.a, N * 4, p.streams[1]));
        ok(cuEventRecord(p.event, p.streams[1]));
        ok(cuStreamWaitEvent(p.streams[0], p.event, 0));
    }
    ok(cuEventSynchronize(p.event));
    ok(cuEventQuery(p.event));
    expect(p.b, 50);
}

static void streams_wait_for_stream_zero_unless_they_are_made_not_to(void **state)
{
    const struct place p = start();
    void *blocking;

    (void)state;
    ok(cuStreamCreate(&blocking, 0));
    for (uint32_t i = 1; i <= 20; i++) {
        ok(cuMemsetD32Async(p.a, i, N, NULL));
        ok(cuMemcpyAsync(p.b, p.a, N * 4, blocking));
    }
    ok(cuMemcpyAsync(p.a, p.b, N * 4, NULL));
    ok(cuStreamSynchronize(NULL));
    expect(p.a, 20);
}

static void note(void *context)
{
    *(int *)context = 1;
}

static void host_functions_run_in_order(void **state)
{
    const struct place p = start();
    int noted = 0;

    (void)state;
    ok(cuLaunchHostFunc(p.streams[0], note, &noted));
    ok(cuStreamSynchronize(p.streams[0]));
    assert_int_equal(noted, 1);
}

static void memory_says_what_it_is(void **state)
{
    const struct place p = start();
    int attributes[] = { VALUE_POINTER_ATTRIBUTE_MEMORY_TYPE, VALUE_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                         VALUE_POINTER_ATTRIBUTE_RANGE_SIZE };
    uint32_t type;
    uint64_t first;
    size_t bytes;
    void *data[] = { &type, &first, &bytes }, *pinned;

    (void)state;
    ok(cuPointerGetAttributes(3, attributes, data, p.a + 8));
    assert_int_equal(type, VALUE_MEMORYTYPE_DEVICE);
    assert_true(first == p.a && bytes == N * 4);
    ok(cuMemHostAlloc(&pinned, 64, 0));
    ok(cuPointerGetAttributes(1, attributes, data, (uintptr_t)pinned));
    assert_int_equal(type, VALUE_MEMORYTYPE_HOST);
    ok(cuPointerGetAttributes(1, attributes, data, (uintptr_t)&type));
    assert_int_equal(type, 0);
}

static void functions_are_found_by_name(void **state)
{
    void *found;

    (void)state;
    ok(cuGetProcAddress_v2("cuMemAlloc", &found, 13000, 0, NULL));
    assert_ptr_equal(found, (void *)(uintptr_t)cuMemAlloc_v2);
    assert_int_equal(cuGetProcAddress_v2("cuNothing", &found, 13000, 0, NULL), CU_NOT_FOUND);
}

/* Two lanes; what is counted up tells how often it ran. */
static void *count_in_graph(const struct place *p)
{
    void *graph, *executable;

    ok(cuStreamBeginCapture_v2(p->streams[0], VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemsetD32Async(p->a, 1, N, p->streams[0]));
    ok(cuEventRecord(p->event, p->streams[0]));
    ok(cuStreamWaitEvent(p->streams[1], p->event, 0));
    add(p, p->streams[1]);
    ok(cuEventRecord(p->event, p->streams[1]));
    ok(cuStreamWaitEvent(p->streams[0], p->event, 0));
    ok(cuStreamEndCapture(p->streams[0], &graph));
    ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    ok(cuGraphDestroy(graph));
    return executable;
}

static void a_graph_runs_as_often_as_it_is_launched_and_not_when_captured(void **state)
{
    const struct place p = start();

    (void)state;
    ok(cuMemsetD32_v2(p.b, 0, N));
    void *executable = count_in_graph(&p);
    expect(p.b, 0);
    for (int i = 0; i < 30; i++) {
        ok(cuGraphLaunch(executable, p.streams[i % 2]));
        ok(cuEventRecord(p.event, p.streams[i % 2]));
        ok(cuStreamWaitEvent(p.streams[1 - i % 2], p.event, 0));
        add(&p, p.streams[1 - i % 2]);
        ok(cuEventRecord(p.event, p.streams[1 - i % 2]));
        ok(cuStreamWaitEvent(p.streams[i % 2], p.event, 0));
    }
    ok(cuStreamSynchronize(p.streams[0]));
    ok(cuStreamSynchronize(p.streams[1]));
    expect(p.b, 60);
    ok(cuGraphExecDestroy(executable));
}

/* ---- What it refuses --------------------------------------------------------------------------------------- */

static void before_init(void)
{
    int n;

    if (cuDeviceGetCount(&n) == CU_NOT_INITIALIZED)
        abort();
}

static void calls_without_init_or_context_are_refused(void **state)
{
    void *context;
    cu_address a;

    (void)state;
    start();
    ok(cuCtxPopCurrent_v2(&context));
    for (void *more; cuCtxPopCurrent_v2(&more) == CU_OK;)
        ;
    assert_int_equal(cuMemAlloc_v2(&a, 4), CU_INVALID_CONTEXT);
    assert_int_equal(cuMemFree_v2(1), CU_INVALID_CONTEXT);
    assert_int_equal(cuStreamSynchronize(NULL), CU_INVALID_CONTEXT);
}

static void wrong_arguments_are_refused(void **state)
{
    const struct place p = start();
    struct plait_cuda_copy a = { 0 };
    cu_ipc_handle handle;
    cu_address opened;
    void *module, *none;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&opened, 0), CU_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(p.a + 4), CU_INVALID_VALUE);
    assert_int_equal(cuStreamWriteValue32_v2(p.streams[0], p.word + 2, 1, 0), CU_INVALID_VALUE);
    assert_int_equal(cuStreamWriteValue32_v2(p.streams[0], (uintptr_t)&a & ~7ull, 1, 0), CU_INVALID_VALUE);
    assert_int_equal(launch(kernel("plait_copy"), &a, 0, p.streams[0]), CU_INVALID_VALUE);
    ok(cuModuleLoadData(&module, "any"));
    assert_int_equal(cuModuleGetFunction(&none, module, "nothing"), CU_NOT_FOUND);
    ok(cuIpcGetMemHandle(&handle, p.a));
    assert_int_equal(cuIpcOpenMemHandle_v2(&opened, handle, 1), CU_INVALID_CONTEXT);
    assert_int_equal(cuIpcGetMemHandle(&handle, p.a + 4), CU_INVALID_VALUE);
    ok(cuStreamDestroy_v2(p.streams[1]));
    assert_int_equal(cuStreamSynchronize(p.streams[1]), CU_INVALID_HANDLE);
    assert_int_equal(cuMemsetD32Async(p.a, 0, 1, p.streams[1]), CU_INVALID_HANDLE);
    ok(cuEventDestroy_v2(p.event));
    assert_int_equal(cuEventRecord(p.event, p.streams[0]), CU_INVALID_HANDLE);
}

static void what_a_capture_does_not_survive_is_refused(void **state)
{
    const struct place p = start();
    int mode = VALUE_STREAM_CAPTURE_MODE_RELAXED, capturing;
    cu_address more;
    void *graph;

    (void)state;
    ok(cuStreamBeginCapture_v2(p.streams[0], VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuMemAlloc_v2(&more, 4));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuStreamIsCapturing(p.streams[0], &capturing));
    assert_int_equal(capturing, VALUE_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuMemAlloc_v2(&more, 4), CU_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(p.streams[0], &graph), CU_STREAM_CAPTURE_INVALIDATED);

    ok(cuStreamBeginCapture_v2(p.streams[0], VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuStreamSynchronize(p.streams[0]), CU_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(p.streams[0], &graph), CU_STREAM_CAPTURE_INVALIDATED);

    ok(cuStreamBeginCapture_v2(p.streams[0], VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuEventRecord(p.event, p.streams[0]));
    assert_int_equal(cuEventQuery(p.event), CU_CAPTURED_EVENT);
    ok(cuStreamWaitEvent(p.streams[1], p.event, 0));
    assert_int_equal(cuStreamEndCapture(p.streams[1], &graph), CU_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(cuStreamEndCapture(p.streams[0], &graph), CU_STREAM_CAPTURE_UNJOINED);
}

static void the_nth_call_fails(void **state)
{
    const struct place p = start();

    (void)state;
    standin_fail(2);
    ok(cuStreamSynchronize(p.streams[0]));
    assert_int_equal(cuStreamSynchronize(p.streams[0]), CU_UNKNOWN);
    ok(cuStreamSynchronize(p.streams[0]));
}

/* ---- What it notices --------------------------------------------------------------------------------------- */

static void race_of_copies(void)
{
    const struct place p = start();

    cuMemsetD32Async(p.a, 1, N, p.streams[0]);
    cuMemcpyAsync(p.b, p.a, N * 4, p.streams[1]);
    cuStreamSynchronize(p.streams[0]);
    cuStreamSynchronize(p.streams[1]);
}

static void race_of_kernels(void)
{
    const struct place p = start();

    add(&p, p.streams[0]);
    add(&p, p.streams[1]);
    cuStreamSynchronize(p.streams[0]);
    cuStreamSynchronize(p.streams[1]);
}

/* The buffer is written again while the other may still read it. */
static void buffer_used_too_early(void)
{
    const struct place p = start();

    for (uint32_t i = 1; i <= 2; i++) {
        cuMemsetD32Async(p.a, i, N, p.streams[0]);
        cuStreamWriteValue32_v2(p.streams[0], p.word, i, 0);
        cuStreamWaitValue32_v2(p.streams[1], p.word, i, 0);
        cuMemcpyAsync(p.b, p.a, N * 4, p.streams[1]);
    }
    cuStreamSynchronize(p.streams[0]);
    cuStreamSynchronize(p.streams[1]);
}

/* A value that was there before is no news. */
static void wait_for_the_wrong_value(void)
{
    const struct place p = start();

    cuMemsetD32Async(p.a, 1, N, p.streams[0]);
    cuStreamWriteValue32_v2(p.streams[0], p.word, 1, 0);
    cuStreamWaitValue32_v2(p.streams[1], p.word, 0, 0);
    usleep(20000);
    cuMemsetD32Async(p.a, 2, N, p.streams[0]);
    cuMemcpyAsync(p.b, p.a, N * 4, p.streams[1]);
    cuStreamSynchronize(p.streams[0]);
    cuStreamSynchronize(p.streams[1]);
}

/* Different bytes, and reads of the same, are no race. */
static void neighbours(void)
{
    const struct place p = start();

    cuMemsetD32Async(p.a, 1, N / 2, p.streams[0]);
    cuMemsetD32Async(p.a + N / 2 * 4, 1, N / 2, p.streams[1]);
    cuStreamSynchronize(p.streams[0]);
    cuStreamSynchronize(p.streams[1]);
    cuMemcpyAsync(p.b, p.a, N * 2, p.streams[0]);
    cuMemcpyAsync(p.b + N * 2, p.a, N * 2, p.streams[1]);
    cuStreamSynchronize(p.streams[0]);
    cuStreamSynchronize(p.streams[1]);
}

static void lanes_that_do_not_wait(void)
{
    const struct place p = start();
    void *graph, *executable, *end;

    cuEventCreate(&end, 2);
    cuStreamBeginCapture_v2(p.streams[0], VALUE_STREAM_CAPTURE_MODE_GLOBAL);
    cuEventRecord(p.event, p.streams[0]);
    cuStreamWaitEvent(p.streams[1], p.event, 0);
    cuMemsetD32Async(p.a, 1, N, p.streams[0]);
    cuMemcpyAsync(p.b, p.a, N * 4, p.streams[1]);
    cuEventRecord(end, p.streams[1]);
    cuStreamWaitEvent(p.streams[0], end, 0);
    cuStreamEndCapture(p.streams[0], &graph);
    cuGraphInstantiateWithFlags(&executable, graph, 0);
    cuGraphLaunch(executable, p.streams[0]);
    cuStreamSynchronize(p.streams[0]);
}

static void races_are_noticed_and_both_sides_named(void **state)
{
    (void)state;
    expect_death(race_of_copies, "a memset", "a copy");
    expect_death(race_of_kernels, "a race", "plait_reduce_int32");
    expect_death(buffer_used_too_early, "a memset", "a copy");
    expect_death(wait_for_the_wrong_value, "a memset", "a copy");
    expect_death(lanes_that_do_not_wait, "a memset", "a copy");
    expect_life(neighbours);
}

static void use_after_free(void)
{
    const struct place p = start();

    cuMemFree_v2(p.a);
    cuMemsetD32Async(p.a, 1, N, p.streams[0]);
    cuStreamSynchronize(p.streams[0]);
}

static void beyond_the_end(void)
{
    const struct place p = start();

    cuMemsetD32Async(p.a + 4, 1, N, p.streams[0]);
    cuStreamSynchronize(p.streams[0]);
}

static void host_memory_in_a_kernel(void)
{
    const struct place p = start();
    static uint32_t host[N];
    struct plait_cuda_copy a = { (void *)(uintptr_t)p.a, host, sizeof host };

    launch(kernel("plait_copy"), &a, 1, p.streams[0]);
    cuStreamSynchronize(p.streams[0]);
}

static void other_device(void)
{
    const struct place p = start();
    void *context, *stream;

    cuDevicePrimaryCtxRetain(&context, 1);
    cuCtxPushCurrent_v2(context);
    cuStreamCreate(&stream, 1);
    struct plait_cuda_copy a = { (void *)(uintptr_t)p.a, (void *)(uintptr_t)p.b, 64 };
    launch(kernel("plait_copy"), &a, 1, stream);
    cuStreamSynchronize(stream);
}

static void other_device_that_is_a_peer(void)
{
    void *context;

    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuDevicePrimaryCtxRetain(&context, 1);
    cuCtxPushCurrent_v2(context);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxEnablePeerAccess(context, 0);
    other_device();
}

static void wrong_threads(void)
{
    const struct place p = start();
    struct plait_cuda_copy a = { (void *)(uintptr_t)p.a, (void *)(uintptr_t)p.b, 64 };
    void *arguments[] = { &a };

    cuLaunchKernel(kernel("plait_copy"), 1, 1, 1, 128, 1, 1, 0, p.streams[0], arguments, NULL);
}

static void wrong_accesses_are_noticed(void **state)
{
    (void)state;
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    expect_death(use_after_free, "a memset", "freed");
    expect_death(beyond_the_end, "a memset", "4 bytes too many");
    expect_death(host_memory_in_a_kernel, "plait_copy", "no memory that the device can reach");
    expect_death(other_device, "plait_copy", "peer access");
    expect_life(other_device_that_is_a_peer);
    expect_death(wrong_threads, "128", "256");
    expect_death(before_init, "", "");
}

/* ---- Several processes ------------------------------------------------------------------------------------- */

struct between { /* two processes */
    _Atomic int phase, finished;
    cu_ipc_handle memory, word;
};

static struct between *between;
static bool careless;

static void wait_for_phase(int phase)
{
    while (between->phase < phase)
        usleep(200);
}

/* What an ended process did is no race any more: wait for the other, which may have died, for a second at most. */
static void linger(void)
{
    between->finished++;
    for (int i = 0; i < 500 && between->finished < 2; i++)
        usleep(2000);
}

/* Reads what the other writes, in the order of values. careless: says too early that it has read. */
static void reader(void)
{
    const struct place p = start();
    cu_address memory, word;

    wait_for_phase(1);
    ok(cuIpcOpenMemHandle_v2(&memory, between->memory, 1));
    ok(cuIpcOpenMemHandle_v2(&word, between->word, 1));
    for (uint32_t i = 1; i <= 20; i++) {
        ok(cuStreamWaitValue32_v2(p.streams[0], word, i, 0));
        if (careless && i == 20)
            ok(cuStreamWriteValue32_v2(p.streams[0], word + 4, i, 0));
        ok(cuMemcpyAsync(p.a, memory, N * 4, p.streams[0]));
        if (!careless || i < 20)
            ok(cuStreamWriteValue32_v2(p.streams[0], word + 4, i, 0));
    }
    ok(cuStreamSynchronize(p.streams[0]));
    if (!careless)
        expect(p.a, 20);
    ok(cuIpcCloseMemHandle(memory));
    if (!careless)
        between->phase = 2;
    else
        linger();
}

static void writer(void)
{
    const struct place p = start();

    ok(cuIpcGetMemHandle(&between->memory, p.a));
    ok(cuIpcGetMemHandle(&between->word, p.word));
    between->phase = 1;
    for (uint32_t i = 1; i <= 21; i++) {
        if (i > 1)
            ok(cuStreamWaitValue32_v2(p.streams[0], p.word + 4, i - 1, 0));
        if (i < 21 || careless)
            ok(cuMemsetD32Async(p.a, i, N, p.streams[0]));
        ok(cuStreamWriteValue32_v2(p.streams[0], p.word, i, 0));
    }
    ok(cuStreamSynchronize(p.streams[0]));
    if (!careless)
        wait_for_phase(2);
    else
        linger();
}

/* In a world of their own; both lived? */
static bool two_processes_live(void)
{
    const int world = memfd_create("world", 0);
    char path[64], text[4096];
    int status;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), world);
    setenv("PLAIT_STANDIN_WORLD", path, 1);
    between->phase = between->finished = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        const bool died = dies(reader, text, sizeof text);
        if (died)
            fprintf(stderr, "the reader: %s", text);
        _exit(died ? 1 : 0);
    }
    const bool died = dies(writer, text, sizeof text);
    waitpid(pid, &status, 0);
    unsetenv("PLAIT_STANDIN_WORLD");
    close(world);
    if (died)
        printf("the writer: %s", text);
    return !died && status == 0;
}

static void processes_share_memory_values_and_clocks(void **state)
{
    (void)state;
    careless = false;
    assert_true(two_processes_live());
}

static void a_race_between_processes_is_noticed(void **state)
{
    (void)state;
    careless = true;
    assert_false(two_processes_live());
}

/* What a killed process was doing stands in nobody's way. */
static void killed(void)
{
    const struct place p = start();
    cu_address memory;

    wait_for_phase(1);
    ok(cuIpcOpenMemHandle_v2(&memory, between->memory, 1));
    ok(cuMemcpyAsync(p.a, memory, N * 4, p.streams[0]));
    while (cuStreamQuery(p.streams[0]) != CU_OK)
        ;
    ok(cuMemcpyAsync(p.a, memory, N * 4, p.streams[0]));
    usleep(5000);
    between->phase = 2;
    pause();
}

static void survivor(void)
{
    const struct place p = start();

    ok(cuIpcGetMemHandle(&between->memory, p.a));
    between->phase = 1;
    wait_for_phase(3);
    ok(cuMemsetD32Async(p.a, 1, N, p.streams[0]));
    ok(cuMemFree_v2(p.a));
}

static void a_killed_process_is_no_race(void **state)
{
    const int world = memfd_create("world", 0);
    char path[64], text[4096];

    (void)state;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), world);
    setenv("PLAIT_STANDIN_WORLD", path, 1);
    between->phase = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        killed();
        _exit(0);
    }
    const pid_t killer = fork();
    if (killer == 0) {
        wait_for_phase(2);
        kill(pid, SIGKILL);
        usleep(5000);
        between->phase = 3;
        _exit(0);
    }
    if (dies(survivor, text, sizeof text))
        fail_msg("%s", text);
    waitpid(pid, NULL, 0);
    waitpid(killer, NULL, 0);
    unsetenv("PLAIT_STANDIN_WORLD");
    close(world);
}

/* The tests use the driver in processes of their own, as it is initialised once. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races_are_noticed_and_both_sides_named),
        cmocka_unit_test(wrong_accesses_are_noticed),
        cmocka_unit_test(processes_share_memory_values_and_clocks),
        cmocka_unit_test(a_race_between_processes_is_noticed),
        cmocka_unit_test(a_killed_process_is_no_race),
        cmocka_unit_test(kernels_copies_and_memsets_happen_in_the_order_of_their_stream),
        cmocka_unit_test(streams_wait_for_events_and_values),
        cmocka_unit_test(streams_wait_for_stream_zero_unless_they_are_made_not_to),
        cmocka_unit_test(host_functions_run_in_order),
        cmocka_unit_test(memory_says_what_it_is),
        cmocka_unit_test(functions_are_found_by_name),
        cmocka_unit_test(a_graph_runs_as_often_as_it_is_launched_and_not_when_captured),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(what_a_capture_does_not_survive_is_refused),
        cmocka_unit_test(the_nth_call_fails),
        cmocka_unit_test(calls_without_init_or_context_are_refused),
    };

    assert_true(argc > 1);
    load(argv[1]);
    between = mmap(NULL, sizeof *between, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests_name("stand-in for CUDA", tests, NULL, NULL);
}
