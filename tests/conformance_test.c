/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite over each transport. */
#include "conformance.h"
#include "unit_ranks.h"

#include <stdlib.h>
#include <string.h>

static bool run_local(const struct jobs *j)
{
    return jobs_run_oracle(j, 4711); /* another order than that of the expected results */
}

static bool run_processes(const struct jobs *j)
{
    return jobs_run(j, j->nrank, 1) == 0;
}

static bool run_threads(const struct jobs *j)
{
    return jobs_run(j, 1, j->nrank) == 0;
}

/* Pairs of threads, so that links of both kinds meet in one plan. */
static bool run_mixed(const struct jobs *j)
{
    return j->nrank % 2 != 0 || jobs_run(j, j->nrank / 2, 2) == 0;
}

static void conforms(const char *name, uint32_t least, uint32_t most, bool (*run)(const struct jobs *))
{
    const struct harness h = { name, least, most, run };
    assert_int_equal(conformance_run(&h), 0);
}

static void local_conforms(void **state)
{
    conforms("local", 1, 8, run_local);
}

static void shared_memory_between_processes_conforms(void **state)
{
    conforms("shm, processes", 1, 6, run_processes);
}

static void shared_memory_between_threads_conforms(void **state)
{
    conforms("shm, threads", 1, 8, run_threads);
}

static void shared_memory_between_processes_and_threads_conforms(void **state)
{
    conforms("shm, both", 4, 4, run_mixed);
    conforms("shm, both", 6, 6, run_mixed);
}

static void links_lend_and_land(void **state)
{
    assert_int_equal(conformance_links(2, 1), 0);
    assert_int_equal(conformance_links(1, 2), 0);
    setenv("PLAIT_CMA", "0", 1);
    const unsigned failed = conformance_links(2, 1);
    unsetenv("PLAIT_CMA");
    assert_int_equal(failed, 0);
}

/* Slowed down so little that the suite stays quick: what counts is that messages are held back at all. */
static void a_paced_transport_conforms(void **state)
{
    setenv("PLAIT_PACE", "2us,4GB/s", 1);
    setenv("PLAIT_FOR_TESTS", "1", 1);
    setenv("PLAIT_LOG", "error", 1);
    conforms("paced, processes", 1, 4, run_processes);
    conforms("paced, threads", 3, 3, run_threads);
    conforms("paced, both", 4, 4, run_mixed);
    const unsigned failed = conformance_links(2, 1); /* a longer message than expected was never read */
    unsetenv("PLAIT_PACE");
    unsetenv("PLAIT_FOR_TESTS");
    unsetenv("PLAIT_LOG");
    assert_int_equal(failed, 0);
}

/* ---- Bugs that were -------------------------------------------------------------------------------- */

/* A plan without deadlock hung when the first lane taken was more than a window behind the first one sent. */
static int a_plan_that_the_window_would_stop_is_refused(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int in[64] = { 1 }, out[64];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = "lanes:24";
    CHECK(plait_allreduce(*comm, in, out, 64, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_PLAN);
    CHECK(strstr(plait_last_error(), "'lanes:24' can deadlock with 3 ranks: a message overtakes 16 earlier ones") !=
          NULL);
    CHECK(plait_allreduce(*comm, in, out, 64, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK && out[0] == 3);
    return 0;
}

/* Copying no bytes from TMP that had no memory went through memcpy(NULL); the undefined sanitizer sees it. */
static int a_copy_of_an_empty_block_of_tmp_touches_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = "swap";
    CHECK(plait_allreduce(*comm, NULL, NULL, 0, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_conforms),
        cmocka_unit_test(shared_memory_between_processes_conforms),
        cmocka_unit_test(shared_memory_between_threads_conforms),
        cmocka_unit_test(shared_memory_between_processes_and_threads_conforms),
        cmocka_unit_test(links_lend_and_land),
        cmocka_unit_test(a_paced_transport_conforms),
        test_of_ranks(a_plan_that_the_window_would_stop_is_refused, 1, 3, .options.algorithms = conformance_algs),
        test_of_ranks(a_copy_of_an_empty_block_of_tmp_touches_nothing, 1, 2, .options.algorithms = conformance_algs),
    };

    return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}
