/* SPDX-License-Identifier: BSD-3-Clause */
/* Links slowed down for tests: refused in normal use, never faster than asked for, and otherwise as they were. */
#include "../transports/paced.h"

#include "base/clock.h"
#include "ranks.h"
#include "unit.h"

#include <plait/log.h>
#include <plait/message.h>
#include <plait/plan.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LATENCY 0.02 /* seconds, where ranks run */

static void set(const char *pace, const char *for_tests)
{
    setenv("PLAIT_PACE", pace, 1);
    setenv("PLAIT_FOR_TESTS", for_tests, 1);
}

static int slow_down(void **state)
{
    set("20ms", "1");
    setenv("PLAIT_LOG", "error", 1);
    return 0;
}

static int clear(void **state)
{
    unsetenv("PLAIT_PACE");
    unsetenv("PLAIT_FOR_TESTS");
    unsetenv("PLAIT_LOG");
    return 0;
}

static void run_as(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *))
{
    const struct ranks r = { .nprocess = nprocess, .nthread = nthread, .body = body };
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Settings -------------------------------------------------------------------------------------- */

static void a_pace_is_refused_unless_it_is_said_to_be_for_tests(void **state)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;

    o.nrank = 1;
    set("20ms", "0");
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_ERR_CONFIG);
    assert_non_null(strstr(plait_last_error(), "PLAIT_PACE is set"));
    assert_non_null(strstr(plait_last_error(), "PLAIT_FOR_TESTS=1"));
    set("", "1");
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
    plait_comm_destroy(comm);
}

static int create_with_own_pace(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    if (rank == 1)
        setenv("PLAIT_PACE", "10ms", 1);
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "PLAIT_PACE's latency (ns) is 20000000 on rank 0 and 10000000 on rank 1") != NULL);
    return 0;
}

static void ranks_with_another_pace_are_refused(void **state)
{
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = create_with_own_pace, .no_comm = true, .processes = true };

    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Times: what a wait that we impose must last at least -------------------------------------------- */

static int bounce(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { TURNS = 5 };
    const double begin = plait_clock();
    int ball = 0;

    for (int i = 0; i < TURNS; i++) {
        CHECK(rank != 0 || plait_send(*comm, &ball, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
        CHECK(plait_recv(*comm, &ball, 1, PLAIT_INT32, 1 - rank, NULL) == PLAIT_OK);
        CHECK(ball == (int)(2 * (uint32_t)i + 1 - rank));
        ball++;
        CHECK(rank == 0 || plait_send(*comm, &ball, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    }
    CHECK(rank == 1 || plait_clock() - begin >= 2 * TURNS * LATENCY);
    return 0;
}

static void every_message_takes_the_latency(void **state)
{
    run_as(2, 1, bounce);
    run_as(1, 2, bounce);
}

/* All eight bytes would go the eager way, which no link sees. */
static int sum_little(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const double begin = plait_clock();
    struct plait_comm_stats stats;
    struct plait_choice choice;
    float x[2] = { 1, 2 };

    CHECK(plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE, .inplace = true }, 2, PLAIT_FLOAT32,
                            PLAIT_SUM, NULL, &choice) == PLAIT_OK);
    CHECK(strcmp(choice.path, "engine") == 0);
    CHECK(plait_allreduce(*comm, x, x, 2, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(x[0] == 3 && x[1] == 6);
    CHECK(plait_clock() - begin >= LATENCY);
    plait_comm_stats(*comm, &stats);
    CHECK(stats.messages > 0);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK && plait_clock() - begin >= 2 * LATENCY);
    return 0;
}

static void the_eager_path_is_not_a_way_around(void **state)
{
    run_as(3, 1, sum_little);
}

static int send_and_leave(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int x = 5;

    if (rank == 0) {
        CHECK(plait_send(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
        *comm = NULL;
        return 0;
    }
    CHECK(plait_recv(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK && x == 5);
    return 0;
}

/* Its receiver took a rank that had left for one that never sent, as it looks after 50 ms of waiting. */
static void a_message_arrives_although_its_sender_has_left(void **state)
{
    set("300ms", "1");
    run_as(2, 1, send_and_leave);
}

static int meet(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int slept = 0;

    for (int k = 0; k < 30 && !slept; k++) { /* a rank that gets no processor sees the message at once */
        const int own = stats_of(*comm).sleeps >= 2;
        CHECK(plait_allreduce(*comm, &own, &slept, 1, PLAIT_INT32, PLAIT_MIN, NULL) == PLAIT_OK);
    }
    CHECK(slept);
    return 0;
}

static void who_waits_long_for_a_message_sleeps(void **state)
{
    set("150ms", "1");
    run_as(2, 1, meet);
}

/* ---- One link over another that counts ---------------------------------------------------------------- */

struct counting {
    struct plait_link link;
    unsigned narrived, nrelease;
};

static const void *count_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                                 size_t *bytes)
{
    struct counting *c = (void *)link;

    c->narrived++;
    *bytes = 1000;
    return fingerprint == 7 && number < 4 ? landing : NULL;
}

static void count_release(struct plait_link *link, uint32_t number)
{
    ((struct counting *)(void *)link)->nrelease++;
}

static void forget(struct plait_link *link)
{
}

static const struct plait_transport counting_transport = {
    .name = "counting", .arrived = count_arrived, .release = count_release, .disconnect = forget
};

/* Seconds until `number` is there. */
static double wait_for(struct plait_link *link, uint32_t number, void *landing)
{
    const double begin = plait_clock();
    size_t bytes = 1000;

    while (link->transport->arrived(link, number, 7, landing, &bytes) == NULL)
        ;
    assert_int_equal(bytes, 1000);
    return plait_clock() - begin;
}

static void a_message_is_taken_once_from_the_link_below(void **state)
{
    const struct plait_pace pace = { .latency = 5000000 };
    struct counting below = { .link.transport = &counting_transport };
    struct plait_link *link = plait_paced_link(&below.link, &pace);
    char landing[1000];
    size_t bytes = 1000;

    assert_non_null(link);
    assert_null(link->transport->arrived(link, 9, 7, landing, &bytes)); /* it has not come: asked for again */
    assert_int_equal(below.narrived, 1);
    assert_true(wait_for(link, 0, landing) >= 0.005);
    assert_int_equal(below.narrived, 2);
    assert_int_equal(below.nrelease, 0);
    link->transport->release(link, 0);
    assert_int_equal(below.nrelease, 1);
    link->transport->disconnect(link);
}

/* 1000 bytes at 100 kB/s take 10 ms each: three that come at once, 30 ms. */
static void messages_pass_a_link_one_after_the_other(void **state)
{
    const struct plait_pace pace = { .bandwidth = 100000 };
    struct counting below = { .link.transport = &counting_transport };
    struct plait_link *link = plait_paced_link(&below.link, &pace);
    const double begin = plait_clock();
    char landing[1000];
    size_t bytes = 1000;

    assert_non_null(link);
    for (uint32_t i = 0; i < 3; i++)
        assert_null(link->transport->arrived(link, i, 7, landing, &bytes));
    wait_for(link, 2, landing);
    assert_true(plait_clock() - begin >= 0.03);
    assert_int_equal(below.narrived, 3);
    link->transport->disconnect(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_pace_is_refused_unless_it_is_said_to_be_for_tests, clear),
        cmocka_unit_test_setup_teardown(ranks_with_another_pace_are_refused, slow_down, clear),
        cmocka_unit_test_setup_teardown(every_message_takes_the_latency, slow_down, clear),
        cmocka_unit_test_setup_teardown(the_eager_path_is_not_a_way_around, slow_down, clear),
        cmocka_unit_test_setup_teardown(a_message_arrives_although_its_sender_has_left, slow_down, clear),
        cmocka_unit_test_setup_teardown(who_waits_long_for_a_message_sleeps, slow_down, clear),
        cmocka_unit_test(a_message_is_taken_once_from_the_link_below),
        cmocka_unit_test(messages_pass_a_link_one_after_the_other),
    };

    return cmocka_run_group_tests_name("paced", tests, NULL, NULL);
}
