/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program does with NCCL on memory of GPUs and streams: here on the stand-in for the driver. */
#include "../places.h"
#include "unit_gpu.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 1000
#define MOST  8

static float element(size_t i, int rank, int k)
{
    return (float)((i * 7 + (size_t)rank * 13 + (size_t)k * 5) % 32);
}

static float sum_at(size_t i, int nrank, int k)
{
    float sum = 0;

    for (int r = 0; r < nrank; r++)
        sum += element(i, r, k);
    return sum;
}

/* ---- Each collective ----------------------------------------------------------------------------------------- */

/* IN is filled on the stream, and nobody waits for that. */
static int fill(struct gpu_rank *g, int rank, int k)
{
    for (size_t i = 0; i < g->elements; i++)
        g->host[i] = element(i, rank, k);
    CHECK(gpu_put(g->in, g->host, g->elements * sizeof(float), g->stream));
    return 0;
}

/* What is in OUT from element `at` on: of rank `of` from element `from` on; -1: the sum of all. */
static int expect(struct gpu_rank *g, int rank, int nrank, size_t at, size_t n, int of, size_t from, int k)
{
    float *got = malloc(n * sizeof *got);

    CHECK(got != NULL && gpu_get(got, g->out + at, n * sizeof *got, g->stream));
    for (size_t i = 0; i < n; i++)
        if (got[i] != (of < 0 ? sum_at(from + i, nrank, k) : element(from + i, of, k))) {
            fprintf(stderr, "rank %d: element %zu of %zu, of rank %d in turn %d: %g\n", rank, i, n, of, k,
                    (double)got[i]);
            return 1;
        }
    free(got);
    return 0;
}

static int reduce_things(ncclComm_t comm, struct gpu_rank *g, int rank, int nrank)
{
    const size_t n = (size_t)nrank * COUNT;
    int failed = fill(g, rank, 1);

    OK(ncclAllReduce(g->in, g->out, n, ncclFloat, ncclSum, comm, g->stream));
    failed |= expect(g, rank, nrank, 0, n, -1, 0, 1);
    OK(ncclReduce(g->in, g->out, n, ncclFloat, ncclSum, nrank - 1, comm, g->stream));
    if (rank == nrank - 1)
        failed |= expect(g, rank, nrank, 0, n, -1, 0, 1);
    OK(ncclReduceScatter(g->in, g->out, COUNT, ncclFloat, ncclSum, comm, g->stream));
    failed |= expect(g, rank, nrank, 0, COUNT, -1, (size_t)rank * COUNT, 1);
    CHECK(gpu_put(g->out, g->in, n * sizeof(float), g->stream));
    OK(ncclAllReduce(g->out, g->out, n, ncclFloat, ncclSum, comm, g->stream));
    return failed | expect(g, rank, nrank, 0, n, -1, 0, 1);
}

static int move_things(ncclComm_t comm, struct gpu_rank *g, int rank, int nrank)
{
    int failed = fill(g, rank, 2);

    OK(ncclAllGather(g->in, g->out, COUNT, ncclFloat, comm, g->stream));
    for (int r = 0; r < nrank; r++)
        failed |= expect(g, rank, nrank, (size_t)r * COUNT, COUNT, r, 0, 2);
    OK(ncclBroadcast(rank == 0 ? g->in : NULL, g->out, COUNT, ncclFloat, 0, comm, g->stream));
    failed |= expect(g, rank, nrank, 0, COUNT, 0, 0, 2);
    CHECK(gpu_put(g->out, g->in, COUNT * sizeof(float), g->stream));
    OK(ncclBcast(g->out, COUNT, ncclFloat, nrank - 1, comm, g->stream));
    failed |= expect(g, rank, nrank, 0, COUNT, nrank - 1, 0, 2);
    OK(ncclGather(g->in, rank == 0 ? g->out : NULL, COUNT, ncclFloat, 0, comm, g->stream));
    for (int r = 0; r < nrank && rank == 0; r++)
        failed |= expect(g, rank, nrank, (size_t)r * COUNT, COUNT, r, 0, 2);
    OK(ncclScatter(rank == 0 ? g->in : NULL, g->out, COUNT, ncclFloat, 0, comm, g->stream));
    failed |= expect(g, rank, nrank, 0, COUNT, 0, (size_t)rank * COUNT, 2);
    OK(ncclAlltoAll(g->in, g->out, COUNT, ncclFloat, comm, g->stream));
    for (int r = 0; r < nrank; r++)
        failed |= expect(g, rank, nrank, (size_t)r * COUNT, COUNT, r, (size_t)rank * COUNT, 2);
    return failed;
}

/* Every other rank in place. What is enqueued twice uses the staged input again. */
static int work_in_place(ncclComm_t comm, struct gpu_rank *g, int rank, int nrank)
{
    const size_t n = (size_t)nrank * COUNT;
    int failed = 0;

    for (int k = 0; k < 2; k++) {
        const float *in = rank % 2 == k ? g->in : g->out;
        failed |= fill(g, rank, 2);
        CHECK(gpu_put(g->out, g->in, n * sizeof(float), g->stream));
        OK(ncclAllReduce(in, g->out, n, ncclFloat, ncclSum, comm, g->stream));
        failed |= expect(g, rank, nrank, 0, n, -1, 0, 2);
        CHECK(gpu_put(g->out, g->in, n * sizeof(float), g->stream));
        OK(ncclAlltoAll(in, g->out, COUNT, ncclFloat, comm, g->stream));
        OK(ncclAlltoAll(g->out, g->out, COUNT, ncclFloat, comm, g->stream)); /* back */
        OK(ncclAlltoAll(g->out, g->out, COUNT, ncclFloat, comm, g->stream));
        for (int r = 0; r < nrank; r++)
            failed |= expect(g, rank, nrank, (size_t)r * COUNT, COUNT, r, (size_t)rank * COUNT, 2);
    }
    return failed;
}

/* Nobody on the host waits between them, though they take turns in IN. */
static int queue_things(ncclComm_t comm, struct gpu_rank *g, int rank, int nrank)
{
    int failed = 0;

    for (int k = 0; k < 5; k++) {
        float *host = g->host + k * COUNT;
        for (size_t i = 0; i < COUNT; i++)
            host[i] = element(i, rank, k);
        CHECK(gpu_put(g->in, host, COUNT * sizeof(float), g->stream));
        OK(ncclAllReduce(g->in, g->out + k * COUNT, COUNT, ncclFloat, ncclSum, comm, g->stream));
    }
    for (int k = 0; k < 5; k++)
        failed |= expect(g, rank, nrank, (size_t)k * COUNT, COUNT, -1, 0, k);
    return failed;
}

static int use_everything(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    int device = -1;

    CHECK(gpu_use(0));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclCommCuDevice(*comm, &device));
    CHECK(device == 0 && gpu_begin(&g, MOST * COUNT));
    int failed = reduce_things(*comm, &g, rank, nrank) || move_things(*comm, &g, rank, nrank) ||
                 work_in_place(*comm, &g, rank, nrank) || queue_things(*comm, &g, rank, nrank);
    OK(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, *comm, rank == 0 ? NULL : g.stream)); /* they only meet */
    /* CUDA's default stream, by both its handles. */
    cudaStream_t own = g.stream;
    CHECK(gpu.synchronize(own) == 0);
    for (uintptr_t handle = 0; handle < 2; handle++) {
        g.stream = (cudaStream_t)handle;
        failed |= reduce_things(*comm, &g, rank, nrank) || move_things(*comm, &g, rank, nrank);
    }
    g.stream = own;
    CHECK(gpu_end(&g));
    return failed;
}

static void every_collective_is_right_in_the_order_of_streams(void **state)
{
    static const int shapes[][2] = { { 1, 1 }, { 1, 2 }, { 1, 4 }, { 2, 1 }, { 2, 2 } };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_int_equal(gpu_run(shapes[i][0], shapes[i][1], use_everything), 0);
}

/* ---- Types and operators --------------------------------------------------------------------------------------- */

static int combine_every_type(ncclComm_t comm, struct gpu_rank *g, int rank)
{
    unsigned char one[64 * 8], got[64 * 8];

    for (int type = 0; type < ncclNumTypes; type++)
        for (int op = ncclProd; op < ncclNumOps; op++) {
            for (size_t i = 0; i < 64; i++)
                put_one(one + i * type_sizes[type], type);
            CHECK(gpu_put(g->in, one, sizeof one, g->stream));
            OK(ncclAllReduce(g->in, g->out, 64, (ncclDataType_t)type, (ncclRedOp_t)op, comm, g->stream));
            CHECK(gpu_get(got, g->out, 64 * type_sizes[type], g->stream));
            CHECK(memcmp(one, got, 64 * type_sizes[type]) == 0);
        }
    return 0;
}

/* What is multiplied by is read at the call, or by the GPU in its turn: not before, and not after. */
static int multiply_before(ncclComm_t comm, struct gpu_rank *g, int rank, int nrank)
{
    const float two = 2, four = 4, eight = 8;
    float *late = g->in + 2 * COUNT, got[COUNT];
    ncclRedOp_t now, then;

    if (fill(g, rank, 0) != 0)
        return 1;
    OK(ncclRedOpCreatePreMulSum(&now, (void *)(uintptr_t)&two, ncclFloat, ncclScalarHostImmediate, comm));
    OK(ncclRedOpCreatePreMulSum(&then, late, ncclFloat, ncclScalarDevice, comm));
    OK(ncclAllReduce(g->in, g->out, COUNT, ncclFloat, now, comm, g->stream));
    CHECK(gpu_get(got, g->out, sizeof got, g->stream));
    for (size_t i = 0; i < COUNT; i++)
        CHECK(got[i] == 2 * sum_at(i, nrank, 0));
    CHECK(gpu_put(late, &four, sizeof four, g->stream));
    OK(ncclGroupStart()); /* fused */
    OK(ncclAllReduce(g->in, g->out, COUNT / 2, ncclFloat, then, comm, g->stream));
    OK(ncclAllReduce(g->in + COUNT / 2, g->out + COUNT / 2, COUNT - COUNT / 2, ncclFloat, then, comm, g->stream));
    OK(ncclGroupEnd());
    CHECK(gpu_put(late, &eight, sizeof eight, g->stream));
    CHECK(gpu_get(got, g->out, sizeof got, g->stream));
    for (size_t i = 0; i < COUNT; i++)
        CHECK(got[i] == 4 * sum_at(i, nrank, 0));
    OK(ncclReduceScatter(g->in, g->out, COUNT / MOST, ncclFloat, then, comm, g->stream));
    CHECK(gpu_get(got, g->out, COUNT / MOST * sizeof *got, g->stream));
    for (size_t i = 0; i < COUNT / MOST; i++)
        CHECK(got[i] == 8 * sum_at((size_t)rank * (COUNT / MOST) + i, nrank, 0));
    OK(ncclRedOpDestroy(now, comm));
    OK(ncclRedOpDestroy(then, comm));
    return 0;
}

static int every_type_is_combined_by_every_operator_on_a_gpu(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, MOST * COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    const int failed = combine_every_type(*comm, &g, rank) || multiply_before(*comm, &g, rank, nrank);
    CHECK(gpu_end(&g));
    return failed;
}

/* ---- Messages and groups ----------------------------------------------------------------------------------------- */

static int exchange(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g, other;
    int failed = 0;

    CHECK(gpu_use(0) && gpu_begin(&g, MOST * COUNT) && gpu_begin(&other, 1));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    for (int k = 0; k < 4; k++) {
        failed |= fill(&g, rank, k);
        CHECK(gpu.synchronize(g.stream) == 0);
        OK(ncclGroupStart());
        for (int r = 0; r < nrank; r++) /* all receives behind all sends, to itself too; odd: on another stream */
            OK(ncclSend(g.in + r * COUNT, COUNT, ncclFloat, r, *comm, k % 2 == 0 ? g.stream : other.stream));
        for (int r = 0; r < nrank; r++)
            OK(ncclRecv(g.out + r * COUNT, COUNT, ncclFloat, r, *comm, g.stream));
        OK(ncclGroupEnd());
        for (int r = 0; r < nrank; r++)
            failed |= expect(&g, rank, nrank, (size_t)r * COUNT, COUNT, r, (size_t)rank * COUNT, k);
        CHECK(gpu.synchronize(other.stream) == 0);
    }
    if (rank < 2 && nrank > 1) { /* outside of groups, one waits for the other */
        failed |= fill(&g, rank, 9);
        OK(rank == 0 ? ncclSend(g.in, COUNT, ncclFloat, 1, *comm, g.stream)
                     : ncclRecv(g.out, COUNT, ncclFloat, 0, *comm, g.stream));
        if (rank == 1)
            failed |= expect(&g, rank, nrank, 0, COUNT, 0, 0, 9);
    }
    CHECK(gpu_end(&g) && gpu_end(&other));
    return failed;
}

static void messages_of_groups_are_exchanged_between_gpus_memories(void **state)
{
    assert_int_equal(gpu_run(1, 1, exchange), 0);
    assert_int_equal(gpu_run(1, 4, exchange), 0);
    assert_int_equal(gpu_run(2, 2, exchange), 0);
}

/* One thread with all ranks of a comm, two on each of two GPUs; streams are NULL, which is each comm's own GPU's. */
static int hold_all(ncclComm_t *unused, int rank, int nrank)
{
    static const int devices[4] = { 0, 0, 1, 1 };
    ncclComm_t comms[4], parts[4];
    struct gpu_rank g[4];
    int device, failed = 0;

    CHECK(gpu_use(0));
    OK(ncclCommInitAll(comms, 4, devices));
    for (int r = 0; r < 4; r++) {
        CHECK(gpu_use(devices[r]) && gpu_begin(&g[r], COUNT) && fill(&g[r], r, 3) == 0);
        CHECK(gpu.synchronize(g[r].stream) == 0);
        OK(ncclCommCuDevice(comms[r], &device));
        CHECK(device == devices[r]);
    }
    CHECK(gpu_use(1));
    OK(ncclGroupStart());
    for (int r = 0; r < 4; r++)
        OK(ncclCommSplit(comms[r], r % 2, -r, &parts[r], NULL));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    for (int r = 0; r < 4; r++)
        OK(ncclAllReduce(g[r].in, g[r].out, COUNT, ncclFloat, ncclSum, comms[r], NULL));
    OK(ncclGroupEnd());
    for (int r = 0; r < 4; r++) {
        cudaStream_t own = g[r].stream;
        CHECK(gpu_use(devices[r]));
        g[r].stream = NULL;
        failed |= expect(&g[r], r, 4, 0, COUNT, -1, 0, 3);
        g[r].stream = own;
        OK(ncclCommCuDevice(parts[r], &device));
        CHECK(device == devices[r]);
    }
    OK(ncclGroupStart()); /* of two comms */
    for (int r = 0; r < 4; r++) {
        OK(ncclBcast(g[r].in, COUNT, ncclFloat, 2, comms[r], g[r].stream));
        OK(ncclAllReduce(g[r].out, g[r].out, COUNT, ncclFloat, ncclMax, parts[r], g[r].stream));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < 4; r++) {
        CHECK(gpu_use(devices[r]));
        failed |= expect(&g[r], r, 4, 0, COUNT, -1, 0, 3);
        CHECK(gpu_put(g[r].out, g[r].in, COUNT * sizeof(float), g[r].stream));
        failed |= expect(&g[r], r, 4, 0, COUNT, 2, 0, 3);
    }
    for (int r = 0; r < 4; r++) {
        OK(ncclCommDestroy(parts[r]));
        CHECK(gpu_use(devices[r]));
        CHECK(gpu_end(&g[r]));
    }
    for (int r = 0; r < 4; r++)
        OK(ncclCommDestroy(comms[r]));
    return failed;
}

static void one_thread_may_hold_ranks_on_several_gpus(void **state)
{
    static const char *const environment[] = { "PLAIT_STANDIN_DEVICES=2", NULL };

    if (!gpu_has_two())
        skip();
    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 1, .nthread = 1, .body = hold_all, .environment = environment }), 0);
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

enum { REPLAYS = 100 };

/* A sum, a group of sums that is fused, and a message, captured; launched between calls of the same comm. */
static int replay(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    void *graph, *exec;
    int failed = 0;

    CHECK(gpu_use(0) && gpu_begin(&g, 7 * COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(gpu.capture_begin(g.stream, CAPTURE_ALONE) == 0);
    OK(ncclAllReduce(g.in, g.out, COUNT, ncclFloat, ncclSum, *comm, g.stream));
    OK(ncclGroupStart());
    for (int t = 0; t < 10; t++)
        OK(ncclAllReduce(g.in + COUNT + t * 100, g.out + COUNT + t * 100, 100, ncclFloat, ncclSum, *comm, g.stream));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    OK(ncclSend(g.in + 2 * COUNT, COUNT, ncclFloat, (rank + 1) % nrank, *comm, g.stream));
    OK(ncclRecv(g.out + 2 * COUNT, COUNT, ncclFloat, (rank + nrank - 1) % nrank, *comm, g.stream));
    OK(ncclGroupEnd());
    CHECK(gpu.capture_end(g.stream, &graph) == 0 && gpu.instantiate(&exec, graph, 0) == 0);
    for (int k = 0; k < REPLAYS && failed == 0; k++) {
        failed |= fill(&g, rank, k);
        CHECK(gpu.launch(exec, g.stream) == 0);
        if (k % 3 == 2) {
            OK(ncclGroupStart());
            for (int t = 0; t < 30; t++) /* more than what was captured has room for */
                OK(ncclAllReduce(g.in + t * 100, g.out + 4 * COUNT + t * 100, 100, ncclFloat, ncclSum, *comm,
                                 g.stream));
            OK(ncclGroupEnd());
            OK(ncclAllReduce(g.in, g.out + 3 * COUNT, COUNT, ncclFloat, ncclSum, *comm, g.stream));
            failed |= expect(&g, rank, nrank, 3 * COUNT, COUNT, -1, 0, k);
        }
        failed |= expect(&g, rank, nrank, 0, 2 * COUNT, -1, 0, k);
        failed |= expect(&g, rank, nrank, 2 * COUNT, COUNT, (rank + nrank - 1) % nrank, 2 * COUNT, k);
    }
    CHECK(gpu.exec_destroy(exec) == 0 && gpu.graph_destroy(graph) == 0);
    CHECK(gpu_end(&g));
    return failed;
}

/* A sum, a group of sums that is fused, a message, and a sum of what was scaled. */
static int call_all(ncclComm_t comm, const struct gpu_rank *g, ncclRedOp_t twice, int rank, int nrank)
{
    OK(ncclAllReduce(g->in, g->out, COUNT, ncclFloat, ncclSum, comm, g->stream));
    OK(ncclGroupStart());
    for (int t = 0; t < 10; t++)
        OK(ncclAllReduce(g->in + COUNT + t * 100, g->out + COUNT + t * 100, 100, ncclFloat, ncclSum, comm, g->stream));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    OK(ncclSend(g->in + 2 * COUNT, COUNT, ncclFloat, (rank + 1) % nrank, comm, g->stream));
    OK(ncclRecv(g->out + 2 * COUNT, COUNT, ncclFloat, (rank + nrank - 1) % nrank, comm, g->stream));
    OK(ncclGroupEnd());
    OK(ncclReduce(g->in + 3 * COUNT, g->out + 3 * COUNT, COUNT, ncclFloat, twice, 0, comm, g->stream));
    return 0;
}

static int expect_all(struct gpu_rank *g, int rank, int nrank, int seed)
{
    int failed = expect(g, rank, nrank, 0, 2 * COUNT, -1, 0, seed);

    failed |= expect(g, rank, nrank, 2 * COUNT, COUNT, (rank + nrank - 1) % nrank, 2 * COUNT, seed);
    if (rank == 0) { /* twice the sum */
        CHECK(gpu_get(g->host, g->out + 3 * COUNT, COUNT * sizeof(float), g->stream));
        for (size_t i = 0; i < COUNT; i++)
            g->host[i] /= 2;
        CHECK(gpu_put(g->out + 3 * COUNT, g->host, COUNT * sizeof(float), g->stream));
        failed |= expect(g, rank, nrank, 3 * COUNT, COUNT, -1, 3 * COUNT, seed);
    }
    return failed;
}

/* The graph on one stream and the same calls on another, which nothing orders; one rank begins with the calls. */
static int replay_beside(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank a, b;
    void *graph, *exec;
    ncclRedOp_t twice;
    float two = 2;
    int failed = 0;

    CHECK(gpu_use(0) && gpu_begin(&a, 4 * COUNT) && gpu_begin(&b, 4 * COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclRedOpCreatePreMulSum(&twice, &two, ncclFloat, ncclScalarHostImmediate, *comm));
    CHECK(gpu.capture_begin(a.stream, CAPTURE_ALONE) == 0);
    CHECK(call_all(*comm, &a, twice, rank, nrank) == 0);
    CHECK(gpu.capture_end(a.stream, &graph) == 0 && gpu.instantiate(&exec, graph, 0) == 0);
    for (int k = 0; k < 20 && failed == 0; k++) {
        failed |= fill(&a, rank, k) || fill(&b, rank, k + 5);
        CHECK((rank + k) % 2 == 0 || gpu.launch(exec, a.stream) == 0);
        for (int turn = 0; turn < 2; turn++)
            CHECK(call_all(*comm, &b, twice, rank, nrank) == 0);
        CHECK((rank + k) % 2 != 0 || gpu.launch(exec, a.stream) == 0);
        failed |= expect_all(&a, rank, nrank, k) | expect_all(&b, rank, nrank, k + 5);
    }
    CHECK(gpu.exec_destroy(exec) == 0 && gpu.graph_destroy(graph) == 0);
    OK(ncclRedOpDestroy(twice, *comm));
    CHECK(gpu_end(&a) && gpu_end(&b));
    return failed;
}

/* On one host: no operation over hosts is in a graph */
static void a_graph_runs_beside_calls_of_its_comm_in_no_order_with_them(void **state)
{
    assert_int_equal(gpu_run(1, 3, replay_beside), 0);
    assert_int_equal(gpu_run(2, 1, replay_beside), 0);
    assert_int_equal(gpu_run(2, 2, replay_beside), 0);
}

static int capture_on_rank_0(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    void *graph = NULL;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclAllReduce(g.in, g.out, COUNT, ncclFloat, ncclSum, *comm, g.stream));
    CHECK(gpu.synchronize(g.stream) == 0);
    CHECK(rank != 0 || gpu.capture_begin(g.stream, CAPTURE_ALONE) == 0);
    CHECK(ncclAllReduce(g.in, g.out, COUNT, ncclFloat, ncclSum, *comm, g.stream) == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(*comm), "part of a graph on all its ranks or on none") != NULL);
    if (rank == 0 && gpu.capture_end(g.stream, &graph) == 0)
        gpu.graph_destroy(graph);
    OK(ncclCommAbort(*comm));
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

/* On one host: over hosts a capture is refused for another reason */
static void an_operation_that_one_rank_captures_and_another_does_not_is_an_error(void **state)
{
    assert_int_equal(gpu_run(1, 2, capture_on_rank_0), 0);
    assert_int_equal(gpu_run(2, 1, capture_on_rank_0), 0);
}

/* On one host: no operation over hosts is in a graph */
static void captured_calls_run_again_and_again_between_others(void **state)
{
    assert_int_equal(gpu_run(1, 3, replay), 0);
    assert_int_equal(gpu_run(2, 1, replay), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_right_in_the_order_of_streams),
        test_on_gpu_both(every_type_is_combined_by_every_operator_on_a_gpu, 2),
        cmocka_unit_test(messages_of_groups_are_exchanged_between_gpus_memories),
        cmocka_unit_test(one_thread_may_hold_ranks_on_several_gpus),
        test_on_one_host(a_graph_runs_beside_calls_of_its_comm_in_no_order_with_them),
        test_on_one_host(an_operation_that_one_rank_captures_and_another_does_not_is_an_error),
        test_on_one_host(captured_calls_run_again_and_again_between_others),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("nccl on a GPU", tests);
}
