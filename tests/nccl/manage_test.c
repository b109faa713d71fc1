/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms of NCCL's interface: how they are made, paused, ended, and what failures leave. */
#include "unit_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 1000

static int adds_up(ncclComm_t comm, int rank, int nrank)
{
    float in[COUNT], out[COUNT];

    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(rank + i);
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK(out[i] == (float)(nrank * (nrank - 1) / 2 + nrank * i));
    return 0;
}

/* ---- Without blocking ----------------------------------------------------------------------------------------- */

static int comms_that_do_not_block_are_in_progress_until_they_are_there(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t half = NULL, none = *comm, whole = NULL;
    ncclResult_t state;
    int n;

    config.blocking = 0;
    CHECK(ncclCommInitRankConfig(comm, nrank, ranks_id[0], rank, &config) == ncclInProgress);
    CHECK(settle(*comm) == ncclSuccess);
    CHECK(adds_up(*comm, rank, nrank) == 0);
    CHECK(ncclCommSplit(*comm, rank % 2, 0, &half, NULL) == ncclInProgress && half != NULL);
    CHECK(settle(*comm) == ncclSuccess);
    CHECK(settle(half) == ncclSuccess);
    OK(ncclCommCount(half, &n));
    CHECK(n == 2 && adds_up(half, rank / 2, 2) == 0);
    CHECK(ncclCommSplit(*comm, rank == 0 ? 5 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL) == ncclInProgress);
    CHECK(settle(*comm) == ncclSuccess);
    CHECK((none != NULL) == (rank == 0));
    OK(ncclCommDestroy(none)); /* NULL is allowed */
    OK(ncclGroupStart());
    CHECK(ncclCommInitRankConfig(&whole, nrank, ranks_id[1], rank, &config) == ncclInProgress);
    CHECK(ncclGroupEnd() == ncclInProgress);
    CHECK(settle(whole) == ncclSuccess && adds_up(whole, rank, nrank) == 0);
    CHECK(ncclCommFinalize(whole) == ncclInProgress);
    CHECK(settle(whole) == ncclSuccess);
    CHECK(adds_up(*comm, rank, nrank) == 0);
    CHECK(ncclCommFinalize(whole) == ncclInvalidUsage);
    OK(ncclCommDestroy(whole));
    OK(ncclCommDestroy(half));
    OK(ncclCommGetAsyncError(*comm, &state));
    return state == ncclSuccess ? 0 : 1;
}

static int a_comm_that_is_not_there_yet_refuses_calls_and_can_be_aborted(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t half = NULL;
    ncclResult_t state;
    ncclRedOp_t op;
    void *handle;
    float x = 1;
    int n;

    config.blocking = 0;
    (void)nrank; /* of two: the other one never comes */
    CHECK(ncclCommInitRankConfig(comm, 2, ranks_id[0], rank, &config) == ncclInProgress);
    OK(ncclCommGetAsyncError(*comm, &state));
    CHECK(state == ncclInProgress);
    CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, *comm, NULL) == ncclInvalidArgument);
    CHECK(ncclCommCount(*comm, &n) == ncclInvalidArgument && ncclCommUserRank(*comm, &n) == ncclInvalidArgument);
    CHECK(ncclRedOpCreatePreMulSum(&op, &x, ncclFloat, ncclScalarHostImmediate, *comm) == ncclInvalidArgument);
    CHECK(ncclCommRegister(*comm, &x, sizeof x, &handle) == ncclInvalidArgument);
    CHECK(ncclCommSplit(*comm, 0, 0, &half, NULL) == ncclInvalidArgument && half == NULL);
    CHECK(ncclCommFinalize(*comm) == ncclInvalidArgument);
    OK(ncclCommAbort(*comm)); /* at once */
    *comm = NULL;
    return 0;
}

/* ---- Ended while they are made ----------------------------------------------------------------------------------- */

static int can_go_on(int rank)
{
    ncclComm_t comms[2];
    ncclUniqueId id;
    int n;

    for (int i = 0; i < 2; i++) {
        OK(ncclGetUniqueId(&id));
        OK(ncclCommInitRank(&comms[i], 1, id, 0));
        OK(ncclCommCount(comms[i], &n));
        CHECK(n == 1 && adds_up(comms[i], 0, 1) == 0);
    }
    CHECK(comms[0] != comms[1]);
    for (int i = 0; i < 2; i++)
        OK(ncclCommDestroy(comms[i]));
    return 0;
}

static int a_comm_is_not_destroyed_before_its_group_ends(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t aborted, part;
    int n;

    OK(ncclGroupStart());
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    CHECK(ncclCommDestroy(*comm) == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(NULL), "still being created") != NULL);
    OK(ncclGroupEnd());
    CHECK(adds_up(*comm, rank, nrank) == 0); /* it was not destroyed */
    for (config.blocking = 0; config.blocking < 2; config.blocking++) {
        OK(ncclGroupStart());
        ncclCommInitRankConfig(&aborted, nrank, ranks_id[1], rank, &config);
        OK(ncclCommAbort(aborted));
        CHECK(ncclCommAbort(aborted) == ncclInvalidArgument);
        CHECK(ncclGroupEnd() == ncclInvalidUsage && aborted == NULL);
        CHECK(strstr(ncclGetLastError(NULL), "aborted before its group ended") != NULL);
        OK(ncclGroupStart());
        ncclCommSplit(*comm, 0, 0, &part, &config);
        CHECK(ncclCommDestroy(part) == ncclInvalidUsage);
        OK(ncclCommAbort(part));
        CHECK(ncclGroupEnd() == ncclInvalidUsage && part == NULL);
    }
    OK(ncclCommCount(*comm, &n));
    return adds_up(*comm, rank, nrank) == 0 && can_go_on(rank) == 0 && n == nrank ? 0 : 1;
}

static void *abort_when_it_is_named(void *arg)
{
    ncclComm_t volatile *comm = arg;

    while (*comm == NULL)
        usleep(1000);
    usleep(50000);
    return ncclCommAbort(*comm) == ncclSuccess ? arg : NULL;
}

static int abort_creation(ncclComm_t *comm, int rank, int nrank)
{
    ncclComm_t waits = NULL;
    pthread_t thread;
    void *done;

    CHECK(pthread_create(&thread, NULL, abort_when_it_is_named, &waits) == 0);
    CHECK(ncclCommInitRank(&waits, 2, ranks_id[0], rank) == ncclRemoteError); /* of two: the other one never comes */
    CHECK(strstr(ncclGetLastError(NULL), "aborted") != NULL);
    pthread_join(thread, &done);
    CHECK(done != NULL && waits == NULL && *comm == NULL);
    return can_go_on(rank);
}

/* Within the limit of a rank, not that of the creation. */
static void a_creation_that_waits_ends_when_another_thread_aborts_it(void **state)
{
    static const char *const environment[] = { "PLAIT_TIMEOUT=3600", NULL };

    assert_int_equal(
        ranks_run(&(struct ranks){
            .nprocess = 1, .nthread = 1, .body = abort_creation, .no_comm = 1, .environment = environment }),
        0);
}

/* ---- Made of others -------------------------------------------------------------------------------------------- */

static int comms_are_made_from_several_ids_split_and_shrunk(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t scalable, part;
    int excluded[1] = { nrank - 1 }, mine, n;

    config.commName = "scalable";
    OK(ncclCommInitRankScalable(&scalable, nrank, rank, 2, &ranks_id[1], &config));
    CHECK(adds_up(scalable, rank, nrank) == 0);
    OK(ncclCommSplit(*comm, rank / 2, -rank, &part, &config));
    OK(ncclCommUserRank(part, &mine));
    OK(ncclCommCount(part, &n));
    CHECK(n == 2 && mine == 1 - rank % 2);
    OK(ncclCommDestroy(part));
    if (rank != nrank - 1) {
        OK(ncclCommShrink(*comm, excluded, 1, &part, NULL, NCCL_SHRINK_DEFAULT));
        CHECK(adds_up(part, rank, nrank - 1) == 0);
        OK(ncclCommFinalize(part));
        CHECK(ncclAllReduce(&n, &n, 1, ncclInt, ncclSum, part, NULL) == ncclInvalidArgument);
        OK(ncclCommDestroy(part));
    }
    CHECK(ncclCommShrink(*comm, &rank, 1, &part, NULL, 0) == ncclInvalidArgument); /* oneself */
    CHECK(ncclCommShrink(*comm, excluded, 1, &part, NULL, 2) == ncclInvalidArgument);
    CHECK(ncclCommSplit(*comm, -7, 0, &part, NULL) == ncclInvalidArgument);
    CHECK(adds_up(*comm, rank, nrank) == 0); /* as it was */
    OK(ncclCommDestroy(scalable));
    return 0;
}

static int comms_are_suspended_and_resumed_and_tell_their_memory(ncclComm_t *comm, int rank, int nrank)
{
    uint64_t now, paused, staging, persist, total;
    static _Thread_local float large[1 << 18];

    for (int i = 0; i < 2; i++) {
        OK(ncclAllReduce(large, large, 1 << 18, ncclFloat, ncclSum, *comm, NULL)); /* staged */
        OK(ncclCommMemStats(*comm, ncclStatGpuMemSuspend, &staging));
        OK(ncclCommMemStats(*comm, ncclStatGpuMemPersist, &persist));
        OK(ncclCommMemStats(*comm, ncclStatGpuMemTotal, &total));
        OK(ncclCommMemStats(*comm, ncclStatGpuMemSuspended, &now));
        CHECK(staging + persist == total && persist > 0 && now == 0);
        OK(ncclCommSuspend(*comm, NCCL_SUSPEND_MEM));
        OK(ncclCommMemStats(*comm, ncclStatGpuMemSuspended, &now));
        OK(ncclCommMemStats(*comm, ncclStatGpuMemSuspend, &paused));
        CHECK(now == 1 && paused == 0);
        CHECK(ncclAllReduce(large, large, 1, ncclFloat, ncclSum, *comm, NULL) == ncclInvalidArgument);
        OK(ncclCommResume(*comm));
        CHECK(adds_up(*comm, rank, nrank) == 0);
    }
    CHECK(ncclCommSuspend(*comm, 0) == ncclInvalidArgument);
    CHECK(ncclCommResume(*comm) == ncclInvalidArgument);
    CHECK(ncclCommMemStats(*comm, (ncclCommMemStat_t)4, &now) == ncclInvalidArgument);
    return 0;
}

static int memory_is_registered_and_windows_are_null(ncclComm_t *comm, int rank, int nrank)
{
    void *memory, *handle, *other, *user = &handle;
    ncclWindow_t window = (ncclWindow_t)(void *)&handle;

    OK(ncclMemAlloc(&memory, 4096));
    ((char *)memory)[4095] = 1;
    OK(ncclCommRegister(*comm, memory, 4096, &handle));
    OK(ncclCommRegister(*comm, memory, 4096, &other));
    OK(ncclCommDeregister(*comm, handle));
    CHECK(ncclCommDeregister(*comm, handle) == ncclInvalidArgument);
    OK(ncclCommDeregister(*comm, NULL));
    OK(ncclCommWindowRegister(*comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    CHECK(window == NULL);
    OK(ncclWinGetUserPtr(*comm, window, &user));
    CHECK(user == NULL);
    OK(ncclCommWindowDeregister(*comm, window));
    CHECK(ncclCommWindowDeregister(*comm, (ncclWindow_t)memory) == ncclInvalidArgument);
    OK(ncclMemFree(memory));
    CHECK(ncclMemFree(&memory) == ncclInvalidArgument);
    return adds_up(*comm, rank, nrank); /* `other` goes with the comm */
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static int a_revoked_comm_can_be_split_and_shrunk(ncclComm_t *comm, int rank, int nrank)
{
    int excluded[1] = { 0 }, n;
    ncclComm_t part, less;
    ncclResult_t state;
    float x = 1;

    CHECK(ncclCommRevoke(*comm, 1) == ncclInvalidArgument);
    if (rank == 0) {
        OK(ncclCommRevoke(*comm, NCCL_REVOKE_DEFAULT));
    } else {
        CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, *comm, NULL) == ncclRemoteError); /* which never comes */
        OK(ncclCommGetAsyncError(*comm, &state));
        CHECK(state == ncclRemoteError);
        OK(ncclCommRevoke(*comm, NCCL_REVOKE_DEFAULT));
    }
    OK(ncclCommGetAsyncError(*comm, &state));
    CHECK(state == ncclSuccess); /* it is quiet */
    CHECK(ncclCommFinalize(*comm) == ncclInvalidUsage);
    OK(ncclCommSplit(*comm, rank % 2, 0, &part, NULL));
    OK(ncclCommCount(part, &n));
    CHECK(n == nrank / 2 && adds_up(part, rank / 2, n) == 0);
    OK(ncclCommDestroy(part));
    if (rank != 0) {
        OK(ncclCommShrink(*comm, excluded, 1, &less, NULL, NCCL_SHRINK_DEFAULT));
        CHECK(adds_up(less, rank - 1, nrank - 1) == 0);
        OK(ncclCommDestroy(less));
    }
    return 0;
}

/* This thread has called, and sleeps: it waits for the others. */
static void wait_for_sleep(const _Atomic pid_t *thread)
{
    char path[64], state = 'R';

    while (state != 'S') {
        usleep(1000);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)*thread);
        FILE *f = *thread != 0 ? fopen(path, "r") : NULL;
        if (f != NULL && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
            state = 'R';
        if (f != NULL)
            fclose(f);
    }
}

struct waiting {
    ncclComm_t comm;
    _Atomic pid_t thread;
};

static void *abort_when_it_waits(void *arg)
{
    const struct waiting *w = arg;

    wait_for_sleep(&w->thread);
    return ncclCommAbort(w->comm) == ncclSuccess ? arg : NULL;
}

/* Rank 1 never comes; a thread of rank 0 loses patience. */
static int abort_in_flight(ncclComm_t *comm, int rank, int nrank)
{
    static _Thread_local float large[1 << 20];
    struct waiting mine = { .comm = *comm };
    pthread_t thread;
    void *done;
    ncclResult_t state = ncclSuccess;

    if (rank == 0) {
        CHECK(pthread_create(&thread, NULL, abort_when_it_waits, &mine) == 0);
        mine.thread = gettid();
        CHECK(ncclAllReduce(large, large, 1 << 20, ncclFloat, ncclSum, *comm, NULL) == ncclRemoteError);
        pthread_join(thread, &done);
        CHECK(done != NULL);
        CHECK(ncclCommGetAsyncError(*comm, &state) == ncclInvalidArgument); /* there is no such comm any more */
        CHECK(ncclCommAbort(*comm) == ncclInvalidArgument);
        CHECK(ncclCommDestroy(*comm) == ncclInvalidArgument);
    } else {
        while (state == ncclSuccess)
            OK(ncclCommGetAsyncError(*comm, &state));
        CHECK(state == ncclRemoteError);
        OK(ncclCommAbort(*comm));
    }
    *comm = NULL;
    return 0;
}

static void a_comm_is_aborted_while_an_operation_is_in_flight(void **state)
{
    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 2, .nthread = 1, .body = abort_in_flight }), 0);
    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 1, .nthread = 2, .body = abort_in_flight }), 0);
}

struct pair {
    ncclComm_t comm[2];
    _Atomic pid_t thread; /* 0: it has not called yet */
};

static void *use_both(void *arg)
{
    struct pair *p = arg;
    float x[2] = { 1, 1 };

    ncclGroupStart();
    for (int i = 0; i < 2; i++)
        ncclAllReduce(&x[i], &x[i], 1, ncclFloat, ncclSum, p->comm[i], NULL);
    p->thread = gettid();
    return ncclGroupEnd() == ncclRemoteError ? arg : NULL;
}

static int await_failure(ncclComm_t comm, int rank)
{
    ncclResult_t state = ncclSuccess;

    while (state == ncclSuccess)
        OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclRemoteError);
    OK(ncclCommAbort(comm));
    return 0;
}

/* A thread of rank 0 waits in a group of two comms. Rank 1 never comes to it. */
static int a_comm_is_aborted_while_a_group_waits_for_another(ncclComm_t *comm, int rank, int nrank)
{
    struct pair pair = { .comm = { *comm, NULL } };
    ncclResult_t state;
    pthread_t thread;
    void *done;

    OK(ncclCommSplit(*comm, 0, 0, &pair.comm[1], NULL));
    *comm = NULL;
    if (rank == 1)
        return await_failure(pair.comm[0], rank) != 0 || await_failure(pair.comm[1], rank) != 0;
    CHECK(pthread_create(&thread, NULL, use_both, &pair) == 0);
    wait_for_sleep(&pair.thread);
    OK(ncclCommAbort(pair.comm[0])); /* though the thread still waits for the other */
    CHECK(ncclCommGetAsyncError(pair.comm[0], &state) == ncclInvalidArgument);
    OK(ncclCommGetAsyncError(pair.comm[1], &state));
    CHECK(state == ncclSuccess);
    OK(ncclCommAbort(pair.comm[1]));
    pthread_join(thread, &done);
    CHECK(done != NULL);
    return can_go_on(rank);
}

/* Rank 1 never splits the comm. */
static int abort_a_split(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t whole = *comm, part;

    *comm = NULL;
    if (rank == 1)
        return await_failure(whole, rank);
    config.blocking = 0;
    CHECK(ncclCommSplit(whole, 0, 0, &part, &config) == ncclInProgress);
    OK(ncclCommAbort(part));
    OK(ncclCommAbort(whole));
    return can_go_on(rank);
}

static void a_split_that_is_in_progress_is_aborted(void **state)
{
    static const char *const environment[] = { "PLAIT_TIMEOUT=3600", NULL };

    assert_int_equal(
        ranks_run(&(struct ranks){ .nprocess = 2, .nthread = 1, .body = abort_a_split, .environment = environment }),
        0);
}

static int die_or_go_on(ncclComm_t *comm, int rank, int nrank)
{
    int dead[1] = { 1 };
    ncclComm_t rest;
    ncclResult_t state;
    float x = 1;

    if (rank == 1)
        raise(SIGKILL);
    CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, *comm, NULL) == ncclRemoteError);
    CHECK(strstr(ncclGetLastError(*comm), "rank 1") != NULL);
    OK(ncclCommGetAsyncError(*comm, &state));
    CHECK(state == ncclRemoteError);
    OK(ncclCommShrink(*comm, dead, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    CHECK(adds_up(rest, rank / 2, nrank - 1) == 0);
    OK(ncclCommDestroy(rest));
    return 0;
}

static void survivors_of_a_death_shrink_and_go_on(void **state)
{
    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 3, .nthread = 1, .body = die_or_go_on, .careless = 1 }), 1);
}

static int ranks_that_call_differently_are_told(ncclComm_t *comm, int rank, int nrank)
{
    float in[8] = { 0 }, out[8];

    CHECK(ncclAllReduce(in, out, 4 + (size_t)rank, ncclFloat, ncclSum, *comm, NULL) == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(*comm), "count") != NULL);
    return 0;
}

/* ---- Only what is there is read --------------------------------------------------------------------------------- */

/* The last bytes before a page that may not be touched. */
static void *at_the_edge(const void *of, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        abort();
    return memcpy(pages + page - bytes, of, bytes);
}

static int configs_are_read_to_their_size(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    float x = 1;

    config.blocking = 0;
    config.size = 24; /* of 2.14 */
    CHECK(ncclCommInitRankConfig(comm, nrank, ranks_id[0], rank, at_the_edge(&config, config.size)) == ncclInProgress);
    CHECK(settle(*comm) == ncclSuccess);
#ifdef NCCL_COLLCONFIG_INITIALIZER
    ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
    call.size = 24;
    OK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, *comm, NULL, at_the_edge(&call, call.size)));
    call.magic = 0;
    CHECK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, *comm, NULL, &call) == ncclInvalidArgument);
#endif
    ncclComm_t other;
    config.magic = 0;
    CHECK(ncclCommInitRankConfig(&other, nrank, ranks_id[1], rank, &config) == ncclInvalidArgument);
    config.magic = NCCL_API_MAGIC;
    config.blocking = 2;
    CHECK(ncclCommInitRankConfig(&other, nrank, ranks_id[1], rank, &config) == ncclInvalidArgument);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_ranks(comms_that_do_not_block_are_in_progress_until_they_are_there, 2, 2, .no_comm = 1),
        test_of_ranks(a_comm_that_is_not_there_yet_refuses_calls_and_can_be_aborted, 1, 1, .no_comm = 1),
        test_of_ranks(a_comm_is_not_destroyed_before_its_group_ends, 2, 1, .no_comm = 1),
        cmocka_unit_test(a_creation_that_waits_ends_when_another_thread_aborts_it),
        test_of_ranks(comms_are_made_from_several_ids_split_and_shrunk, 2, 2),
        test_of_ranks(comms_are_suspended_and_resumed_and_tell_their_memory, 2, 1),
        test_of_ranks(memory_is_registered_and_windows_are_null, 1, 2),
        test_of_ranks(a_revoked_comm_can_be_split_and_shrunk, 2, 2),
        cmocka_unit_test(a_comm_is_aborted_while_an_operation_is_in_flight),
        test_of_ranks(a_comm_is_aborted_while_a_group_waits_for_another, 2, 1),
        cmocka_unit_test(a_split_that_is_in_progress_is_aborted),
        cmocka_unit_test(survivors_of_a_death_shrink_and_go_on),
        test_of_ranks(ranks_that_call_differently_are_told, 2, 1, .careless = 1),
        test_of_ranks(configs_are_read_to_their_size, 2, 1, .no_comm = 1),
    };
    return cmocka_run_group_tests_name("nccl manage", tests, NULL, NULL);
}
