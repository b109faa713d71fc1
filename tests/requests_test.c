/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: that they go on, their end, what is told of those that fail. */
#include "child.h"
#include "pending.h"
#include "unit_ranks.h"

#include <plait/group.h>
#include <plait/log.h>
#include <plait/message.h>
#include <plait/request.h>
#include <plait/stream.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Make a second comm of the same ranks. Rank 0 passes its id through the first one. */
static int second_comm(struct plait_comm *first, uint32_t rank, struct plait_comm **out)
{
    struct plait_comm_options o = ranks_options(rank);
    struct plait_unique_id id;

    CHECK(rank != 0 || plait_unique_id_create(&id) == PLAIT_OK);
    CHECK(plait_broadcast(first, rank == 0 ? &id : NULL, &id, sizeof id, PLAIT_UINT8, 0, NULL) == PLAIT_OK);
    o.id = &id;
    o.name = "second";
    CHECK(plait_comm_create(&o, out) == PLAIT_OK);
    return 0;
}

/* ---- Going on -------------------------------------------------------------------------------------------- */

/* Rank 0 is in an operation of one comm while the others wait for a pending one of the other first. */
static int pending_operations_go_on_while_their_thread_is_in_another_comm(struct plait_comm **comm, uint32_t rank,
                                                                          void *arg)
{
    int32_t *in = memory[rank][0], *out = memory[rank][1];
    struct plait_comm *second, *third;
    struct plait_request *r;
    int32_t one = 1, sum;

    if (second_comm(*comm, rank, &second) != 0)
        return 1;
    for (uint32_t k = 0; k < 5; k++) {
        in[0] = in[LONG - 1] = (int32_t)k;
        CHECK(begin_sum(*comm, in, out, LONG, &r) == PLAIT_OK);
        if (rank > 0)
            CHECK(plait_wait(&r) == PLAIT_OK);
        if (k == 4 && second_comm(second, rank, &third) != 0) /* so is one that makes a comm */
            return 1;
        CHECK(plait_allreduce(second, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK && sum == 3);
        CHECK(plait_wait(&r) == PLAIT_OK && out[LONG - 1] == 3 * (int32_t)k);
    }
    CHECK(plait_comm_destroy(second) == PLAIT_OK && plait_comm_destroy(third) == PLAIT_OK);
    return 0;
}

/* Creation alone is what rank 0 waits in. */
static int pending_operations_go_on_while_their_thread_makes_a_comm(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t *in = memory[rank][0], *out = memory[rank][1];
    struct plait_comm_options o = ranks_options(rank);
    struct plait_comm *second;
    struct plait_unique_id id;
    struct plait_request *r;

    CHECK(rank != 0 || plait_unique_id_create(&id) == PLAIT_OK);
    CHECK(plait_broadcast(*comm, rank == 0 ? &id : NULL, &id, sizeof id, PLAIT_UINT8, 0, NULL) == PLAIT_OK);
    o.id = &id;
    o.timeout = 30;
    CHECK(begin_sum(*comm, in, out, LONG, &r) == PLAIT_OK);
    if (rank > 0)
        CHECK(plait_wait(&r) == PLAIT_OK);
    CHECK(plait_comm_create(&o, &second) == PLAIT_OK);
    CHECK(plait_wait(&r) == PLAIT_OK && plait_comm_destroy(second) == PLAIT_OK);
    return 0;
}

struct job { /* of a thread besides */
    struct plait_comm *comm;
    uint32_t rank;
    int result;
};

static int sum_often(struct plait_comm *comm, uint32_t rank)
{
    int32_t in[1000], out[8][1000];
    struct plait_request *r[8];

    for (int32_t k = 0; k < 200; k++) {
        for (uint32_t i = 0; i < 1000; i++)
            in[i] = k;
        for (uint32_t i = 0; i < 8; i++)
            CHECK(begin_sum(comm, in, out[i], i % 2 ? 1000 : 5, &r[i]) == PLAIT_OK);
        CHECK(plait_wait_all(r, 8) == PLAIT_OK);
        for (uint32_t i = 0; i < 8; i++)
            CHECK(out[i][4] == 3 * k && (i % 2 == 0 || out[i][999] == 3 * k));
    }
    return 0;
}

static void *work(void *arg)
{
    struct job *j = arg;

    j->result = sum_often(j->comm, j->rank);
    return NULL;
}

static int two_comms_are_used_from_two_threads_at_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct job j = { .rank = rank };
    pthread_t thread;

    if (second_comm(*comm, rank, &j.comm) != 0)
        return 1;
    CHECK(pthread_create(&thread, NULL, work, &j) == 0);
    const int result = sum_often(*comm, rank);
    pthread_join(thread, NULL);
    CHECK(plait_comm_destroy(j.comm) == PLAIT_OK);
    return result + j.result;
}

static void *wait_elsewhere(void *arg)
{
    return (void *)(intptr_t)plait_wait(arg);
}

/* Any thread may wait, also one that is another's than the comm's; the comm goes on being used, and is left. */
static int hand_over(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);

    for (int32_t k = 0; k < 30; k++) {
        int32_t in[4] = { k, k, k, k }, out[3][4];
        struct plait_request *r[3];
        pthread_t thread[3];
        void *status;
        CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK(begin_sum(*comm, in, out[i], 4, &r[i]) == PLAIT_OK);
            CHECK(pthread_create(&thread[i], NULL, wait_elsewhere, &r[i]) == 0);
        }
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK); /* while others may still take their requests */
        *comm = NULL;
        for (uint32_t i = 0; i < 3; i++) {
            pthread_join(thread[i], &status);
            CHECK(status == NULL && r[i] == NULL && out[i][3] == 2 * k);
        }
    }
    return 0;
}

static void requests_are_taken_by_other_threads_while_their_comm_is_destroyed(void **state)
{
    ranks = (struct ranks){ .nprocess = 2, .nthread = 1, .limit = 120, .body = hand_over, .no_comm = true };
    assert_int_equal(ranks_run_both(&ranks), 0);
}

/* ---- Failing --------------------------------------------------------------------------------------------- */

enum failure { ABORT, DEATH, DEADLINE, MISMATCH, NFAILURE };

/* Many requests pending, of every kind, when the comm fails: each ends with the error, and so do later calls. */
static int fail_with_pending(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const enum failure failure = *(const enum failure *)arg;
    int32_t(*v)[50000] = (void *)memory[rank][0], (*w)[50000] = (void *)memory[rank][1];
    struct plait_request *r[MANY] = { NULL };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    enum plait_status first;

    CHECK(plait_barrier(*comm, NULL) != PLAIT_ERR_ARG); /* the failure may come early */
    if (rank == 1 && failure == DEATH)
        _exit(0);
    if (rank == 1 && failure == ABORT)
        CHECK(plait_comm_abort(*comm, "for a test") == PLAIT_OK);
    if (rank == 1 && failure == DEADLINE) {
        ranks_meet(); /* the others have given up */
        plait_comm_destroy(*comm);
        *comm = NULL;
        return 0;
    }
    for (uint32_t i = 0; i < MANY; i++) {
        enum plait_status status;
        call.request = &r[i];
        call.deadline = failure == DEADLINE ? 0.3 : 0;
        if (i % 3 == 2)
            status = plait_recv(*comm, w[i], 50000, PLAIT_INT32, (rank + 1) % 3, &call);
        else if (failure == MISMATCH && rank == 1)
            status = plait_barrier(*comm, &call);
        else
            status = plait_allreduce(*comm, v[i], w[i], i % 2 ? 5 : 50000, PLAIT_INT32, PLAIT_SUM, &call);
        if (status != PLAIT_OK) { /* another rank's deadline, if this one comes late */
            CHECK((status == PLAIT_ERR_FAILED || (status == PLAIT_ERR_TIMEOUT && failure == DEADLINE)) && r[i] == NULL);
            break;
        }
    }
    first = plait_wait_all(r, MANY);
    if (failure == DEADLINE)
        ranks_meet();
    CHECK(first != PLAIT_ERR_ARG);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(r[i] == NULL);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), failure == ABORT      ? "aborted by rank 1: for a test"
                                     : failure == DEATH    ? "rank 1 (process"
                                     : failure == DEADLINE ? "no progress for 0.3 s: rank"
                                                           : "collective is ") != NULL);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    return 0;
}

static void every_pending_request_ends_with_the_error_of_its_comm(void **state)
{
    for (enum failure f = ABORT; f < NFAILURE; f++) {
        struct ranks r = { .nprocess = 3, .nthread = 1, .body = fail_with_pending, .arg = &f, .processes = true };
        assert_int_equal(ranks_run(&r), 0);
        r.nprocess = 1;
        r.nthread = 3;
        if (f != DEATH)
            assert_int_equal(ranks_run(&r), 0);
    }
}

static int requests_of_a_destroyed_comm_keep_their_result(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t v[4] = { 0 };
    struct plait_request *r = NULL;

    CHECK(begin_sum(*comm, v, v, 4, &r) == PLAIT_OK && plait_wait(&r) == PLAIT_OK);
    call.request = &r;
    CHECK(plait_recv(*comm, v, 4, PLAIT_INT32, rank, &call) == PLAIT_OK);
    CHECK(plait_comm_abort(*comm, "for a test") == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    CHECK(plait_wait(&r) == PLAIT_ERR_FAILED && r == NULL);
    CHECK(strstr(plait_last_error(), "its comm failed and was destroyed") != NULL);
    return 0;
}

/* Its memory is that of a request that has ended. */
static int a_persistent_request_that_was_never_started_has_ended(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL;
    int32_t v[4] = { 0 };
    size_t index;
    int done;

    CHECK(begin_sum(*comm, v, v, 4, &r) == PLAIT_OK && plait_wait(&r) == PLAIT_OK);
    call.request = &r;
    call.persistent = 1;
    CHECK(plait_barrier(*comm, &call) == PLAIT_OK && r != NULL);
    CHECK(plait_test(&r, &done) == PLAIT_OK && done == 1 && r != NULL);
    CHECK(plait_wait_any(&r, 1, &index) == PLAIT_OK && index == 1 && r != NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(plait_start(r) == PLAIT_ERR_ARG && strstr(plait_last_error(), "the request's comm was destroyed") != NULL);
    CHECK(plait_request_free(&r) == PLAIT_OK && r == NULL);
    return 0;
}

/* The log's callback asks for figures of the comm that fails, by the thread that drives it. */
static void ask_for_stats(void *context, enum plait_log_level level, const char *line)
{
    struct plait_comm_stats stats;

    plait_comm_stats(*(struct plait_comm **)context, &stats);
}

static int the_logs_callback_may_ask_for_figures(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    int32_t got;

    plait_log_callback(ask_for_stats, comm);
    call.request = &r;
    call.deadline = 0.1;
    CHECK(plait_recv(*comm, &got, 1, PLAIT_INT32, rank, &call) == PLAIT_OK);
    CHECK(plait_wait(&r) == PLAIT_ERR_TIMEOUT);
    plait_log_callback(NULL, NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_TIMEOUT);
    *comm = NULL;
    return 0;
}

/* Rank 1 sends what rank 0 receives first only when rank 0 has told it that it has what it receives second, from rank 2. */
static int wait_any_tells_the_first_that_ends_not_the_first_that_was_started(struct plait_comm **comm, uint32_t rank,
                                                                             void *arg)
{
    struct plait_request *r[3] = { NULL, NULL, NULL };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t got[2] = { 0 }, v = (int32_t)rank;
    size_t index;

    if (rank == 1)
        CHECK(plait_recv(*comm, got, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    if (rank != 0) {
        CHECK(plait_send(*comm, &v, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
        return 0;
    }
    for (uint32_t k = 0; k < 2; k++) {
        call.request = &r[1 + k]; /* r[0] stays NULL */
        CHECK(plait_recv(*comm, &got[k], 1, PLAIT_INT32, 1 + k, &call) == PLAIT_OK);
    }
    CHECK(plait_wait_any(r, 3, &index) == PLAIT_OK && index == 2 && r[2] == NULL && r[1] != NULL && got[1] == 2);
    CHECK(plait_send(*comm, &v, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    CHECK(plait_wait_any(r, 3, &index) == PLAIT_OK && index == 1 && r[1] == NULL && got[0] == 1);
    CHECK(plait_wait_any(r, 3, &index) == PLAIT_OK && index == 3);
    return 0;
}

static int wrong_arguments_are_named_and_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL, *none = NULL;
    int32_t v[4] = { 0 };
    size_t index;
    int done;

    CHECK(plait_wait(NULL) == PLAIT_ERR_ARG && strstr(plait_last_error(), "plait_wait: request is NULL") != NULL);
    CHECK(plait_test(&none, NULL) == PLAIT_ERR_ARG && strstr(plait_last_error(), "done is NULL") != NULL);
    CHECK(plait_test(&none, &done) == PLAIT_OK && done == 1 && plait_wait(&none) == PLAIT_OK);
    CHECK(plait_wait_any(NULL, 1, &index) == PLAIT_ERR_ARG && plait_wait_any(&none, 1, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_wait_any(&none, 1, &index) == PLAIT_OK && index == 1);
    CHECK(plait_wait_all(NULL, 2) == PLAIT_ERR_ARG && plait_wait_all(NULL, 0) == PLAIT_OK);
    CHECK(plait_request_free(NULL) == PLAIT_OK && plait_request_free(&none) == PLAIT_OK);
    call.persistent = 1;
    CHECK(plait_barrier(*comm, &call) == PLAIT_ERR_ARG && strstr(plait_last_error(), "call->request is NULL") != NULL);
    call.persistent = 0;
    call.request = &r;
    CHECK(plait_allreduce(*comm, NULL, v, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG && r == NULL);
    CHECK(strstr(plait_last_error(), "allreduce: in is NULL") != NULL);
    CHECK(plait_barrier(*comm, &call) == PLAIT_OK);
    CHECK(plait_start(r) == PLAIT_ERR_ARG && strstr(plait_last_error(), "not persistent") != NULL);
    CHECK(plait_request_free(&r) == PLAIT_ERR_ARG && plait_wait(&r) == PLAIT_OK);
    CHECK(plait_stream_synchronize(NULL) == PLAIT_ERR_ARG);
    CHECK(plait_stream_destroy(NULL) == PLAIT_OK);
    return 0;
}

/* ---- Several errors at once ---- */

/* One comm's ranks call different things, which is seen at once; rank 1 calls nothing of the other's, which takes a while. */
static int fail_in_two_comms(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool late_first = *(const bool *)arg; /* the operation whose error comes last is the first of both */
    struct plait_comm *silent = NULL;
    struct plait_request *r[2] = { NULL };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t *v = memory[rank][0], *w = memory[rank][1];

    CHECK(plait_comm_duplicate(*comm, "silent", &silent) == PLAIT_OK);
    CHECK(plait_barrier(silent, NULL) == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 1) {
        CHECK(plait_allreduce(*comm, v, w, 5000, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_ERR_MISMATCH);
        CHECK(plait_recv(*comm, w, 1, PLAIT_INT32, 0, NULL) == PLAIT_ERR_FAILED);
        ranks_meet(); /* alive, and silent, until the other has its errors */
        plait_comm_destroy(silent);
        CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
        *comm = NULL;
        return 0;
    }
    for (unsigned k = 0; k < 2; k++) {
        const bool late = (k == 0) == late_first;

        call.deadline = late ? 0.3 : 0;
        call.request = &r[k];
        CHECK(plait_allreduce(late ? silent : *comm, v, w, late ? 50000 : 6000, PLAIT_INT32, PLAIT_SUM, &call) ==
              PLAIT_OK);
    }
    const enum plait_status first = plait_wait_all(r, 2);
    ranks_meet();
    CHECK(first == (late_first ? PLAIT_ERR_TIMEOUT : PLAIT_ERR_MISMATCH));
    CHECK(strstr(plait_last_error(), late_first ? "no progress for 0.3 s" : "6000") != NULL);
    CHECK(r[0] == NULL && r[1] == NULL && plait_comm_destroy(silent) != PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    return 0;
}

static void the_first_error_in_the_order_of_the_calls_is_told(void **state)
{
    for (unsigned k = 0; k < 2; k++)
        run(2, 1, fail_in_two_comms, &(bool){ k });
}

/* ---- What is kept ---------------------------------------------------------------------------------------- */

static int nothing_is_allocated_and_errno_is_kept(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t v[4] = { 1, 2, 3, 4 }, w[5000] = { 0 }, x[5000];
    struct plait_comm_stats before, after;
    struct plait_request *r[6];
    int done;

    for (uint32_t k = 0; k < 200; k++) {
        if (k == 20)
            plait_comm_stats(*comm, &before);
        errno = EDOM;
        struct plait_call call = PLAIT_CALL_DEFAULT;
        for (uint32_t i = 0; i < 4; i++)
            CHECK(begin_sum(*comm, v, v, 4, &r[i]) == PLAIT_OK);
        call.request = &r[4];
        CHECK(plait_send(*comm, w, 5000, PLAIT_INT32, 1 - rank, &call) == PLAIT_OK);
        call.request = &r[5];
        CHECK(plait_recv(*comm, x, 5000, PLAIT_INT32, 1 - rank, &call) == PLAIT_OK);
        CHECK(plait_test(&r[0], &done) == PLAIT_OK);
        if (k % 50 == rank)
            usleep(5000); /* the others sleep */
        CHECK(plait_wait_all(r, 6) == PLAIT_OK && errno == EDOM);
        v[0] = 1;
    }
    plait_comm_stats(*comm, &after);
    CHECK(RANKS_KEEP_MEMORY(before.allocations, after.allocations));
    return 0;
}

static int a_forked_child_has_no_requests_or_groups(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t v[4] = { 1, 1, 1, 1 }, w[4];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r, *again;

    call.request = &again;
    call.persistent = 1;
    CHECK(plait_barrier(*comm, &call) == PLAIT_OK);
    CHECK(begin_sum(*comm, v, w, 4, &r) == PLAIT_OK);
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    const pid_t child = child_fork();
    if (child == 0) {
        const bool good = plait_group_end() == PLAIT_ERR_ARG && plait_wait(&r) == PLAIT_ERR_ARG &&
                          plait_start(again) == PLAIT_ERR_ARG && plait_request_free(&again) == PLAIT_OK &&
                          plait_barrier(*comm, NULL) == PLAIT_ERR_ARG;
        _exit(good ? 0 : 1);
    }
    CHECK(child_end(child) == 0);
    CHECK(plait_group_end() == PLAIT_OK && plait_wait(&r) == PLAIT_OK && w[0] == 2);
    CHECK(plait_run_again(again) == PLAIT_OK && plait_request_free(&again) == PLAIT_OK);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_both(pending_operations_go_on_while_their_thread_is_in_another_comm, 3),
        test_of_ranks(pending_operations_go_on_while_their_thread_makes_a_comm, 3, 1),
        test_of_both(two_comms_are_used_from_two_threads_at_once, 3),
        cmocka_unit_test(requests_are_taken_by_other_threads_while_their_comm_is_destroyed),
        cmocka_unit_test(every_pending_request_ends_with_the_error_of_its_comm),
        test_of_ranks(requests_of_a_destroyed_comm_keep_their_result, 1, 1),
        test_of_ranks(a_persistent_request_that_was_never_started_has_ended, 1, 1),
        test_of_ranks(the_logs_callback_may_ask_for_figures, 1, 1),
        test_of_ranks(wait_any_tells_the_first_that_ends_not_the_first_that_was_started, 3, 1),
        test_of_ranks(wrong_arguments_are_named_and_change_nothing, 2, 1),
        cmocka_unit_test(the_first_error_in_the_order_of_the_calls_is_told),
        test_of_both(nothing_is_allocated_and_errno_is_kept, 2),
        test_of_ranks(a_forked_child_has_no_requests_or_groups, 2, 1, .processes = true),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
