/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that the runs of a test program share (kept.h): which they are, what fails, dies and hangs in them. */
#include "child.h"
#include "kept.h"
#include "ranks.h"
#include "unit.h"

#include <plait/coll.h>

#include <string.h>

enum { MOST = 4 };

static struct shared {
    pid_t pids[MOST]; /* of the last run */
    _Atomic int runs;
} * shared;

static int note(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    shared->pids[rank] = getpid();
    shared->runs++;
    return *(const int *)arg;
}

static unsigned run_within(double seconds, uint32_t nprocess, uint32_t nthread,
                           int (*body)(struct plait_comm **, uint32_t, void *), int arg)
{
    const struct ranks r = {
        .nprocess = nprocess, .nthread = nthread, .limit = seconds, .body = body, .arg = &arg, .processes = true
    };

    return ranks_run(&r);
}

static unsigned run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *), int arg)
{
    return run_within(60, nprocess, nthread, body, arg);
}

static void runs_share_their_processes(void **state)
{
    pid_t first[MOST];

    assert_int_equal(run(2, 1, note, 0), 0);
    memcpy(first, shared->pids, sizeof first);
    assert_int_not_equal(first[0], first[1]);
    assert_int_equal(run(4, 1, note, 0), 0);
    assert_true(shared->pids[0] == first[0] && shared->pids[1] == first[1]);
    assert_int_equal(run(1, 4, note, 0), 0);
    for (int r = 0; r < 4; r++)
        assert_int_equal(shared->pids[r], first[0]);
    assert_int_equal(shared->runs, 2 + 4 + 4);
}

static void every_rank_that_fails_is_counted_in_all_of_them(void **state)
{
    assert_int_equal(run(3, 1, note, 1), 3);
    assert_int_equal(run(2, 2, note, 1), 4);
    assert_int_equal(run(3, 1, note, 0), 0);
}

static int die(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    CHECK(plait_barrier(*comm, NULL) != PLAIT_OK);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void who_dies_is_made_anew(void **state)
{
    pid_t before[MOST];

    assert_int_equal(run(3, 1, note, 0), 0);
    memcpy(before, shared->pids, sizeof before);
    assert_int_equal(run(3, 1, die, 0), 1);
    assert_int_equal(run(3, 1, note, 0), 0);
    assert_true(shared->pids[0] == before[0] && shared->pids[1] != before[1] && shared->pids[2] == before[2]);
}

static int hang(struct plait_comm **comm, uint32_t rank, void *arg)
{
    while (plait_comm_nrank(*comm) == 2)
        usleep(1000);
    return 0;
}

static void who_hangs_is_killed_and_made_anew(void **state)
{
    const pid_t before = shared->pids[0];

    assert_true(run_within(0.5, 2, 1, hang, 0) >= 2);
    assert_int_equal(run(2, 1, note, 0), 0);
    assert_int_not_equal(shared->pids[0], before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_share_their_processes),
        cmocka_unit_test(every_rank_that_fails_is_counted_in_all_of_them),
        cmocka_unit_test(who_dies_is_made_anew),
        cmocka_unit_test(who_hangs_is_killed_and_made_anew),
    };

    setenv("PLAIT_TEST_KEPT", "1", 1);
    shared = shared_memory(sizeof *shared);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
