/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams, memory and GPUs that do not go together; and those that do, though it may not seem so. */
#include "../places.h"
#include "unit_gpu.h"

#include <plait/stream.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000

#define SAYS(text) CHECK(strstr(ncclGetLastError(NULL), text) != NULL)

static const char *const two_gpus[] = { "PLAIT_STANDIN_DEVICES=2", NULL };

static int run_on_two_gpus(int nprocess, int nthread, int (*body)(ncclComm_t *comm, int rank, int nrank))
{
    return gpu_ranks_run(
        (struct ranks){ .nprocess = nprocess, .nthread = nthread, .body = body, .environment = two_gpus });
}

static int put(const struct gpu_rank *g, float value, cudaStream_t stream)
{
    for (size_t i = 0; i < COUNT; i++)
        g->host[i] = value;
    return gpu_put(g->in, g->host, COUNT * sizeof(float), stream) ? 0 : 1;
}

static int is(const struct gpu_rank *g, int rank, const void *at, float value, cudaStream_t stream)
{
    CHECK(gpu_get(g->host, at, COUNT * sizeof(float), stream));
    for (size_t i = 0; i < COUNT; i++)
        CHECK(g->host[i] == value);
    return 0;
}

/* ---- What is refused ------------------------------------------------------------------------------------------- */

static float unknown[COUNT]; /* that no driver knows; nothing is ever written there */

static int sum(ncclComm_t comm, const void *in, void *out, cudaStream_t stream)
{
    return ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, stream);
}

static int mix_memory(ncclComm_t comm, int rank, const struct gpu_rank *g, const struct gpu_rank *far)
{
    CHECK(sum(comm, g->in, unknown, g->stream) == ncclInvalidArgument);
    SAYS("ncclAllReduce: allreduce: recvbuff is");
    SAYS(
        "which is memory that CUDA does not know (host memory, or freed); the call needs device memory of GPU 0: copy");
    CHECK(sum(comm, unknown, g->out, NULL) == ncclInvalidArgument);
    SAYS("sendbuff is");
    CHECK(sum(comm, unknown, unknown, g->stream) == ncclInvalidArgument);
    SAYS("sendbuff is");
    CHECK(sum(comm, far->in, far->out, g->stream) == ncclInvalidArgument);
    SAYS("which is device memory of GPU 1");
    CHECK(sum(comm, far->in, far->out, NULL) == ncclInvalidArgument); /* the default stream of the comm's GPU */
    SAYS("which is device memory of GPU 1");
    CHECK(sum(comm, far->in, far->out, far->stream) == ncclInvalidArgument);
    SAYS("a stream of GPU 1, not of GPU 0");
    CHECK(sum(comm, g->in, g->out, (cudaStream_t)2) == ncclInvalidArgument);
    SAYS("cudaStreamPerThread is another stream in each thread");
    cudaStream_t destroyed;
    CHECK(gpu.stream_create((void **)&destroyed, 0) == 0 && gpu.stream_destroy(destroyed) == 0);
    CHECK(sum(comm, g->in, g->out, destroyed) == ncclInvalidArgument);
    SAYS("ncclAllReduce: stream is 0x");
    SAYS(": it is no CUDA stream (destroyed?)");
    CHECK(ncclSend(unknown, COUNT, ncclFloat, !rank, comm, g->stream) == ncclInvalidArgument);
    SAYS("ncclSend: send: sendbuff is");
    return 0;
}

static int mix_scalars(ncclComm_t comm, int rank, const struct gpu_rank *g)
{
    float scalar = 3;
    ncclRedOp_t on_host, on_gpu;

    OK(ncclRedOpCreatePreMulSum(&on_host, &scalar, ncclFloat, ncclScalarDevice, comm));
    OK(ncclRedOpCreatePreMulSum(&on_gpu, g->in, ncclFloat, ncclScalarDevice, comm));
    CHECK(ncclAllReduce(g->in, g->out, COUNT, ncclFloat, on_host, comm, g->stream) == ncclInvalidArgument);
    SAYS("the operator's scalar is");
    SAYS("host memory");
    SAYS("with ncclScalarDevice use device");
    CHECK(ncclAllReduce(unknown, unknown, COUNT, ncclFloat, on_gpu, comm, NULL) == ncclInvalidUsage);
    SAYS("the operator's scalar is");
    OK(ncclRedOpDestroy(on_host, comm));
    OK(ncclRedOpDestroy(on_gpu, comm));
    return 0;
}

static int go_wrong(ncclComm_t *comm, int rank, int nrank)
{
    static const int absent[] = { 0, 2 };
    ncclComm_t some[3];
    struct gpu_rank g, far;
    int failed;

    CHECK(gpu_use(1) && gpu_begin(&far, COUNT) && gpu_use(0) && gpu_begin(&g, COUNT));
    CHECK(ncclCommInitAll(some, 2, absent) == ncclInvalidArgument);
    SAYS("there is no GPU 2: the driver has 2");
    CHECK(ncclCommInitAll(some, 3, NULL) == ncclInvalidArgument);
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    failed = mix_memory(*comm, rank, &g, &far) || mix_scalars(*comm, rank, &g);
    OK(ncclGroupStart()); /* nothing of it begins */
    OK(sum(*comm, g.in, g.out, g.stream));
    CHECK(sum(*comm, far.in, far.out, far.stream) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    OK(ncclGroupStart());
    OK(sum(*comm, g.in, g.out, g.stream)); /* would be fused with one that cannot be */
    CHECK(sum(*comm, g.in, far.out, g.stream) == ncclInvalidArgument);
    SAYS("recvbuff is");
    SAYS("device memory of GPU 1, but the comm is of GPU 0");
    CHECK(sum(*comm, unknown, g.out, g.stream) == ncclInvalidArgument);
    SAYS("sendbuff is");
    SAYS("which is memory that CUDA does not know (host memory, or freed)");
    SAYS("copy it there");
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    CHECK(put(&g, 1, g.stream) == 0);
    OK(sum(*comm, g.in, g.out, g.stream)); /* the comm is as it was */
    CHECK(is(&g, rank, g.out, (float)nrank, g.stream) == 0);
    CHECK(gpu_end(&g) && gpu_use(1) && gpu_end(&far));
    return failed;
}

static int go_on(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g, far;

    CHECK(gpu_use(1) && gpu_begin(&far, COUNT) && gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(mix_memory(*comm, rank, &g, &far) == 0 && mix_scalars(*comm, rank, &g) == 0);
    CHECK(put(&g, 1, g.stream) == 0);
    OK(sum(*comm, g.in, g.out, g.stream)); /* the comm is as it was */
    CHECK(is(&g, rank, g.out, (float)nrank, g.stream) == 0);
    CHECK(gpu_end(&g) && gpu_use(1) && gpu_end(&far));
    return 0;
}

static void what_does_not_go_together_is_refused_by_name(void **state)
{
    if (!gpu_has_two())
        skip();
    assert_int_equal(run_on_two_gpus(1, 2, go_on), 0);
    assert_int_equal(run_on_two_gpus(2, 1, go_on), 0);
}

static int use_stream_of_another_context(ncclComm_t comm, int rank, const struct gpu_rank *g)
{
    struct plait_stream *taken;
    void *context, *stream;

    CHECK(gpu.context_create(&context, 0, 0) == 0 && gpu.stream_create(&stream, 1) == 0 && gpu_use(0));
    CHECK(sum(comm, g->in, g->out, stream) == ncclInvalidArgument);
    SAYS("ncclAllReduce: stream is 0x");
    SAYS(": it is of another context than GPU 0's primary one, which cudaSetDevice() gives: create a stream there");
    CHECK(plait_stream_create_cuda(stream, &taken) == PLAIT_ERR_ARG);
    CHECK(gpu.stream_destroy(stream) == 0 && gpu.context_destroy(context) == 0);
    return 0;
}

/* NCCL takes these (docs/nccl.md): memory of the host that a GPU can use, with a stream; a stream of each thread. */
static int use_what_nccl_takes(ncclComm_t *comm, int rank, int nrank)
{
    void *pinned, *stream_of_thread = (void *)2;
    unsigned long long managed;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT) && gpu.alloc_pinned(&pinned, COUNT * sizeof(float), 0) == 0);
    CHECK(gpu.alloc_managed(&managed, COUNT * sizeof(float), 1) == 0);
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(sum(*comm, pinned, g.out, g.stream) == ncclInvalidArgument);
    SAYS("which is pinned memory; the call needs device memory");
    CHECK(sum(*comm, g.in, (void *)(uintptr_t)managed, g.stream) == ncclInvalidArgument);
    SAYS("which is managed memory of GPU 0; the call needs device memory of GPU 0: copy it there");
    CHECK(ncclRecv(pinned, COUNT, ncclFloat, !rank, *comm, g.stream) == ncclInvalidArgument);
    SAYS("which is pinned memory");
    CHECK(sum(*comm, g.in, g.out, stream_of_thread) == ncclInvalidArgument);
    SAYS("cudaStreamPerThread is another stream in each thread");
    CHECK(nrank > 2 || use_stream_of_another_context(*comm, rank, &g) == 0);
    CHECK(sum(*comm, g.in, g.in + 1, g.stream) == ncclInvalidArgument);
    SAYS("overlap");
    CHECK(ncclAlltoAll(g.in, g.in + 1, 1, ncclFloat, *comm, g.stream) == ncclInvalidArgument);
    SAYS("overlap");
    CHECK(sum(*comm, (char *)g.in + 2, g.out, g.stream) == ncclInvalidArgument);
    SAYS("which is no multiple of 4 bytes");
    CHECK(put(&g, 1, g.stream) == 0);
    OK(sum(*comm, g.in, g.out, g.stream)); /* the comm is as it was */
    CHECK(is(&g, rank, g.out, (float)nrank, g.stream) == 0);
    CHECK(gpu.free_pinned(pinned) == 0 && gpu.free(managed) == 0 && gpu_end(&g));
    return 0;
}

static void what_nccl_takes_and_this_library_does_not_is_refused_by_name(void **state)
{
    assert_int_equal(gpu_run(1, 2, use_what_nccl_takes), 0);
    assert_int_equal(gpu_run(2, 1, use_what_nccl_takes), 0);
}

/* Memory without an IPC handle, as that of pools. Over hosts the data goes by pinned memory. */
static int send_hidden_memory(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g, hidden;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    const bool can_hide = gpu_hide(true);
    CHECK(gpu_begin(&hidden, COUNT));
    gpu_hide(false);
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    if (can_hide && rank == 0) {
        CHECK(ncclSend(hidden.in, COUNT, ncclFloat, 1, *comm, hidden.stream) == ncclInvalidUsage);
        SAYS("send: sendbuff is");
        SAYS("does not show to other processes");
    }
    CHECK(put(&g, 1, g.stream) == 0); /* the comm is as it was, and such memory may receive */
    OK(rank == 0 ? ncclSend(g.in, COUNT, ncclFloat, 1, *comm, g.stream)
                 : ncclRecv(hidden.out, COUNT, ncclFloat, 0, *comm, g.stream));
    CHECK(rank == 0 || is(&g, rank, hidden.out, 1, g.stream) == 0);
    CHECK(gpu_end(&g) && gpu_end(&hidden));
    return 0;
}

static void memory_that_has_no_handle_is_not_sent_to_another_process(void **state)
{
    assert_int_equal(gpu_run(2, 1, send_hidden_memory), 0);
}

/* A call of no elements, which NCCL drops, is one of all ranks. */
static int skip_an_empty_call(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    const ncclResult_t result = ncclAllReduce(g.in, g.out, rank == 0 ? 0 : COUNT, ncclFloat, ncclSum, *comm, g.stream);
    CHECK(result == ncclInvalidUsage || result == ncclRemoteError);
    SAYS("count");
    OK(ncclCommAbort(*comm));
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

static void an_empty_call_of_some_ranks_is_an_error_of_all(void **state)
{
    assert_int_equal(gpu_run(1, 2, skip_an_empty_call), 0);
}

static _Atomic int returned, over;

/* Rank 1 calls only when rank 0's call has returned: with NCCL it does, here it waits for rank 1. */
static int call_when_another_has_returned(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    if (rank == 0) {
        const ncclResult_t result = sum(*comm, g.in, g.out, g.stream);
        CHECK(result == ncclTimeout && strstr(ncclGetLastError(*comm), "rank 1") != NULL);
        atomic_store(&returned, 1);
    }
    while (!atomic_load(&returned))
        usleep(100);
    CHECK(sum(*comm, g.in, g.out, g.stream) != ncclSuccess);
    atomic_fetch_add(&over, 1);
    while (atomic_load(&over) < nrank)
        usleep(100);
    OK(ncclCommAbort(*comm));
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

static void a_call_that_waits_for_a_rank_that_waits_for_its_return_ends_at_the_deadline(void **state)
{
    static const char *const environment[] = { "PLAIT_DEADLINE=1", NULL };

    atomic_store(&returned, 0);
    atomic_store(&over, 0);
    assert_int_equal(gpu_ranks_run((struct ranks){ .nprocess = 1,
                                                   .nthread = 2,
                                                   .body = call_when_another_has_returned,
                                                   .fresh = 1,
                                                   .environment = environment }),
                     0);
}

/* Over hosts: data for another host leaves at the call, so it cannot be captured. */
static int capture_over_hosts(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    void *graph;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(gpu.capture_begin(g.stream, CAPTURE_ALONE) == 0);
    CHECK(sum(*comm, g.in, g.out, g.stream) == ncclInvalidUsage);
    SAYS("on several hosts, and the stream is captured");
    CHECK(gpu.capture_end(g.stream, &graph) == 0 && gpu.graph_destroy(graph) == 0);
    CHECK(gpu_end(&g));
    return 0;
}

static void a_captured_stream_of_a_comm_over_hosts_is_refused(void **state)
{
    assert_int_equal(gpu_run(2, 1, capture_over_hosts), 0);
}

/* The body of a conditional node takes kernels and copies only: the graph with it cannot be made. */
static int capture_into_a_body(ncclComm_t *comm, int rank, int nrank)
{
    cu_node_params node = { .type = VALUE_GRAPH_NODE_TYPE_CONDITIONAL };
    void *context, *graph, *added, *body, *exec;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT) && gpu.retain(&context, 0) == 0);
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    if (gpu.add_node != NULL) {
        CHECK(gpu.graph_create(&graph, 0) == 0);
        CHECK(gpu.handle_create(&node.of.conditional.handle, graph, context, 0, 0) == 0);
        node.of.conditional.type = VALUE_GRAPH_COND_TYPE_IF;
        node.of.conditional.size = 1;
        node.of.conditional.context = context;
        CHECK(gpu.add_node(&added, graph, NULL, NULL, 0, &node) == 0);
        CHECK(gpu.capture_into(g.stream, node.of.conditional.graphs[0], NULL, NULL, 0, CAPTURE_ALONE) == 0);
        OK(sum(*comm, g.in, g.out, g.stream));
        CHECK(gpu.capture_end(g.stream, &body) == 0 && body == node.of.conditional.graphs[0]);
        CHECK(gpu.instantiate(&exec, graph, 0) == CU_INVALID_VALUE);
        CHECK(gpu.graph_destroy(graph) == 0);
    }
    CHECK(put(&g, 1, g.stream) == 0);
    OK(sum(*comm, g.in, g.out, g.stream)); /* the comm is as it was */
    CHECK(is(&g, rank, g.out, (float)nrank, g.stream) == 0);
    CHECK(gpu_end(&g));
    return 0;
}

static void a_graph_with_a_call_in_the_body_of_a_conditional_node_cannot_be_made(void **state)
{
    assert_int_equal(gpu_run(1, 2, capture_into_a_body), 0);
    assert_int_equal(gpu_run(2, 1, capture_into_a_body), 0);
}

/* Device 1 is out of the other's reach; those of a driver are not. */
static int call_a_gpu_out_of_reach(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;

    CHECK(gpu_use(rank) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    const ncclResult_t result = sum(*comm, g.in, g.out, g.stream);
    if (gpu_left().contexts > 0) {
        CHECK(result == ncclSystemError);
        SAYS("cannot reach the memory of");
        SAYS("use GPUs with peer access");
    }
    CHECK(gpu.synchronize(g.stream) == 0);
    OK(ncclCommAbort(*comm));
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

static void a_gpu_that_cannot_reach_another_s_memory_is_named(void **state)
{
    static const char *const environment[] = { "PLAIT_STANDIN_DEVICES=2", "PLAIT_STANDIN_ALONE=1", NULL };

    if (!gpu_has_two())
        skip();
    for (int n = 1; n <= 2; n++)
        assert_int_equal(
            gpu_ranks_run((struct ranks){
                .nprocess = n, .nthread = 3 - n, .body = call_a_gpu_out_of_reach, .environment = environment }),
            0);
}

/* ---- What is not --------------------------------------------------------------------------------------------------- */

/* NULL is CUDA's default stream: of the comm's GPU, whichever the thread's is, and in its order. */
static int use_default_streams(ncclComm_t *comm, int rank, int nrank)
{
    const int device = rank % 2;
    struct gpu_rank g;
    int mine = -1;
    void *memory;

    CHECK(gpu_use(device) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclCommCuDevice(*comm, &mine));
    CHECK(mine == device);
    for (int k = 0; k < 5; k++) {
        CHECK(gpu_use(device) && put(&g, (float)k, NULL) == 0);
        CHECK(gpu_use(!device));
        OK(sum(*comm, g.in, g.out, NULL));
        CHECK(gpu_use(device) && is(&g, rank, g.out, (float)(k * nrank), NULL) == 0);
    }
    OK(ncclMemAlloc(&memory, COUNT * sizeof(float))); /* of the current GPU: else it would be refused */
    OK(sum(*comm, g.in, memory, NULL));
    CHECK(is(&g, rank, memory, (float)(4 * nrank), NULL) == 0);
    OK(ncclMemFree(memory));
    CHECK(gpu_end(&g));
    return 0;
}

static void no_stream_is_the_default_one_of_the_comm_s_gpu(void **state)
{
    if (!gpu_has_two())
        skip();
    assert_int_equal(run_on_two_gpus(1, 2, use_default_streams), 0);
    assert_int_equal(run_on_two_gpus(2, 1, use_default_streams), 0);
}

/* Memory of the host that the driver knows: behind the default stream, and done when the call returns. */
static int pinned_memory_waits_for_the_default_stream(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    void *pinned;
    float *x;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT) && gpu.alloc_pinned(&pinned, 2 * COUNT * sizeof(float), 0) == 0);
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    x = pinned;
    for (int k = 0; k < 5; k++) {
        CHECK(put(&g, (float)k, NULL) == 0 && gpu_put(x, g.in, COUNT * sizeof(float), NULL));
        if (k % 2 != 0)
            OK(ncclGroupStart());
        OK(sum(*comm, x, x + COUNT, NULL));
        if (k % 2 != 0)
            OK(ncclGroupEnd());
        for (int i = 0; i < COUNT; i++)
            CHECK(x[COUNT + i] == (float)(k * nrank));
    }
    CHECK(sum(*comm, x, x + COUNT, g.stream) == ncclInvalidArgument);
    SAYS("pinned memory");
    CHECK(gpu.free_pinned(pinned) == 0 && gpu_end(&g));
    return 0;
}

/* Buffers that are only moved need not be aligned to their elements. */
static int unaligned_memory_is_sent_and_gathered(ncclComm_t *comm, int rank, int nrank)
{
    enum { FEW = 50 };
    unsigned char *host, got[2 * FEW * sizeof(float)];
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    host = (unsigned char *)g.host;
    for (size_t i = 0; i < FEW * sizeof(float); i++)
        host[i] = (unsigned char)(i + 100 * (size_t)rank);
    char *const in = (char *)g.in + 2, *const out = (char *)g.out + 1;
    CHECK(gpu_put(in, host, FEW * sizeof(float), g.stream));
    OK(ncclGroupStart());
    OK(ncclSend(in, FEW, ncclFloat, !rank, *comm, g.stream));
    OK(ncclRecv(out, FEW, ncclFloat, !rank, *comm, g.stream));
    OK(ncclGroupEnd());
    CHECK(gpu_get(got, out, FEW * sizeof(float), g.stream));
    for (size_t i = 0; i < FEW * sizeof(float); i++)
        CHECK(got[i] == (unsigned char)(i + 100 * (size_t)!rank));
    OK(ncclAllGather(in, out, FEW, ncclFloat, *comm, g.stream));
    CHECK(gpu_get(got, out, sizeof got, g.stream));
    for (size_t i = 0; i < sizeof got; i++)
        CHECK(got[i] == (unsigned char)(i % (FEW * sizeof(float)) + 100 * (i / (FEW * sizeof(float)))));
    CHECK(gpu_end(&g));
    return 0;
}

/* Streams come and go while what was on them goes on; new ones have the handles of old ones. */
static int change_streams(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    void *last = NULL, *stream;
    int same = 0;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(put(&g, 1, g.stream) == 0 && gpu.synchronize(g.stream) == 0);
    for (int k = 0; k < 200; k++) {
        CHECK(gpu.stream_create(&stream, 1) == 0);
        same += stream == last;
        OK(sum(*comm, k % 2 == 0 ? g.in : g.out, k % 2 == 0 ? g.out : g.in, stream));
        CHECK(gpu.stream_destroy(stream) == 0);
        last = stream;
        if (k % 7 == 6) {
            OK(sum(*comm, g.in, g.out, g.stream));
            CHECK(gpu.synchronize(g.stream) == 0 && put(&g, 1, g.stream) == 0);
            CHECK(gpu.synchronize(g.stream) == 0);
            OK(sum(*comm, g.in, g.out, g.stream));
        }
    }
    OK(sum(*comm, g.in, g.out, g.stream));
    CHECK(same > 0 || gpu_left().streams == 0); /* a driver gives which it likes */
    CHECK(gpu_end(&g));
    return 0;
}

static void streams_may_take_the_place_of_others(void **state)
{
    static const char *const environment[] = { "PLAIT_STANDIN_DELAY=20", NULL };

    assert_int_equal(gpu_ranks_run((struct ranks){
                         .nprocess = 1, .nthread = 2, .body = change_streams, .environment = environment }),
                     0);
}

/* What was allocated is another allocation at each turn, and lies where an earlier one was. Two comms of a rank see it. */
static int free_and_allocate(ncclComm_t *comm, int rank, int nrank)
{
    const float *places[20][2];
    ncclComm_t other;
    struct gpu_rank g;
    int same = 0;

    CHECK(gpu_use(0));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclCommSplit(*comm, 0, 0, &other, NULL));
    for (int k = 0; k < 20; k++) {
        CHECK(gpu_begin(&g, k % 3 == 2 ? 4 * COUNT : COUNT) && put(&g, (float)k, g.stream) == 0);
        places[k][0] = g.in;
        places[k][1] = g.out;
        for (int before = 0; before < k; before++)
            for (int i = 0; i < 2; i++)
                same += g.in == places[before][i] || g.out == places[before][i];
        OK(sum(k % 4 != 1 ? *comm : other, g.in, g.out, g.stream));
        if (k % 4 == 2)
            OK(sum(other, g.in, g.out, g.stream));
        CHECK(is(&g, rank, g.out, (float)(k * nrank), g.stream) == 0);
        CHECK(gpu_end(&g));
    }
    CHECK(same > 0 || gpu_left().contexts == 0); /* a driver gives which it likes */
    OK(ncclCommDestroy(other));
    return 0;
}

static void memory_may_lie_where_what_was_freed_lay(void **state)
{
    assert_int_equal(gpu_run(2, 1, free_and_allocate), 0);
    assert_int_equal(gpu_run(2, 2, free_and_allocate), 0);
    assert_int_equal(gpu_run(3, 1, free_and_allocate), 0);
}

struct part { /* allocations of their own */
    unsigned long long in, out;
};

static int make_parts(const struct gpu_rank *g, struct part *parts, int n)
{
    for (int k = 0; k < n; k++) {
        if (gpu.alloc(&parts[k].in, COUNT * sizeof(float)) != 0 || gpu.alloc(&parts[k].out, COUNT * sizeof(float)) != 0)
            return 1;
        for (size_t i = 0; i < COUNT; i++)
            g->host[i] = (float)k;
        if (!gpu_put((void *)(uintptr_t)parts[k].in, g->host, COUNT * sizeof(float), g->stream) ||
            gpu.synchronize(g->stream) != 0)
            return 1;
    }
    return 0;
}

static int sum_parts(ncclComm_t comm, const struct gpu_rank *g, const struct part *parts, int n, int rank)
{
    for (int k = 0; k < n; k++)
        OK(sum(comm, (const void *)(uintptr_t)parts[k].in, (void *)(uintptr_t)parts[k].out, g->stream));
    return 0;
}

static int all_add_up(const struct gpu_rank *g, const struct part *parts, int n, int rank, int nrank)
{
    for (int k = 0; k < n; k++)
        if (is(g, rank, (const void *)(uintptr_t)parts[k].out, (float)(k * nrank), g->stream) != 0)
            return 1;
    return 0;
}

static int drop_parts(const struct part *parts, int n)
{
    for (int k = 0; k < n; k++)
        if (gpu.free(parts[k].in) != 0 || gpu.free(parts[k].out) != 0)
            return 1;
    return 0;
}

/* A graph of as many, and as many without one, again and again. */
static int use_many_allocations(ncclComm_t *comm, int rank, int nrank)
{
    enum { MANY = 70 };
    struct part captured[MANY], plain[MANY];
    struct gpu_rank g;
    void *graph, *exec;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(make_parts(&g, captured, MANY) == 0 && make_parts(&g, plain, MANY) == 0);
    CHECK(gpu.capture_begin(g.stream, CAPTURE_ALONE) == 0);
    CHECK(sum_parts(*comm, &g, captured, MANY, rank) == 0);
    CHECK(gpu.capture_end(g.stream, &graph) == 0 && gpu.instantiate(&exec, graph, 0) == 0);
    for (int turn = 0; turn < 3; turn++) {
        CHECK(gpu.launch(exec, g.stream) == 0);
        CHECK(sum_parts(*comm, &g, plain, MANY, rank) == 0);
        CHECK(all_add_up(&g, captured, MANY, rank, nrank) == 0 && all_add_up(&g, plain, MANY, rank, nrank) == 0);
    }
    CHECK(gpu.exec_destroy(exec) == 0 && gpu.graph_destroy(graph) == 0);
    CHECK(drop_parts(captured, MANY) == 0 && drop_parts(plain, MANY) == 0 && gpu_end(&g));
    return 0;
}

/* On one host: over hosts there are no graphs */
static void graphs_and_calls_may_use_more_than_64_allocations(void **state)
{
    assert_int_equal(gpu_run(2, 1, use_many_allocations), 0);
}

/* Both orders of the streams; then both captured, by two captures. */
static int capture_in_part(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g[2];
    void *graph;

    CHECK(gpu_use(0) && gpu_begin(&g[0], COUNT) && gpu_begin(&g[1], COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    for (int b = 0; b < 2; b++)
        CHECK(put(&g[b], 1, g[b].stream) == 0);
    CHECK(gpu.synchronize(g[0].stream) == 0 && gpu.synchronize(g[1].stream) == 0);
    CHECK(gpu.capture_begin(g[0].stream, CAPTURE_ALONE) == 0);
    for (int k = 0; k < 3; k++) {
        CHECK(k < 2 || gpu.capture_begin(g[1].stream, CAPTURE_ALONE) == 0);
        OK(ncclGroupStart());
        for (int i = 0; i < 2; i++)
            OK(sum(*comm, g[i ^ (k & 1)].in, g[i ^ (k & 1)].out, g[i ^ (k & 1)].stream));
        CHECK(ncclGroupEnd() == ncclInvalidUsage);
        SAYS("on captured and other streams, or in two captures");
    }
    for (int b = 0; b < 2; b++)
        CHECK(gpu.capture_end(g[b].stream, &graph) == 0 && gpu.graph_destroy(graph) == 0);
    OK(ncclGroupStart()); /* and nothing has happened */
    for (int b = 0; b < 2; b++)
        OK(sum(*comm, g[b].in, g[b].out, g[b].stream));
    OK(ncclGroupEnd());
    for (int b = 0; b < 2; b++)
        CHECK(is(&g[b], rank, g[b].out, (float)nrank, g[b].stream) == 0 && gpu_end(&g[b]));
    return 0;
}

/* What was to run now was put into the graph, where it was fused. */
static void a_group_that_is_captured_in_part_is_refused(void **state)
{
    assert_int_equal(gpu_run(1, 2, capture_in_part), 0);
}

/* Who has loaded no driver has no GPU, be there one or not. */
static int have_the_host_s_memory(ncclComm_t *comm, int rank, int nrank)
{
    void *memory;
    float x[COUNT];
    int device = -1;

    OK(ncclMemAlloc(&memory, COUNT * sizeof(float)));
    memset(memory, 0, COUNT * sizeof(float));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclCommCuDevice(*comm, &device));
    CHECK(device == 0);
    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    OK(sum(*comm, x, memory, NULL));
    CHECK(((float *)memory)[COUNT - 1] == (float)nrank);
    CHECK(sum(*comm, x, memory, (cudaStream_t)&x) == ncclInvalidUsage);
    SAYS("it must be NULL without CUDA, as memory is the host's");
    OK(ncclMemFree(memory));
    return 0;
}

static void a_process_without_a_driver_has_the_host_s_memory(void **state)
{
    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 2, .nthread = 1, .body = have_the_host_s_memory, .fresh = 1 }), 0);
}

/* ---- Errors of a group -------------------------------------------------------------------------------------------- */

static void a_group_with_a_wrong_buffer_does_nothing(void **state)
{
    if (!gpu_has_two())
        skip();
    assert_int_equal(run_on_two_gpus(1, 2, go_wrong), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_go_together_is_refused_by_name),
        cmocka_unit_test(what_nccl_takes_and_this_library_does_not_is_refused_by_name),
        test_on_one_host(memory_that_has_no_handle_is_not_sent_to_another_process),
        cmocka_unit_test(an_empty_call_of_some_ranks_is_an_error_of_all),
        cmocka_unit_test(a_call_that_waits_for_a_rank_that_waits_for_its_return_ends_at_the_deadline),
        test_on_one_host(a_graph_with_a_call_in_the_body_of_a_conditional_node_cannot_be_made),
        test_on_one_host(a_gpu_that_cannot_reach_another_s_memory_is_named),
        test_over_hosts(a_captured_stream_of_a_comm_over_hosts_is_refused),
        cmocka_unit_test(no_stream_is_the_default_one_of_the_comm_s_gpu),
        test_on_gpu_both(pinned_memory_waits_for_the_default_stream, 2),
        test_on_gpu_both(unaligned_memory_is_sent_and_gathered, 2),
        cmocka_unit_test(streams_may_take_the_place_of_others),
        cmocka_unit_test(memory_may_lie_where_what_was_freed_lay),
        test_on_one_host(graphs_and_calls_may_use_more_than_64_allocations),
        test_on_one_host(a_group_that_is_captured_in_part_is_refused),
        cmocka_unit_test(a_process_without_a_driver_has_the_host_s_memory),
        cmocka_unit_test(a_group_with_a_wrong_buffer_does_nothing),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("nccl misused on a GPU", tests);
}
