/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in for CUDA's driver: what it does and what it refuses. */
#include "standin_use.h"

#include <kernels.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <stdlib.h>

/* ---- What it does ------------------------------------------------------------------------------------------ */

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
    struct plait_cuda_list a = { 0 };
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
    unsigned long long id[3];
    cu_address more;
    void *graph;

    (void)state;
    ok(cuStreamBeginCapture_v2(p.streams[0], VALUE_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuMemAlloc_v2(&more, 4));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuStreamGetCaptureInfo(p.streams[0], &capturing, &id[0]));
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
    for (int i = 0; i < 2; i++)
        ok(cuStreamGetCaptureInfo(p.streams[i], &capturing, &id[1 + i]));
    assert_true(id[1] == id[2] && id[1] != id[0]);
    assert_int_equal(cuStreamEndCapture(p.streams[1], &graph), CU_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(cuStreamEndCapture(p.streams[0], &graph), CU_STREAM_CAPTURE_UNJOINED);
}

static atomic_int stage;

static void wait_for_2(void *context)
{
    (void)context;
    atomic_store(&stage, 1);
    while (atomic_load(&stage) < 2)
        usleep(100);
}

static void go_to_3(void *context)
{
    (void)context;
    atomic_store(&stage, 3);
}

static void one_function_of_the_hosts_runs_at_a_time(void **state)
{
    const struct place p = start();

    (void)state;
    atomic_store(&stage, 0);
    ok(cuLaunchHostFunc(p.streams[0], wait_for_2, NULL));
    while (atomic_load(&stage) < 1)
        usleep(100);
    ok(cuLaunchHostFunc(p.streams[1], go_to_3, NULL));
    usleep(20000);
    assert_int_equal(atomic_load(&stage), 1);
    atomic_store(&stage, 2);
    ok(cuStreamSynchronize(p.streams[1]));
    assert_int_equal(atomic_load(&stage), 3);
}

struct instantiation {
    void *context, *graph, *exec;
    atomic_bool over;
};

static void *instantiate(void *arg)
{
    struct instantiation *i = arg;

    ok(cuCtxPushCurrent_v2(i->context));
    ok(cuGraphInstantiateWithFlags(&i->exec, i->graph, 0));
    atomic_store(&i->over, true);
    return NULL;
}

struct reading {
    struct place p;
    uint32_t got;
};

static void *copy_out(void *arg)
{
    struct reading *r = arg;

    ok(cuCtxPushCurrent_v2(r->p.context));
    ok(cuMemcpyAsync((uintptr_t)&r->got, r->p.a, sizeof r->got, r->p.streams[1]));
    return NULL;
}

static void a_copy_to_mallocs_memory_waits_and_with_it_who_instantiates(void **state)
{
    static struct reading r;
    static struct instantiation i;
    pthread_t reader, other;

    (void)state;
    r.p = start();
    i.context = r.p.context;
    ok(cuStreamBeginCapture_v2(r.p.streams[0], VALUE_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemsetD32Async(r.p.b, 1, N, r.p.streams[0]));
    ok(cuStreamEndCapture(r.p.streams[0], &i.graph));
    ok(cuMemsetD32Async(r.p.a, 7, N, r.p.streams[1]));
    ok(cuStreamWaitValue32_v2(r.p.streams[1], r.p.word, 1, 0));
    const unsigned long long before = standin_puts(r.p.streams[1]);
    assert_int_equal(pthread_create(&reader, NULL, copy_out, &r), 0);
    while (standin_puts(r.p.streams[1]) == before)
        usleep(100);
    assert_int_equal(pthread_create(&other, NULL, instantiate, &i), 0);
    usleep(20000);
    assert_false(atomic_load(&i.over));
    ok(cuStreamWriteValue32_v2(r.p.streams[0], r.p.word, 1, 0));
    pthread_join(reader, NULL);
    pthread_join(other, NULL);
    assert_int_equal(r.got, 7);
    ok(cuGraphExecDestroy(i.exec));
    ok(cuGraphDestroy(i.graph));
}

static void the_nth_call_fails(void **state)
{
    const struct place p = start();

    (void)state;
    standin_fail(2);
    ok(cuStreamSynchronize(p.streams[0]));
    assert_int_equal(cuStreamSynchronize(p.streams[0]), CU_UNKNOWN);
    ok(cuStreamSynchronize(p.streams[0]));
    standin_arm(2, CU_OUT_OF_MEMORY);
    const char *failed;
    cu_address a;
    ok(cuMemAlloc_v2(&a, 4));
    assert_int_equal(cuMemAlloc_v2(&a, 4), CU_OUT_OF_MEMORY);
    ok(cuMemFree_v2(a));
    assert_int_equal(standin_disarm(&failed), 3);
    assert_string_equal(failed, "cuMemAlloc_v2");
    ok(cuStreamSynchronize(p.streams[0]));
}

static void what_is_left_is_counted(void **state)
{
    struct standin_left before, after;
    void *stream, *event, *module;
    cu_address a;

    (void)state;
    start();
    standin_left(&before);
    ok(cuMemAlloc_v2(&a, 4));
    ok(cuStreamCreate(&stream, 1));
    ok(cuEventCreate(&event, 2));
    ok(cuModuleLoadData(&module, "any"));
    standin_left(&after);
    assert_true(after.memory == before.memory + 1 && after.streams == before.streams + 1 &&
                after.events == before.events + 1 && after.modules == before.modules + 1 &&
                after.imported == before.imported);
    ok(cuMemFree_v2(a));
    ok(cuStreamDestroy_v2(stream));
    ok(cuEventDestroy_v2(event));
    standin_left(&after);
    assert_true(after.memory == before.memory && after.streams == before.streams && after.events == before.events);
}

static void a_device_that_is_alone_reaches_no_other(void **state)
{
    void *others[2];
    int able;

    (void)state;
    setenv("PLAIT_STANDIN_DEVICES", "3", 1);
    setenv("PLAIT_STANDIN_ALONE", "2", 1);
    const struct place p = start();
    for (int i = 0; i < 2; i++)
        ok(cuDevicePrimaryCtxRetain(&others[i], i + 1));
    ok(cuDeviceCanAccessPeer(&able, 0, 1));
    assert_true(able);
    ok(cuDeviceCanAccessPeer(&able, 2, 0));
    assert_false(able);
    ok(cuCtxPushCurrent_v2(p.context));
    assert_int_equal(cuCtxEnablePeerAccess(others[1], 0), CU_PEER_ACCESS_UNSUPPORTED);
    ok(cuCtxEnablePeerAccess(others[0], 0));
    unsetenv("PLAIT_STANDIN_DEVICES");
    unsetenv("PLAIT_STANDIN_ALONE");
}

/* The tests use the driver in processes of their own, as it is initialised once. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_copies_and_memsets_happen_in_the_order_of_their_stream),
        cmocka_unit_test(streams_wait_for_events_and_values),
        cmocka_unit_test(streams_wait_for_stream_zero_unless_they_are_made_not_to),
        cmocka_unit_test(host_functions_run_in_order),
        cmocka_unit_test(memory_says_what_it_is),
        cmocka_unit_test(functions_are_found_by_name),
        cmocka_unit_test(a_graph_runs_as_often_as_it_is_launched_and_not_when_captured),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(what_a_capture_does_not_survive_is_refused),
        cmocka_unit_test(one_function_of_the_hosts_runs_at_a_time),
        cmocka_unit_test(a_copy_to_mallocs_memory_waits_and_with_it_who_instantiates),
        cmocka_unit_test(the_nth_call_fails),
        cmocka_unit_test(what_is_left_is_counted),
        cmocka_unit_test(a_device_that_is_alone_reaches_no_other),
        cmocka_unit_test(calls_without_init_or_context_are_refused),
    };

    assert_true(argc > 1);
    load(argv[1]);
    return cmocka_run_group_tests_name("stand-in for CUDA", tests, NULL, NULL);
}
