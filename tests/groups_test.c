/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups, and one thread that holds several ranks of a comm. Messages in groups: messages_test.c. */
#include "pending.h"
#include "unit_ranks.h"

#include <plait/group.h>
#include <plait/message.h>
#include <plait/request.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELD 3

static void run_without_comm(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *),
                             void *arg)
{
    ranks = (struct ranks){
        .nprocess = nprocess, .nthread = nthread, .limit = 120, .body = body, .arg = arg, .no_comm = true
    };
    assert_int_equal(ranks_run(&ranks), 0);
}

/* This thread's HELD ranks of one comm. */
static int create_held(uint32_t rank, struct plait_comm **comm, const char *name)
{
    struct plait_comm_options o = ranks_options(0);

    o.nrank *= HELD;
    o.name = name;
    CHECK(plait_group_start() == PLAIT_OK);
    for (uint32_t k = 0; k < HELD; k++) {
        o.rank = rank * HELD + k;
        comm[k] = NULL;
        CHECK(plait_comm_create(&o, &comm[k]) == PLAIT_OK && comm[k] == NULL); /* at the end */
    }
    CHECK(plait_group_end() == PLAIT_OK);
    for (uint32_t k = 0; k < HELD; k++)
        CHECK(plait_comm_rank(comm[k]) == rank * HELD + k);
    return 0;
}

static int destroy_held(uint32_t rank, struct plait_comm **comm, enum plait_status expected)
{
    for (uint32_t k = 0; k < HELD; k++)
        CHECK((plait_comm_destroy(comm[k]) == PLAIT_OK) == (expected == PLAIT_OK));
    return 0;
}

/* ---- Several ranks of a thread --------------------------------------------------------------------------- */

static int hold_several(struct plait_comm **none, uint32_t rank, void *arg)
{
    struct plait_comm *comm[HELD];
    const int32_t nrank = HELD * (int32_t) * (uint32_t *)arg;
    static int32_t v[8][70000], w[8][70000];

    if (create_held(rank, comm, "held") != 0)
        return 1;
    for (int32_t k = 0; k < 20; k++) {
        const size_t n = k % 3 == 0 ? 70000 : 3;
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t h = 0; h < HELD; h++) {
            const uint32_t me = rank * HELD + h;
            v[me][n - 1] = k;
            CHECK(plait_allreduce(comm[h], v[me], w[me], n, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        for (uint32_t h = 0; h < HELD; h++)
            CHECK(w[rank * HELD + h][n - 1] == nrank * k);
    }
    return destroy_held(rank, comm, PLAIT_OK);
}

static void one_thread_may_hold_several_ranks(void **state)
{
    uint32_t one = 1, two = 2;

    run_without_comm(1, 1, hold_several, &one);
    run_without_comm(2, 1, hold_several, &two);
    run_without_comm(1, 2, hold_several, &two);
}

/* Its comm fails while several ranks of the thread have operations pending: all can be left one after the other. */
static int fail_held(struct plait_comm **none, uint32_t rank, void *arg)
{
    static int32_t v[70000], w[2 * HELD][70000];
    struct plait_comm *comm[HELD];
    struct plait_request *r[2 * HELD];
    const bool dies = *(const bool *)arg;

    if (create_held(rank, comm, "held") != 0)
        return 1;
    if (rank == 1 && dies)
        _exit(0);
    for (uint32_t h = 0; h < HELD; h++) {
        struct plait_call call = PLAIT_CALL_DEFAULT;
        enum plait_status status;
        call.request = &r[h];
        r[h] = r[HELD + h] = NULL;
        status = plait_allreduce(comm[h], v, w[rank * HELD + h], 70000, PLAIT_INT32, PLAIT_SUM, &call);
        call.request = &r[HELD + h];
        if (status == PLAIT_OK)
            status = plait_recv(comm[h], w[rank * HELD + h], 4, PLAIT_INT32, 2, &call);
        CHECK(status == PLAIT_OK || dies || rank == 1);
    }
    if (rank == 0 && !dies)
        CHECK(plait_comm_abort(comm[2], "for a test") == PLAIT_OK);
    if (destroy_held(rank, comm, PLAIT_ERR_FAILED) != 0)
        return 1;
    CHECK(plait_wait_all(r, 2 * HELD) != PLAIT_ERR_ARG);
    for (uint32_t h = 0; h < 2 * HELD; h++)
        CHECK(r[h] == NULL);
    return 0;
}

static void a_thread_leaves_several_ranks_of_a_comm_that_failed(void **state)
{
    bool dies = false;

    run_without_comm(1, 1, fail_held, &dies);
    run_without_comm(2, 1, fail_held, &dies);
    dies = true;
    ranks = (struct ranks){
        .nprocess = 2, .nthread = 1, .body = fail_held, .arg = &dies, .no_comm = true, .processes = true
    };
    assert_int_equal(ranks_run(&ranks), 0);
}

/* What cannot be created is told at the end, of all that were asked for. */
static int create_wrongly(struct plait_comm **none, uint32_t rank, void *arg)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *good = NULL, *bad = NULL;
    struct plait_unique_id id;

    CHECK(plait_unique_id_create(&id) == PLAIT_OK);
    o.nrank = 1;
    CHECK(plait_group_start() == PLAIT_OK && plait_comm_create(&o, &good) == PLAIT_OK);
    o.nrank = 2;
    o.id = &id;
    o.timeout = 0.2;
    CHECK(plait_comm_create(&o, &bad) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_ERR_TIMEOUT && bad == NULL && good != NULL);
    CHECK(strstr(plait_last_error(), "rank 1") != NULL);
    o.rank = 7;
    CHECK(plait_group_start() == PLAIT_OK && plait_comm_create(&o, &bad) == PLAIT_ERR_ARG);
    CHECK(plait_group_end() == PLAIT_ERR_ARG && strstr(plait_last_error(), "rank is 7") != NULL && bad == NULL);
    return plait_comm_destroy(good) != PLAIT_OK;
}

static void what_cannot_be_created_is_told_at_the_end(void **state)
{
    run_without_comm(1, 1, create_wrongly, NULL);
}

/* ---- Together -------------------------------------------------------------------------------------------- */

/* Collectives of two comms, in an order of each rank's own, with messages between; nested. */
static int calls_of_a_group_run_together_in_any_order(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    struct plait_comm *both[2] = { *comm, NULL };
    struct plait_unique_id id;
    int32_t one = 1, sum[2][3], got = -1;

    CHECK(rank != 0 || plait_unique_id_create(&id) == PLAIT_OK);
    CHECK(plait_broadcast(*comm, rank == 0 ? &id : NULL, &id, sizeof id, PLAIT_UINT8, 0, NULL) == PLAIT_OK);
    o.id = &id;
    CHECK(plait_comm_create(&o, &both[1]) == PLAIT_OK);
    for (uint32_t k = 0; k < 30; k++) {
        memset(sum, 0, sizeof sum);
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t i = 0; i < 6; i++) {
            const uint32_t which = (i + rank) % 2;
            CHECK(plait_group_start() == PLAIT_OK);
            CHECK(plait_allreduce(both[which], &one, &sum[which][i / 2], 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
            CHECK(plait_group_end() == PLAIT_OK && sum[which][i / 2] == 0); /* not before the outermost */
            if (i == 3 - rank)
                CHECK(plait_send(both[0], &rank, 1, PLAIT_INT32, (rank + 1) % 3, NULL) == PLAIT_OK &&
                      plait_recv(both[0], &got, 1, PLAIT_INT32, (rank + 2) % 3, NULL) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK && got == (int32_t)(rank + 2) % 3);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(sum[0][i] == 3 && sum[1][i] == 3);
    }
    CHECK(plait_comm_destroy(both[1]) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_ERR_ARG && strstr(plait_last_error(), "has no group") != NULL);
    return 0;
}

/* Requests and persistent operations in a group: begun at its end, waited for by who holds them. */
static int requests_and_persistent_operations_in_a_group(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t one = 1, sum[5] = { 0 };
    struct plait_call held = PLAIT_CALL_DEFAULT, kept = PLAIT_CALL_DEFAULT;
    struct plait_request *r, *again, *other;

    held.request = &r;
    kept.request = &again;
    kept.persistent = 1;
    CHECK(plait_allreduce(*comm, &one, &sum[4], 1, PLAIT_INT32, PLAIT_SUM, &kept) == PLAIT_OK);
    other = again;
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum[0], 1, PLAIT_INT32, PLAIT_SUM, &held) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum[1], 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum[2], 1, PLAIT_INT32, PLAIT_SUM, &kept) == PLAIT_OK);
    CHECK(plait_start(again) == PLAIT_OK && plait_run_again(other) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum[3], 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(plait_wait(&r) == PLAIT_ERR_ARG && strstr(plait_last_error(), "group has not ended") != NULL);
    CHECK(plait_request_free(&again) == PLAIT_ERR_ARG);
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(sum[1] == 2 && sum[3] == 2 && sum[4] == 2); /* what the group waits for */
    CHECK(plait_wait(&r) == PLAIT_OK && sum[0] == 2);
    CHECK(plait_wait(&again) == PLAIT_OK && sum[2] == 2);
    CHECK(plait_request_free(&again) == PLAIT_OK && plait_request_free(&other) == PLAIT_OK);
    return 0;
}

/* ---- Refused --------------------------------------------------------------------------------------------- */

enum refusal { ARGUMENT, CALL, COUNTS, SIZED, PEER, TWICE, NREFUSAL };

static enum plait_status ask_wrongly(struct plait_comm *comm, enum refusal refusal, struct plait_request *started)
{
    size_t counts[2] = { 1, SIZE_MAX };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t v[4] = { 0 }, w[4];

    switch (refusal) {
    case ARGUMENT:
        return plait_allreduce(comm, NULL, w, 4, PLAIT_INT32, PLAIT_SUM, NULL);
    case CALL:
        call.deadline = -1;
        return plait_barrier(comm, &call);
    case COUNTS:
        return plait_allgatherv(comm, v, w, NULL, NULL, PLAIT_INT32, NULL);
    case SIZED:
        return plait_allgatherv(comm, v, w, counts, NULL, PLAIT_INT32, NULL);
    case PEER:
        return plait_send(comm, v, 4, PLAIT_INT32, 2, NULL);
    default:
        return plait_start(started);
    }
}

/* One call is refused: nothing is begun, so the comm is as it was; who holds a request is told. */
static int refuse(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const char *const says[] = { "in is NULL",
                                        "call->deadline is -1",
                                        "counts of in are NULL",
                                        "has 18446744073709551615 elements from",
                                        "to is 2",
                                        "started in a group; call plait_group_end() first" };
    int32_t one = 1, sum = 0;
    struct plait_call held = PLAIT_CALL_DEFAULT, kept = PLAIT_CALL_DEFAULT;
    struct plait_request *r[2], *again;

    kept.request = &again;
    kept.persistent = 1;
    CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, &kept) == PLAIT_OK);
    for (enum refusal i = ARGUMENT; i < NREFUSAL; i++) {
        CHECK(plait_group_start() == PLAIT_OK);
        held.request = &r[0];
        CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, &held) == PLAIT_OK);
        CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
        CHECK(plait_start(again) == PLAIT_OK);
        const enum plait_status status = ask_wrongly(*comm, i, again);
        CHECK(status == PLAIT_ERR_ARG);
        held.request = &r[1];
        CHECK(plait_recv(*comm, &sum, 1, PLAIT_INT32, 1 - rank, &held) == PLAIT_OK);
        CHECK(plait_group_end() == status && (strstr(plait_last_error(), says[i]) != NULL ||
                                              (i == COUNTS && strstr(plait_last_error(), "counts of out are NULL"))));
        CHECK(plait_wait(&r[0]) == status && r[0] == NULL);
        CHECK(strstr(plait_last_error(), "a call of its group was refused") != NULL);
        CHECK(plait_wait(&r[1]) == status && plait_wait(&again) == status && plait_wait(&again) == PLAIT_OK);
        CHECK(sum == 2 * (int32_t)i);
        CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK && sum == 2);
        CHECK(plait_run_again(again) == PLAIT_OK && sum == 2);
        sum = 2 * ((int32_t)i + 1);
    }
    CHECK(plait_request_free(&again) == PLAIT_OK);
    return 0;
}

/* Each is named, in a line of its own; one that is made twice, once. */
static int refuse_several(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t v[4] = { 0 };

    CHECK(plait_group_start() == PLAIT_OK);
    for (unsigned i = 0; i < 2; i++)
        CHECK(plait_allreduce(*comm, v, v + 1, 3, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_send(*comm, v, 4, PLAIT_INT32, 99, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_group_end() == PLAIT_ERR_ARG);
    const char *const second = strchr(plait_last_error(), '\n');
    CHECK(strstr(plait_last_error(), "overlap") != NULL && second != NULL && strstr(second, "to is 99") != NULL);
    CHECK(strchr(second + 1, '\n') == NULL);
    CHECK(plait_group_start() == PLAIT_OK && plait_group_end() == PLAIT_OK);
    return 0;
}

static void a_refused_call_refuses_its_group(void **state)
{
    run(2, 1, refuse, NULL);
    run(2, 1, refuse_several, NULL);
}

/* Comms of a group that failed, or were destroyed, before its end. */
static int lose(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t one = 1, sum = 0;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;

    call.request = &r;
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(plait_group_end() == PLAIT_ERR_ARG && strstr(plait_last_error(), "was destroyed") != NULL);
    CHECK(plait_wait(&r) == PLAIT_ERR_ARG && r == NULL && sum == 0);
    return 0;
}

static int fail_inside(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t one = 1, sum = 0, got;
    enum plait_status status = PLAIT_OK;

    CHECK(plait_group_start() == PLAIT_OK);
    for (uint32_t i = 0; i < 3 && status == PLAIT_OK; i++)
        status = plait_allreduce(*comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, NULL);
    if (status == PLAIT_OK) /* nobody sends */
        status = plait_recv(*comm, &got, 1, PLAIT_INT32, 1 - rank, NULL);
    CHECK(status == PLAIT_OK || (rank == 0 && status == PLAIT_ERR_FAILED)); /* it may come early */
    if (rank == 1) {
        usleep(20000);
        CHECK(plait_comm_abort(*comm, "for a test") == PLAIT_OK);
    }
    CHECK(plait_group_end() == PLAIT_ERR_FAILED && strstr(plait_last_error(), "aborted by rank 1: for a test") != NULL);
    CHECK(strchr(plait_last_error(), '\n') == NULL); /* once */
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    return 0;
}

/* Two comms fail for reasons of their own: both are told. */
static int fail_both(struct plait_comm **none, uint32_t rank, void *arg)
{
    static const char *const why[] = { "for one reason", "for another" };
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm[2];
    int32_t got;

    o.nrank = 1;
    CHECK(plait_comm_create(&o, &comm[0]) == PLAIT_OK && plait_comm_create(&o, &comm[1]) == PLAIT_OK);
    CHECK(plait_group_start() == PLAIT_OK);
    for (unsigned i = 0; i < 4; i++)
        CHECK(plait_recv(comm[i % 2], &got, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    for (unsigned i = 0; i < 2; i++)
        CHECK(plait_comm_abort(comm[i], why[i]) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), why[0]) != NULL && strstr(plait_last_error(), why[1]) != NULL);
    for (unsigned i = 0; i < 2; i++)
        CHECK(plait_comm_destroy(comm[i]) == PLAIT_ERR_FAILED);
    return 0;
}

static void comms_that_are_lost_in_a_group_are_told(void **state)
{
    run(2, 1, lose, NULL);
    run(1, 2, lose, NULL);
    run(2, 1, fail_inside, NULL);
    run(1, 2, fail_inside, NULL);
    run_without_comm(1, 1, fail_both, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_may_hold_several_ranks),
        cmocka_unit_test(a_thread_leaves_several_ranks_of_a_comm_that_failed),
        cmocka_unit_test(what_cannot_be_created_is_told_at_the_end),
        test_of_both(calls_of_a_group_run_together_in_any_order, 3),
        test_of_both(requests_and_persistent_operations_in_a_group, 2),
        cmocka_unit_test(a_refused_call_refuses_its_group),
        cmocka_unit_test(comms_that_are_lost_in_a_group_are_told),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
