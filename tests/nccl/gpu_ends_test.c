/* SPDX-License-Identifier: BSD-3-Clause */
/* How comms on a GPU begin and end: in the background, aborted with work on streams, with a rank that dies. */
#include "../places.h"
#include "unit_gpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000

static ncclResult_t sum(ncclComm_t comm, const struct gpu_rank *g)
{
    return ncclAllReduce(g->in, g->out, COUNT, ncclFloat, ncclSum, comm, g->stream);
}

static bool fill(const struct gpu_rank *g, int rank)
{
    for (int i = 0; i < COUNT; i++)
        g->host[i] = (float)(rank + i);
    return gpu_put(g->in, g->host, COUNT * sizeof(float), g->stream);
}

static int adds_up(ncclComm_t comm, struct gpu_rank *g, int rank, int nrank)
{
    CHECK(fill(g, rank));
    OK(sum(comm, g));
    CHECK(gpu_get(g->host, g->out, COUNT * sizeof(float), g->stream));
    for (int i = 0; i < COUNT; i++)
        CHECK(g->host[i] == (float)(nrank * (nrank - 1) / 2 + nrank * i));
    return 0;
}

/* Until it has failed. */
static ncclResult_t trouble(ncclComm_t comm)
{
    ncclResult_t result = ncclSuccess;

    while (ncclCommGetAsyncError(comm, &result) == ncclSuccess && result == ncclSuccess)
        usleep(200);
    return result;
}

/* ---- In the background ----------------------------------------------------------------------------------------- */

static int make_in_the_background(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t half = NULL, part = NULL;
    int excluded[1] = { nrank - 1 }, device = -1;
    struct gpu_rank g;

    CHECK(gpu_use(1) && gpu_begin(&g, COUNT));
    config.blocking = 0;
    CHECK(ncclCommInitRankConfig(comm, nrank, ranks_id[0], rank, &config) == ncclInProgress);
    CHECK(gpu_use(0)); /* it stays where it was made */
    CHECK(settle(*comm) == ncclSuccess && adds_up(*comm, &g, rank, nrank) == 0);
    OK(ncclCommCuDevice(*comm, &device));
    CHECK(device == 1);
    CHECK(ncclCommSplit(*comm, rank % 2, 0, &half, NULL) == ncclInProgress);
    CHECK(settle(*comm) == ncclSuccess && settle(half) == ncclSuccess);
    OK(ncclCommCuDevice(half, &device));
    CHECK(device == 1 && adds_up(half, &g, rank / 2, nrank / 2) == 0);
    if (rank != nrank - 1) {
        CHECK(ncclCommShrink(*comm, excluded, 1, &part, NULL, NCCL_SHRINK_DEFAULT) == ncclInProgress);
        CHECK(settle(*comm) == ncclSuccess && settle(part) == ncclSuccess && adds_up(part, &g, rank, nrank - 1) == 0);
        OK(ncclCommDestroy(part));
    }
    OK(sum(half, &g)); /* is on the stream when the comm is ended */
    CHECK(ncclCommFinalize(half) == ncclInProgress && settle(half) == ncclSuccess);
    OK(ncclCommDestroy(half));
    CHECK(gpu_use(1) && gpu_end(&g));
    return 0;
}

static void comms_that_do_not_block_are_on_the_gpu_where_they_were_made(void **state)
{
    static const char *const environment[] = { "PLAIT_STANDIN_DEVICES=2", NULL };

    if (!gpu_has_two())
        skip();
    assert_int_equal(gpu_ranks_run((struct ranks){
                         .nprocess = 1, .nthread = 4, .body = make_in_the_background, .environment = environment }),
                     0);
    assert_int_equal(gpu_ranks_run((struct ranks){
                         .nprocess = 2, .nthread = 2, .body = make_in_the_background, .environment = environment }),
                     0);
}

static pthread_barrier_t all; /* of this process */

/* ---- In order -------------------------------------------------------------------------------------------------- */

/* What is on streams is done by comms that are destroyed; nothing of the GPU's is left. */
static int leave(ncclComm_t *comm, int rank, int nrank)
{
    struct standin_left before, after;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(adds_up(*comm, &g, rank, nrank) == 0); /* the process has its own streams and kernels from now on */
    OK(ncclCommDestroy(*comm));
    pthread_barrier_wait(&all);
    before = gpu_left();
    pthread_barrier_wait(&all);
    for (int k = 1; k < 4; k++) {
        OK(ncclCommInitRank(comm, nrank, ranks_id[k], rank));
        CHECK(adds_up(*comm, &g, rank, nrank) == 0);
        OK(ncclGroupStart());
        for (int i = 0; i < 20; i++)
            OK(ncclAllReduce(g.in + i, g.out + i, 1, ncclFloat, ncclSum, *comm, g.stream));
        OK(ncclGroupEnd());
        if (k == 2)
            OK(ncclCommFinalize(*comm));
        OK(ncclCommDestroy(*comm));
        pthread_barrier_wait(&all);
        after = gpu_left();
        pthread_barrier_wait(&all);
        CHECK(memcmp(&after, &before, sizeof after) == 0);
    }
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

static void comms_leave_nothing_on_a_gpu(void **state)
{
    pthread_barrier_init(&all, NULL, 2);
    assert_int_equal(gpu_run(1, 2, leave), 0);
    assert_int_equal(gpu_run(2, 2, leave), 0);
    pthread_barrier_destroy(&all);
}

/* ---- Aborted --------------------------------------------------------------------------------------------------- */

static _Atomic int gate, held;
static _Atomic(uint32_t *) word; /* pinned: a stream waits until it is 1 */

static void wait_at_gate(void *context)
{
    while (!atomic_load(&gate))
        usleep(100);
}

struct asked { /* on a stream, behind operations of the comm */
    ncclComm_t comm;
    ncclResult_t result, state;
};

static void ask(void *context)
{
    struct asked *a = context;

    a->state = ncclSuccess;
    a->result = ncclCommGetAsyncError(a->comm, &a->state);
}

/* Where a stream was made to pass, its host knew by then that the results are none. */
static bool was_known(const struct asked *a)
{
    return a->result == ncclInvalidArgument || a->state == ncclRemoteError; /* the first: it is no comm any more */
}

static void *abort_it(void *comm)
{
    return ncclCommAbort(comm) == ncclSuccess ? comm : NULL;
}

/* Rank 1's stream is held up, and with it what is on the others'; rank 0 is aborted by another thread of its process. */
static int abort_queued(ncclComm_t *comm, int rank, int nrank)
{
    struct asked asked = { 0 };
    struct gpu_rank g;
    pthread_t thread;
    void *done;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless(); /* the streams of a failed comm pass in any order */
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(adds_up(*comm, &g, rank, nrank) == 0);
    if (rank == 1) { /* by no function of the host's: one that waits holds up all of a process */
        CHECK((word = gpu_pinned(sizeof *word)) != NULL);
        CHECK(gpu.wait_value(g.stream, (uintptr_t)word, 1, 0) == 0);
    }
    OK(sum(*comm, &g));
    OK(ncclGroupStart());
    for (int i = 0; i < 20; i++) /* fused */
        OK(ncclAllReduce(g.in + i, g.out + i, 1, ncclFloat, ncclSum, *comm, g.stream));
    OK(ncclSend(g.in, COUNT, ncclFloat, (rank + 1) % nrank, *comm, g.stream));
    OK(ncclRecv(g.out, COUNT, ncclFloat, (rank + nrank - 1) % nrank, *comm, g.stream));
    OK(ncclGroupEnd());
    asked.comm = *comm;
    CHECK(gpu.call(g.stream, ask, &asked) == 0);
    CHECK(gpu.query(g.stream) == 600); /* CUDA_ERROR_NOT_READY */
    atomic_fetch_add(&held, 1);
    while (atomic_load(&held) < nrank)
        usleep(100);
    if (rank == 0) {
        CHECK(pthread_create(&thread, NULL, abort_it, *comm) == 0);
        CHECK(gpu.synchronize(g.stream) == 0); /* it passes, though rank 1's does not */
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        pthread_join(thread, &done);
        CHECK(done != NULL);
    } else {
        CHECK(trouble(*comm) == ncclRemoteError);
        CHECK(sum(*comm, &g) == ncclRemoteError && strstr(ncclGetLastError(*comm), "ncclCommAbort()") != NULL);
        CHECK(gpu.synchronize(g.stream) == 0);
        OK(ncclCommAbort(*comm));
    }
    *comm = NULL;
    CHECK(was_known(&asked) && (rank != 1 || gpu.free_pinned(word) == 0) && gpu_end(&g));
    return 0;
}

/* On one host: over hosts a call waits for its stream */
static void an_aborted_comm_lets_its_streams_pass_when_its_error_is_known(void **state)
{
    for (int k = 0; k < 5; k++) {
        atomic_store(&held, 0);
        assert_int_equal(gpu_run(1, 3, abort_queued), 0);
    }
}

/* A call that waits for a rank which never comes ends when its comm is aborted. */
static int abort_while_it_waits(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    pthread_t thread;
    void *done;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    if (rank == 0) {
        CHECK(adds_up(*comm, &g, rank, nrank) == 0);
    } else {
        CHECK(fill(&g, rank));
        const ncclResult_t first = sum(*comm, &g);
        CHECK(first == ncclSuccess || first == ncclRemoteError); /* it may be about to return when rank 0 is aborted */
    }
    if (rank == 0) {
        CHECK(pthread_create(&thread, NULL, abort_it, *comm) == 0);
        const ncclResult_t result = sum(*comm, &g);
        CHECK(result == ncclRemoteError || result == ncclInvalidArgument); /* it began, or it came too late */
        pthread_join(thread, &done);
        CHECK(done != NULL);
    } else {
        CHECK(trouble(*comm) == ncclRemoteError);
        OK(ncclCommAbort(*comm));
    }
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

/* On one host: over hosts the abort may come before another rank has returned from the sum */
static void a_call_that_waits_for_a_rank_ends_when_it_is_aborted(void **state)
{
    for (int k = 0; k < 5; k++)
        assert_int_equal(gpu_run(k % 2 + 1, 2 - k % 2, abort_while_it_waits), 0);
}

/* Aborted or destroyed between a call in a group and the group's end. */
static int a_comm_may_be_aborted_before_its_group_ends(ncclComm_t *comm, int rank, int nrank)
{
    struct standin_left before, after;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, 1, ranks_id[0], 0));
    CHECK(adds_up(*comm, &g, 0, 1) == 0);
    OK(ncclCommAbort(*comm));
    before = gpu_left();
    OK(ncclCommInitRank(comm, 1, ranks_id[1], 0));
    OK(ncclGroupStart());
    OK(sum(*comm, &g));
    OK(sum(*comm, &g));
    CHECK(ncclCommDestroy(*comm) == ncclInvalidUsage); /* the group has calls of it */
    OK(ncclCommAbort(*comm));
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    *comm = NULL;
    after = gpu_left();
    CHECK(memcmp(&after, &before, sizeof after) == 0);
    CHECK(gpu_end(&g));
    return 0;
}

/* ---- Dead ------------------------------------------------------------------------------------------------------- */

/* Process 1 is killed while its stream, and the others', have work. */
static int survive(ncclComm_t *comm, int rank, int nrank)
{
    int excluded[1] = { 1 };
    ncclComm_t rest;
    struct gpu_rank g;
    struct asked asked = { 0 };

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(adds_up(*comm, &g, rank, nrank) == 0);
    CHECK(rank != 1 || gpu.call(g.stream, wait_at_gate, NULL) == 0);
    const ncclResult_t result = sum(*comm, &g);
    CHECK(result == ncclSuccess || (rank != 1 && result == ncclRemoteError)); /* it may die before others return */
    asked.comm = *comm;
    CHECK(gpu.call(g.stream, ask, &asked) == 0);
    if (rank == 1)
        raise(SIGKILL);
    CHECK(trouble(*comm) == ncclRemoteError && strstr(ncclGetLastError(*comm), "rank 1 (process") != NULL);
    CHECK(gpu.synchronize(g.stream) == 0);
    CHECK(was_known(&asked));
    CHECK(sum(*comm, &g) == ncclRemoteError && strstr(ncclGetLastError(*comm), "rank 1 (process") != NULL);
    OK(ncclCommShrink(*comm, excluded, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    CHECK(adds_up(rest, &g, rank > 1 ? rank - 1 : rank, nrank - 1) == 0);
    OK(ncclCommDestroy(rest));
    OK(ncclCommAbort(*comm));
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

/* On one host: over hosts a call waits for its stream */
static void who_is_left_goes_on_when_a_process_is_killed(void **state)
{
    assert_int_equal(gpu_run(3, 1, survive), 1); /* the dead one */
}

static int pair(ncclComm_t comm, const struct gpu_rank *g, int rank)
{
    OK(ncclGroupStart());
    for (int k = 0; k < 2; k++)
        OK(ncclAllReduce(g->in + k * 10, g->out + k * 10, 10, ncclFloat, ncclSum, comm, g->stream));
    OK(ncclGroupEnd());
    return 0;
}

/* Rank 1's passes when rank 0 has aborted. What was packed goes with the next comm. */
static int abort_one_of_two(ncclComm_t *comm, int rank, int nrank)
{
    uint64_t before, persist;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    gpu_careless();
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclCommMemStats(*comm, ncclStatGpuMemPersist, &before));
    CHECK(pair(*comm, &g, rank) == 0 && gpu.synchronize(g.stream) == 0);
    OK(ncclCommMemStats(*comm, ncclStatGpuMemPersist, &persist));
    CHECK(persist >= before + 2 * 10 * sizeof(float));
    pthread_barrier_wait(&all);
    CHECK(rank == 0 || gpu.call(g.stream, wait_at_gate, NULL) == 0);
    CHECK(pair(*comm, &g, rank) == 0);
    pthread_barrier_wait(&all);
    OK(ncclCommAbort(*comm));
    if (rank == 0)
        atomic_store(&gate, 1);
    CHECK(gpu.synchronize(g.stream) == 0);
    pthread_barrier_wait(&all);
    const uint32_t kept = gpu_left().memory;
    pthread_barrier_wait(&all);
    OK(ncclCommInitRank(comm, nrank, ranks_id[1], rank));
    OK(ncclCommDestroy(*comm));
    *comm = NULL;
    pthread_barrier_wait(&all);
    CHECK(gpu_left().memory < kept);
    pthread_barrier_wait(&all);
    CHECK(gpu_end(&g));
    return 0;
}

/* It waited for it in freeing the memory that fused operations are packed in. */
static void an_abort_does_not_wait_for_another_ranks_stream(void **state)
{
    atomic_store(&gate, 0);
    pthread_barrier_init(&all, NULL, 2);
    assert_int_equal(
        gpu_ranks_run((struct ranks){ .nprocess = 1, .nthread = 2, .body = abort_one_of_two, .careless = true }), 0);
    pthread_barrier_destroy(&all);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(comms_that_do_not_block_are_on_the_gpu_where_they_were_made),
        cmocka_unit_test(comms_leave_nothing_on_a_gpu),
        test_on_one_host(an_aborted_comm_lets_its_streams_pass_when_its_error_is_known),
        test_on_one_host(a_call_that_waits_for_a_rank_ends_when_it_is_aborted),
        test_on_gpu(a_comm_may_be_aborted_before_its_group_ends, 1, 1),
        test_on_one_host(an_abort_does_not_wait_for_another_ranks_stream),
        test_on_one_host(who_is_left_goes_on_when_a_process_is_killed),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("ends of nccl on a GPU", tests);
}
