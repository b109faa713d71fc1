/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that aborts when it has finished: the others finish, too, and their next operation fails. */
#include "ranks.h"
#include "tier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NRANK 3
#define COUNT 300000

static int tries(void)
{
    return RANKS_ON_HOSTS || light() ? 20 : 200;
}

/* Small vectors, slices, memory of the library's and not. */
static int sum_and_abort(struct plait_comm *comm, uint32_t rank, int i, float *in, float *out)
{
    const size_t count = i % 2 ? COUNT : 10;

    for (size_t k = 0; k < count; k++)
        in[k] = (float)(rank + 1);
    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    CHECK(plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    if (rank == (uint32_t)i % NRANK)
        CHECK(plait_comm_abort(comm, "it is done") == PLAIT_OK);
    for (size_t k = 0; k < count; k++)
        CHECK(out[k] == NRANK * (NRANK + 1) / 2);
    if (rank != (uint32_t)i % NRANK) {
        CHECK(plait_barrier(comm, NULL) == PLAIT_ERR_FAILED);
        CHECK(strstr(plait_last_error(), "aborted by rank") != NULL &&
              strstr(plait_last_error(), "it is done") != NULL);
    }
    return 0;
}

static int abort_after_the_last(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);

    (void)arg;
    CHECK(in != NULL && out != NULL);
    for (int i = 0; i < tries(); i++) {
        struct plait_comm *own;
        CHECK(plait_comm_duplicate(*comm, "aborted", &own) == PLAIT_OK);
        CHECK(sum_and_abort(own, rank, i, in, out) == 0);
        plait_comm_destroy(own);
    }
    free(in);
    free(out);
    return 0;
}

static void the_others_finish_what_an_aborting_rank_has_finished(void **state)
{
    struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = abort_after_the_last, .limit = 200 };

    (void)state;
    setenv("PLAIT_LOG_FILE", "/dev/null", 1); /* two lines for each abort */
    for (int cma = 0; cma < 2; cma++) {
        setenv("PLAIT_CMA", cma ? "1" : "0", 1);
        assert_int_equal(ranks_run(&r), 0);
    }
    r.nprocess = 1;
    r.nthread = NRANK;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_finish_what_an_aborting_rank_has_finished),
    };
    return cmocka_run_group_tests_name("abort", tests, NULL, NULL);
}
