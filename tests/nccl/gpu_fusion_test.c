/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of one group on memory of a GPU become few, packed and unpacked on its streams. Looks into the comm. */
#include "../places.h"
#include "comm.h"
#include "unit_gpu.h"

#include <stdlib.h>
#include <string.h>

#define NTENSOR 161
#define MOST    3000
#define ALL     ((size_t)NTENSOR * MOST)

static struct plait_comm_stats stats_of(ncclComm_t comm)
{
    struct plait_comm_stats s;

    plait_comm_stats(atomic_load(&comm->plait), &s);
    return s;
}

static size_t count_of(int tensor)
{
    return (size_t)(tensor * 37 % MOST + 1);
}

static int fill(struct gpu_rank *g, int rank, int k)
{
    for (size_t i = 0; i < ALL; i++)
        g->host[i] = 1.0f / (float)(1 + (i * 7 + (size_t)rank * 11 + (size_t)k * 3) % 97); /* order matters */
    CHECK(gpu_put(g->in, g->host, ALL * sizeof(float), g->stream));
    return 0;
}

/* From in to these, on as many streams in turn. */
static int reduce_all(ncclComm_t comm, int rank, const struct gpu_rank *g, float *to, cudaStream_t *streams, int n)
{
    OK(ncclGroupStart());
    for (int t = 0; t < NTENSOR; t++)
        OK(ncclAllReduce(g->in + t * MOST, to + t * MOST, count_of(t), ncclFloat, ncclSum, comm, streams[t % n]));
    OK(ncclGroupEnd());
    return 0;
}

/* Every tensor of both; NULL: what is in OUT. */
static int same(struct gpu_rank *g, int rank, const float *want)
{
    CHECK(gpu_get(g->host, g->out, ALL * sizeof(float), g->stream));
    for (int t = 0; t < NTENSOR; t++)
        CHECK(memcmp(g->host + t * MOST, want + t * MOST, count_of(t) * sizeof(float)) == 0);
    return 0;
}

/* One by one, into memory of the host. */
static float *one_by_one(ncclComm_t comm, int rank, struct gpu_rank *g)
{
    float *want = malloc(ALL * sizeof *want);

    for (int t = 0; t < NTENSOR; t++)
        if (ncclAllReduce(g->in + t * MOST, g->out + t * MOST, count_of(t), ncclFloat, ncclSum, comm, g->stream) !=
            ncclSuccess)
            return NULL;
    return want != NULL && gpu_get(want, g->out, ALL * sizeof *want, g->stream) ? want : NULL;
}

static int compare(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    int failed;

    CHECK(gpu_use(0) && gpu_begin(&g, ALL));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    failed = fill(&g, rank, 0);
    const struct plait_comm_stats before = stats_of(*comm);
    float *want = one_by_one(*comm, rank, &g);
    CHECK(want != NULL);
    const struct plait_comm_stats single = stats_of(*comm);
    failed |= reduce_all(*comm, rank, &g, g.out, &g.stream, 1) || same(&g, rank, want);
    const struct plait_comm_stats fused = stats_of(*comm);
    CHECK(single.operations - before.operations == NTENSOR && fused.operations - single.operations <= 2);
    CHECK(10 * (fused.messages - single.messages) < single.messages - before.messages);
    free(want);
    CHECK(gpu_end(&g));
    return failed;
}

static void many_all_reduces_on_a_gpu_are_few_and_have_the_same_bits(void **state)
{
    static const char *const environment[] = { "PLAIT_REPRODUCIBLE=1", NULL };

    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 1, .nthread = 3, .body = compare, .environment = environment }), 0);
    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 2, .nthread = 1, .body = compare, .environment = environment }), 0);
}

/*
 * Groups one after the other, each more than the last, while the first ones are held up: what they are packed in is not
 * used for two of them at the same time. Calls of a group are on three streams, on every rank in another order.
 */
static int queue_groups(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g, more[2];
    cudaStream_t streams[3];
    int failed = 0;

    CHECK(gpu_use(0) && gpu_begin(&g, ALL) && gpu_begin(&more[0], 1) && gpu_begin(&more[1], 1));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    for (int i = 0; i < 3; i++)
        streams[(i + rank) % 3] = i == 0 ? g.stream : more[i - 1].stream;
    for (int k = 0; k < 4; k++) {
        failed |= fill(&g, rank, k);
        float *want = one_by_one(*comm, rank, &g);
        CHECK(want != NULL);
        CHECK(gpu_put(g.out, g.host, ALL * sizeof(float), g.stream) && gpu.synchronize(g.stream) == 0);
        for (int n = 10; n <= NTENSOR; n += 50) { /* larger groups, over what the smaller ones did */
            OK(ncclGroupStart());
            for (int t = 0; t < n; t++)
                OK(ncclAllReduce(g.in + t * MOST, g.out + t * MOST, count_of(t), ncclFloat, ncclSum, *comm,
                                 streams[(t + n) % (k == 0 ? 1 : 3)]));
            OK(ncclGroupEnd());
        }
        failed |= reduce_all(*comm, rank, &g, g.out, streams, k == 3 ? 1 : 3);
        for (int i = 0; i < 3; i++)
            CHECK(gpu.synchronize(streams[i]) == 0);
        failed |= same(&g, rank, want);
        free(want);
    }
    CHECK(gpu_end(&g) && gpu_end(&more[0]) && gpu_end(&more[1]));
    return failed;
}

static void groups_follow_each_other_on_several_streams(void **state)
{
    static const char *const environment[] = { "PLAIT_REPRODUCIBLE=1", "PLAIT_NCCL_FUSION=100000",
                                               "PLAIT_STANDIN_DELAY=50", NULL };

    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 1, .nthread = 2, .body = queue_groups, .environment = environment }),
        0);
    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 2, .nthread = 1, .body = queue_groups, .environment = environment }),
        0);
}

/* What a call's stream has written is in the sum, and what it reads afterwards is: on whichever stream the group is. */
static int a_group_is_behind_the_streams_of_its_calls_and_before_them(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g, more[2];
    cudaStream_t streams[3];
    float *got = NULL;

    CHECK(gpu_use(0) && (got = gpu_pinned(ALL * sizeof *got)) != NULL);
    CHECK(gpu_begin(&g, ALL) && gpu_begin(&more[0], 1) && gpu_begin(&more[1], 1));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    for (int i = 0; i < 3; i++)
        streams[(i + rank) % 3] = i == 0 ? g.stream : more[i - 1].stream;
    for (size_t i = 0; i < ALL; i++)
        g.host[i] = (float)(i % 100 + (size_t)rank);
    for (int k = 0; k < 3; k++) {
        for (int t = 0; t < NTENSOR; t++)
            CHECK(gpu_put(g.in + t * MOST, g.host + t * MOST, count_of(t) * sizeof(float), streams[t % 3]));
        CHECK(reduce_all(*comm, rank, &g, g.out, streams, 3) == 0);
        for (int t = 0; t < NTENSOR; t++)
            CHECK(gpu_put(got + t * MOST, g.out + t * MOST, count_of(t) * sizeof(float), streams[t % 3]));
    }
    for (int i = 0; i < 3; i++)
        CHECK(gpu.synchronize(streams[i]) == 0);
    for (int t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < count_of(t); i++)
            CHECK(got[t * MOST + i] ==
                  (float)((size_t)nrank * ((t * MOST + i) % 100) + (size_t)(nrank * (nrank - 1) / 2)));
    CHECK(gpu.free_pinned(got) == 0);
    CHECK(gpu_end(&g) && gpu_end(&more[0]) && gpu_end(&more[1]));
    return 0;
}

/* Memory of the host and of the GPU in one group is fused apart; other collectives keep their place. */
static int memory_of_the_host_and_of_a_gpu_are_fused_apart(ncclComm_t *comm, int rank, int nrank)
{
    float host[2][8], got[8];
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, 100));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    for (int i = 0; i < 16; i++)
        host[i / 8][i % 8] = g.host[i] = (float)rank;
    CHECK(gpu_put(g.in, g.host, 16 * sizeof(float), NULL));
    const uint64_t operations = stats_of(*comm).operations;
    OK(ncclGroupStart());
    for (int k = 0; k < 2; k++) {
        OK(ncclAllReduce(host[k], host[k], 8, ncclFloat, ncclSum, *comm, NULL));
        OK(ncclAllReduce(g.in + k * 8, g.out + k * 8, 8, ncclFloat, ncclSum, *comm, NULL));
    }
    OK(ncclAllGather(g.in + 8, g.out + 16, 8, ncclFloat, *comm, NULL));
    OK(ncclGroupEnd());
    CHECK(stats_of(*comm).operations - operations == 3);
    for (int k = 0; k < 2 + nrank; k++) {
        CHECK(gpu_get(got, g.out + k * 8, sizeof got, NULL));
        for (int i = 0; i < 8; i++)
            CHECK(got[i] == (float)(k < 2 ? nrank * (nrank - 1) / 2 : k - 2) &&
                  host[k % 2][i] == (float)(nrank * (nrank - 1) / 2));
    }
    CHECK(gpu_end(&g));
    return 0;
}

/* Launched after other sums of the same tensors, which take the same memory. */
static int capture_group(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g, other;
    cudaStream_t streams[2];
    void *graph, *exec;
    int failed = 0;

    CHECK(gpu_use(0) && gpu_begin(&g, ALL) && gpu_begin(&other, 1));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    streams[0] = g.stream;
    streams[1] = other.stream;
    CHECK(gpu.capture_begin(g.stream, CAPTURE_ALONE) == 0);
    failed |= reduce_all(*comm, rank, &g, g.out, &g.stream, 1);
    CHECK(gpu.capture_end(g.stream, &graph) == 0 && gpu.instantiate(&exec, graph, 0) == 0);
    for (int k = 0; k < 3; k++) {
        failed |= fill(&g, rank, k);
        float *want = one_by_one(*comm, rank, &g);
        CHECK(want != NULL && gpu_put(g.out, g.host, ALL * sizeof(float), g.stream));
        CHECK(gpu.launch(exec, g.stream) == 0);
        failed |= same(&g, rank, want);
        free(want);
    }
    CHECK(gpu.exec_destroy(exec) == 0 && gpu.graph_destroy(graph) == 0);
    failed |= reduce_all(*comm, rank, &g, g.out, streams, 2);
    CHECK(gpu_end(&other) && gpu_end(&g));
    return failed;
}

/* On one host: no operation over hosts is in a graph */
static void a_fused_group_is_captured(void **state)
{
    static const char *const environment[] = { "PLAIT_REPRODUCIBLE=1", NULL };

    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 1, .nthread = 2, .body = capture_group, .environment = environment }),
        0);
}

/* A group is captured, and then one that needs more memory; the first goes on using its own. */
static int capture_growing_groups(ncclComm_t *comm, int rank, int nrank)
{
    static const size_t counts[2] = { 500, 20000 };
    void *graph[2], *exec[2];
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, 3 * counts[1]));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    for (int k = 0; k < 2; k++) {
        CHECK(gpu.capture_begin(g.stream, CAPTURE_ALONE) == 0);
        OK(ncclGroupStart());
        for (size_t i = 0; i < 3; i++)
            OK(ncclAllReduce(g.in + i * counts[k], g.out + i * counts[k], counts[k], ncclFloat, ncclSum, *comm,
                             g.stream));
        OK(ncclGroupEnd());
        CHECK(gpu.capture_end(g.stream, &graph[k]) == 0 && gpu.instantiate(&exec[k], graph[k], 0) == 0);
    }
    for (int t = 0; t < 6; t++) {
        const size_t n = 3 * counts[t % 2];
        for (size_t i = 0; i < n; i++)
            g.host[i] = (float)(t + rank + (int)(i % 5));
        CHECK(gpu_put(g.in, g.host, n * sizeof(float), g.stream) && gpu.launch(exec[t % 2], g.stream) == 0);
        CHECK(gpu_get(g.host, g.out, n * sizeof(float), g.stream));
        for (size_t i = 0; i < n; i++)
            CHECK(g.host[i] == (float)(nrank * (t + (int)(i % 5)) + nrank * (nrank - 1) / 2));
    }
    for (int k = 0; k < 2; k++)
        CHECK(gpu.exec_destroy(exec[k]) == 0 && gpu.graph_destroy(graph[k]) == 0);
    CHECK(gpu_end(&g));
    return 0;
}

static void a_larger_captured_group_leaves_the_memory_of_smaller_ones(void **state)
{
    assert_int_equal(gpu_run(1, 2, capture_growing_groups), 0);
}

/* Bytes that groups of two sums of `from`, `from` + 100 and so on elements add to what a new comm has. */
static int bytes_of_groups(ncclComm_t world, int rank, const struct gpu_rank *g, size_t from, uint64_t *out)
{
    enum { LARGEST = 8000, STEP = 100 };
    uint64_t before = 0;
    ncclComm_t comm;

    OK(ncclCommSplit(world, 0, rank, &comm, NULL));
    for (size_t n = 8; n <= LARGEST; n = n == 8 ? from : n + STEP) { /* the first makes what each comm has */
        OK(ncclGroupStart());
        for (int i = 0; i < 2; i++)
            OK(ncclAllReduce(g->in + i * LARGEST, g->out + i * LARGEST, n, ncclFloat, ncclSum, comm, g->stream));
        OK(ncclGroupEnd());
        OK(ncclCommMemStats(comm, ncclStatGpuMemPersist, n == 8 ? &before : out));
    }
    *out -= before;
    CHECK(gpu.synchronize(g->stream) == 0);
    OK(ncclCommDestroy(comm));
    return 0;
}

static int grow(ncclComm_t *comm, int rank, int nrank)
{
    uint64_t one, many;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, 2 * 8000));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(bytes_of_groups(*comm, rank, &g, 8000, &one) == 0 && bytes_of_groups(*comm, rank, &g, 1000, &many) == 0);
    if (many > 4 * one)
        fprintf(stderr, "%llu bytes, of the largest group %llu\n", (unsigned long long)many, (unsigned long long)one);
    CHECK(one >= 2 * 8000 * sizeof(float) && many <= 4 * one);
    CHECK(gpu_end(&g));
    return 0;
}

/* On one host: over hosts what is on its way has pinned memory, too */
static void groups_that_grow_keep_four_times_the_memory_of_the_largest_at_most(void **state)
{
    assert_int_equal(gpu_run(1, 2, grow), 0);
    assert_int_equal(gpu_run(2, 1, grow), 0);
}

/* Of the vectors of all operations so far. */
static uint64_t bytes_of_all(ncclComm_t comm)
{
    struct plait_comm_count count;
    uint64_t bytes = 0;

    for (size_t i = 0; plait_comm_count(atomic_load(&comm->plait), i, &count) == PLAIT_OK; i++)
        bytes += count.bytes;
    return bytes;
}

/* Behind one of odd size all others were copied byte by byte. */
static int parts_of_a_fused_group_begin_on_16_bytes(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, 3));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    const uint64_t before = bytes_of_all(*comm);
    OK(ncclGroupStart());
    for (int i = 0; i < 3; i++)
        OK(ncclAllReduce(g.in + i, g.out + i, 1, ncclFloat, ncclSum, *comm, g.stream));
    OK(ncclGroupEnd());
    CHECK(bytes_of_all(*comm) - before == 16 + 16 + 4);
    CHECK(gpu_end(&g));
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(many_all_reduces_on_a_gpu_are_few_and_have_the_same_bits),
        cmocka_unit_test(groups_follow_each_other_on_several_streams),
        test_on_gpu_both(a_group_is_behind_the_streams_of_its_calls_and_before_them, 2),
        test_on_gpu_both(memory_of_the_host_and_of_a_gpu_are_fused_apart, 2),
        test_on_one_host(groups_that_grow_keep_four_times_the_memory_of_the_largest_at_most),
        test_on_gpu(parts_of_a_fused_group_begin_on_16_bytes, 1, 2),
        test_on_one_host(a_fused_group_is_captured),
        test_on_one_host(a_larger_captured_group_leaves_the_memory_of_smaller_ones),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("nccl fusion on a GPU", tests);
}
