/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in for CUDA's driver sees each kind of race and wrong access, in one process and between several. */
#include "../child.h"
#include "standin_use.h"

#include <kernels.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static void before_init(void)
{
    int n;

    if (cuDeviceGetCount(&n) == CU_NOT_INITIALIZED)
        abort();
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
    struct plait_cuda_list a = copy_list((void *)(uintptr_t)p.a, host, sizeof host);

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
    struct plait_cuda_list a = copy_list((void *)(uintptr_t)p.a, (void *)(uintptr_t)p.b, 64);
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
    struct plait_cuda_list a = copy_list((void *)(uintptr_t)p.a, (void *)(uintptr_t)p.b, 64);
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

/* ---- Pinned memory that the host writes --------------------------------------------------------------------- */

static uint32_t *pinned(void)
{
    void *memory;

    ok(cuMemHostAlloc(&memory, N * 4, 0));
    memset(memory, 0, N * 4);
    return memory;
}

static void written_too_early(void)
{
    const struct place p = start();
    uint32_t *host = pinned();

    ok(cuMemcpyAsync(p.a, (uintptr_t)host, N * 4, p.streams[0]));
    ok(cuEventRecord(p.event, p.streams[0]));
    host[N - 1] = 1;
    ok(cuEventSynchronize(p.event));
}

/* Another copy of it has been waited for. */
static void written_before_the_last_copy(void)
{
    const struct place p = start();
    uint32_t *host = pinned();

    ok(cuMemcpyAsync(p.a, (uintptr_t)host, N * 4, p.streams[0]));
    ok(cuMemcpyAsync(p.b, (uintptr_t)host, N * 4, p.streams[1]));
    ok(cuStreamSynchronize(p.streams[0]));
    host[0] = 1;
    ok(cuStreamSynchronize(p.streams[1]));
}

static uint32_t *written;

static void write_it(void *context)
{
    (void)context;
    written[0]++;
}

/* By the host when it has waited, by a host function, by another copy. */
static void written_in_order(void)
{
    const struct place p = start();

    written = pinned();
    for (int k = 0; k < 20; k++) {
        ok(cuMemcpyAsync(p.a, (uintptr_t)written, N * 4, p.streams[0]));
        ok(cuLaunchHostFunc(p.streams[0], write_it, NULL));
        ok(cuMemcpyAsync(p.a, (uintptr_t)written, N * 4, p.streams[0]));
        ok(cuStreamSynchronize(p.streams[0]));
        written[0]++;
        ok(cuMemsetD32Async(p.b, 0, N, p.streams[0]));
        ok(cuMemcpyAsync((uintptr_t)written, p.b, N * 4, p.streams[0]));
        ok(cuMemcpyAsync(p.a, (uintptr_t)written, N * 4, p.streams[0]));
        ok(cuStreamSynchronize(p.streams[0]));
        written[1]++;
    }
    ok(cuMemcpyAsync(p.a, (uintptr_t)written, N * 4, p.streams[0]));
    ok(cuMemFreeHost(written));
    ok(cuStreamSynchronize(p.streams[0]));
}

static void writes_of_the_host_to_what_a_copy_reads_are_noticed(void **state)
{
    (void)state;
    expect_death(written_too_early, "pinned memory", "not waited for the copy");
    expect_death(written_before_the_last_copy, "pinned memory", "not waited for the copy");
    expect_life(written_in_order);
}

/* ---- Several processes ------------------------------------------------------------------------------------- */

struct between { /* two processes */
    _Atomic int phase, finished;
    cu_ipc_handle memory, word, several[3];
};

static struct between *between;
static bool careless;

static void wait_for_phase(int phase)
{
    while (between->phase < phase)
        usleep(200);
}

/* What an ended process did is no race any more: wait for the other, which may have died, for 5 s at most. */
static void linger(void)
{
    between->finished++;
    for (int i = 0; i < 2500 && between->finished < 2; i++)
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
static bool two_processes_live(void (*one)(void), void (*other)(void))
{
    const int world = memfd_create("world", 0);
    char path[64], text[4096];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), world);
    setenv("PLAIT_STANDIN_WORLD", path, 1);
    between->phase = between->finished = 0;
    const pid_t pid = child_fork();
    if (pid == 0) {
        const bool lived = lives(one, text, sizeof text);
        if (!lived)
            fprintf(stderr, "one process: %s", text);
        _exit(lived ? 0 : 1);
    }
    const bool lived = lives(other, text, sizeof text);
    const int end = child_end(pid);
    unsetenv("PLAIT_STANDIN_WORLD");
    close(world);
    if (!lived)
        printf("the other process: %s", text);
    return lived && end == 0;
}

static void processes_share_memory_values_and_clocks(void **state)
{
    (void)state;
    careless = false;
    assert_true(two_processes_live(reader, writer));
}

static void a_race_between_processes_is_noticed(void **state)
{
    (void)state;
    careless = true;
    assert_false(two_processes_live(reader, writer));
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
    const pid_t pid = child_fork();
    if (pid == 0) {
        killed();
        _exit(0);
    }
    const pid_t killer = child_fork();
    if (killer == 0) {
        struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
        wait_for_phase(2);
        kill(pid, SIGKILL);
        if (end.fd < 0 || poll(&end, 1, -1) != 1)
            usleep(5000);
        between->phase = 3;
        _exit(0);
    }
    if (!lives(survivor, text, sizeof text))
        fail_msg("%s", text);
    child_end(pid);
    child_end(killer);
    unsetenv("PLAIT_STANDIN_WORLD");
    close(world);
}

/* The owner's allocations: one across two blocks of 2 MiB, one in the first block, which is freed, one in the second. */
enum { ACROSS, FIRST, SECOND };

static void free_the_first(void)
{
    enum { MOST = 400, BYTES = 5 * 4096 };
    static cu_address all[MOST];
    const uint64_t block = (uint64_t)2 << 20;
    cu_address found[3] = { 0 };

    start();
    for (int i = 0; i < MOST; i++) {
        ok(cuMemAlloc_v2(&all[i], BYTES));
        if (all[i] / block != (all[i] + BYTES - 1) / block)
            found[ACROSS] = all[i];
    }
    for (int i = 0; i < MOST; i++)
        for (int k = FIRST; k <= SECOND; k++)
            if (all[i] != found[ACROSS] && all[i] / block == found[ACROSS] / block + (k == SECOND))
                found[k] = all[i];
    for (int k = 0; k < 3; k++) {
        assert_true(found[k] != 0);
        ok(cuIpcGetMemHandle(&between->several[k], found[k]));
    }
    between->phase = 1;
    wait_for_phase(2);
    ok(cuMemFree_v2(found[FIRST]));
    between->phase = 3;
    wait_for_phase(4);
}

static void map_across(void)
{
    cu_address first, second, across;

    start();
    wait_for_phase(1);
    ok(cuIpcOpenMemHandle_v2(&first, between->several[FIRST], 1));
    ok(cuIpcOpenMemHandle_v2(&second, between->several[SECOND], 1));
    between->phase = 2;
    wait_for_phase(3);
    const int status = cuIpcOpenMemHandle_v2(&across, between->several[ACROSS], 1);
    between->phase = 4;
    ok(status);
}

/* Part of a block that lives is mapped, so the block was not freed. */
static void an_allocation_across_two_blocks_is_mapped_beside_one_that_lives(void **state)
{
    (void)state;
    assert_true(two_processes_live(map_across, free_the_first));
}

/* The tests use the driver in processes of their own, as it is initialised once. */
/* Two allocations of whole pages, the second of which begins where the first ends. */
static void add_neighbours(void)
{
    enum { MOST = 64, PAGE = 4096 };
    struct place p = start();
    cu_address all[MOST], low = 0, high = 0;
    bool found = false;

    for (int i = 0; i < MOST && !found; i++) {
        ok(cuMemAlloc_v2(&all[i], PAGE));
        ok(cuMemsetD32_v2(all[i], 1, PAGE / 4));
        for (int k = 0; k < 2 * i && !found; k++) {
            low = k < i ? all[k] : all[i];
            high = k < i ? all[i] : all[k - i];
            found = high == low + PAGE;
        }
    }
    assert_true(found);
    add_to(low + PAGE - N * 4, high, p.b, p.streams[0]);
    ok(cuStreamSynchronize(p.streams[0]));
    expect(p.b, 2);
}

static void allocations_beside_each_other_are_not_one(void **state)
{
    (void)state;
    expect_life(add_neighbours);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_beside_each_other_are_not_one),
        cmocka_unit_test(races_are_noticed_and_both_sides_named),
        cmocka_unit_test(wrong_accesses_are_noticed),
        cmocka_unit_test(writes_of_the_host_to_what_a_copy_reads_are_noticed),
        cmocka_unit_test(processes_share_memory_values_and_clocks),
        cmocka_unit_test(a_race_between_processes_is_noticed),
        cmocka_unit_test(a_killed_process_is_no_race),
        cmocka_unit_test(an_allocation_across_two_blocks_is_mapped_beside_one_that_lives),
    };

    assert_true(argc > 1);
    load(argv[1]);
    between = shared_memory(sizeof *between);
    return cmocka_run_group_tests_name("stand-in for CUDA: what it notices", tests, NULL, NULL);
}
