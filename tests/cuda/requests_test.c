/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and persistent operations on a device's memory: when they end, in which order, and how. */
#include "../places.h"
#include "../ranks.h"
#include "../tier.h"
#include "device.h"
#include "unit_device.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/request.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, MANY = 6, ROOM = MANY * COUNT * sizeof(int32_t) };

/* The part of a buffer for operation i. */
static int32_t *part(char *memory, uint32_t i)
{
    return (int32_t *)(void *)memory + i * COUNT;
}

/* On every rank the inputs of operation i are k + i + rank; `wait`: until they are there. */
static int fill(struct device_rank *d, uint32_t rank, int32_t k, bool wait)
{
    int32_t *host = (int32_t *)(void *)d->host;

    for (uint32_t i = 0; i < MANY * COUNT; i++)
        host[i] = k + (int32_t)(i / COUNT + rank);
    CHECK(device_write(d, d->in, host, ROOM));
    CHECK(!wait || device.stream_synchronize(d->cuda) == 0);
    return 0;
}

static int32_t sum_of(uint32_t nrank, int32_t k, uint32_t i)
{
    return (int32_t)nrank * (k + (int32_t)i) + (int32_t)(nrank * (nrank - 1) / 2);
}

static int check(struct device_rank *d, uint32_t rank, uint32_t nrank, int32_t k, uint32_t i)
{
    int32_t got[COUNT];

    CHECK(device_read(d, got, part(d->out, i), sizeof got));
    for (uint32_t j = 0; j < COUNT; j++)
        CHECK(got[j] == sum_of(nrank, k, i));
    return 0;
}

static enum plait_status sum(struct plait_comm *comm, struct device_rank *d, uint32_t i, const struct plait_call *call)
{
    return plait_allreduce(comm, part(d->in, i), part(d->out, i), COUNT, PLAIT_INT32, PLAIT_SUM, call);
}

/* ---- Their end -------------------------------------------------------------------------------------------- */

static int pend(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[MANY];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (int32_t k = 0; k < (full() ? 50 : 10); k++) {
        const bool streamed = k % 2 == 1;
        uint32_t left = MANY;
        if (fill(&d, rank, k, !streamed) != 0)
            return 1;
        call.stream = streamed ? d.stream : NULL;
        for (uint32_t i = 0; i < MANY; i++) {
            call.request = &r[i];
            CHECK(sum(*comm, &d, i, &call) == PLAIT_OK);
        }
        call.request = NULL;
        while (left > 0 && k % 3 == 0) {
            size_t i;
            CHECK(plait_wait_any(r, MANY, &i) == PLAIT_OK && i < MANY);
            left--;
            if (check(&d, rank, nrank, k, (uint32_t)i) != 0)
                return 1;
        }
        for (uint32_t i = MANY; left > 0 && i-- > 0; left--) {
            int done = 0;
            while (k % 3 == 1 && !done)
                CHECK(plait_test(&r[i], &done) == PLAIT_OK);
            CHECK(plait_wait(&r[i]) == PLAIT_OK && r[i] == NULL);
            if (check(&d, rank, nrank, k, i) != 0)
                return 1;
        }
        if (k % 4 == 3) /* and a blocking one behind */
            CHECK(sum(*comm, &d, 0, NULL) == PLAIT_OK && check(&d, rank, nrank, k, 0) == 0);
    }
    CHECK(device_end(&d));
    return 0;
}

static void a_request_ends_when_its_operation_has_happened(void **state)
{
    device_run(1, 1, pend, NULL);
    device_run(1, 4, pend, NULL);
}

static void ranks_of_several_processes_have_requests(void **state)
{
    device_run(2, 1, pend, NULL);
    device_run(2, 2, pend, NULL);
}

static _Atomic uint32_t waiting;

static void count_and_wait(void *context)
{
    atomic_fetch_add(&waiting, 1);
    wait_at_gate(context);
}

static int hold(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[2];
    struct device_rank d;
    int32_t one = 1, all;
    size_t index;
    int done;

    CHECK(device_begin(&d, ROOM));
    CHECK(fill(&d, rank, 5, false) == 0);
    CHECK(device.stream_call(d.cuda, count_and_wait, NULL) == 0);
    call.stream = d.stream;
    call.request = &r[0];
    CHECK(sum(*comm, &d, 0, &call) == PLAIT_OK);
    call.stream = NULL;
    call.request = &r[1];
    CHECK(plait_allreduce(*comm, &one, &all, 1, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_wait_any(r, 2, &index) == PLAIT_OK && index == 1 && all == (int32_t)nrank);
    CHECK(plait_test(&r[0], &done) == PLAIT_OK && !done);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    atomic_store(&gate, 1);
    CHECK(plait_wait_any(r, 2, &index) == PLAIT_OK && index == 0 && r[0] == NULL);
    if (check(&d, rank, nrank, 5, 0) != 0)
        return 1;
    CHECK(device_end(&d));
    return 0;
}

/* On one host: over hosts a call waits for its stream */
static void a_request_waits_for_what_is_before_it_on_its_stream(void **state)
{
    atomic_store(&gate, 0);
    device_run(1, 3, hold, NULL);
}

/* ---- Again and again --------------------------------------------------------------------------------------- */

static int again(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[MANY];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.persistent = 1;
    for (uint32_t i = 0; i < MANY; i++) {
        call.request = &r[i];
        call.stream = i % 2 == 1 ? d.stream : NULL;
        CHECK(sum(*comm, &d, i, &call) == PLAIT_OK);
    }
    for (int32_t k = 0; k < (full() ? 50 : 10); k++) {
        if (fill(&d, rank, k, true) != 0)
            return 1;
        if (k % 3 == 0) {
            CHECK(plait_group_start() == PLAIT_OK);
            for (uint32_t i = 0; i < MANY; i++)
                CHECK((i == 0 ? plait_run_again(r[i]) : plait_start(r[i])) == PLAIT_OK);
            CHECK(plait_group_end() == PLAIT_OK);
        } else {
            for (uint32_t i = 0; i < MANY; i++)
                CHECK((i < 2 ? plait_run_again(r[i]) : plait_start(r[i])) == PLAIT_OK);
        }
        for (int32_t j = 0; j < k % 4; j++) /* on a stream, as often as one likes */
            CHECK(plait_start(r[3]) == PLAIT_OK);
        CHECK(k % 3 == 0 || plait_start(r[2]) == PLAIT_ERR_ARG);
        CHECK(k % 2 == 0 || plait_wait_all(r, MANY) == PLAIT_OK);
        for (uint32_t i = 0; i < MANY; i++) {
            CHECK(plait_wait(&r[i]) == PLAIT_OK);
            if (check(&d, rank, nrank, k, i) != 0)
                return 1;
        }
    }
    CHECK(plait_start(r[1]) == PLAIT_OK);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(plait_request_free(&r[i]) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

static void a_persistent_operation_is_started_again_and_again(void **state)
{
    device_run(1, 2, again, NULL);
    device_run(1, 3, again, NULL);
}

static int replay(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    struct device_rank d;
    void *graph, *exec;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    call.persistent = 1;
    call.request = &r;
    CHECK(sum(*comm, &d, 2, &call) == PLAIT_OK);
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_start(r) == PLAIT_OK && plait_wait(&r) == PLAIT_OK);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    for (int32_t k = 0; k < 20; k++) {
        if (fill(&d, rank, k, false) != 0)
            return 1;
        CHECK(k % 3 == 2 ? plait_start(r) == PLAIT_OK : device.launch(exec, d.cuda) == 0);
        if (check(&d, rank, nrank, k, 2) != 0)
            return 1;
    }
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    CHECK(plait_request_free(&r) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

/* On one host: no operation over hosts is in a graph */
static void a_persistent_operation_is_captured(void **state)
{
    device_run(1, 3, replay, NULL);
}

/* ---- Groups ------------------------------------------------------------------------------------------------ */

/* Two comms; calls that block, requests, and some on a stream. */
static int together(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_comm *both[2] = { *comm, NULL };
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    CHECK(plait_comm_duplicate(*comm, NULL, &both[1]) == PLAIT_OK);
    for (int32_t k = 0; k < (full() ? 50 : 10); k++) {
        struct plait_request *r[MANY] = { NULL };
        if (fill(&d, rank, k, true) != 0)
            return 1;
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t i = 0; i < MANY; i++) {
            struct plait_call call = PLAIT_CALL_DEFAULT;
            call.request = i % 3 == 1 ? &r[i] : NULL;
            call.stream = i % 2 == 1 ? d.stream : NULL;
            CHECK(sum(both[(i + rank) % 2], &d, (i + rank) % 2 == i % 2 ? i : i ^ 1, &call) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_wait_all(r, MANY) == PLAIT_OK);
        CHECK(device.stream_synchronize(d.cuda) == 0);
        for (uint32_t i = 0; i < MANY; i++)
            if (check(&d, rank, nrank, k, i) != 0)
                return 1;
    }
    CHECK(plait_comm_destroy(both[1]) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

static void calls_of_every_form_are_grouped(void **state)
{
    device_run(1, 2, together, NULL);
    device_run(1, 3, together, NULL);
}

/* ---- Ends of comms ------------------------------------------------------------------------------------------ */

static int a_comm_that_is_left_ends_its_requests_first(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[MANY];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    CHECK(fill(&d, rank, 9, true) == 0);
    for (uint32_t i = 0; i < MANY; i++) {
        call.request = &r[i];
        call.stream = i % 2 == 1 ? d.stream : NULL;
        CHECK(sum(*comm, &d, i, &call) == PLAIT_OK);
    }
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    for (uint32_t i = 0; i < MANY; i++)
        if (check(&d, rank, nrank, 9, i) != 0)
            return 1;
    CHECK(plait_wait_all(r, MANY) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

/* Rank 1's stream is held up. Rank 0's requests end with the comm: when it is aborted, or at the deadline. */
static int break_off(struct plait_comm **comm, uint32_t rank, double deadline)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[2];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    CHECK(rank == 0 || device.stream_call(d.cuda, count_and_wait, NULL) == 0);
    call.deadline = rank == 0 ? deadline : 0;
    for (uint32_t i = 0; i < 2; i++) {
        call.request = &r[i];
        call.stream = rank == 1 || i == 1 ? d.stream : NULL;
        CHECK(sum(*comm, &d, i, &call) == PLAIT_OK);
    }
    ranks_meet(); /* both have called */
    while (rank == 0 && atomic_load(&waiting) == 0)
        usleep(100);
    if (rank == 0 && deadline == 0)
        CHECK(plait_comm_abort(*comm, "enough") == PLAIT_OK);
    const enum plait_status want = deadline == 0 ? PLAIT_ERR_FAILED : PLAIT_ERR_TIMEOUT;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(plait_wait(&r[i]) == want && r[i] == NULL);
        CHECK(strstr(plait_last_error(), deadline == 0 ? "enough" : "has not finished") != NULL);
    }
    if (rank == 0)
        atomic_store(&gate, 1);
    CHECK(sum(*comm, &d, 0, &call) == PLAIT_ERR_FAILED);
    CHECK(plait_comm_destroy(*comm) == want);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static int abort_one(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return break_off(comm, rank, 0);
}

static int run_out(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return break_off(comm, rank, 0.3);
}

/* On one host: over hosts a call waits for its stream */
static void requests_end_with_a_comm_that_fails(void **state)
{
    atomic_store(&gate, 0);
    atomic_store(&waiting, 0);
    device_run(1, 2, abort_one, NULL);
    atomic_store(&gate, 0);
    atomic_store(&waiting, 0);
    device_run(1, 2, run_out, NULL);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_ends_when_its_operation_has_happened),
        cmocka_unit_test(ranks_of_several_processes_have_requests),
        test_on_one_host(a_request_waits_for_what_is_before_it_on_its_stream),
        cmocka_unit_test(a_persistent_operation_is_started_again_and_again),
        test_on_one_host(a_persistent_operation_is_captured),
        cmocka_unit_test(calls_of_every_form_are_grouped),
        test_on_device(a_comm_that_is_left_ends_its_requests_first, 1, 3),
        test_on_one_host(requests_end_with_a_comm_that_fails),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("device_requests", tests);
}
