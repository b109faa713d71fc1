/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that aborts when it has finished: the others finish, too, and their next operation fails. */
#include "collective.h"
#include "ranks.h"
#include "tier.h"
#include "unit.h"

#include <plait/request.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NRANK 3
#define COUNT 300000

static int tries(void)
{
    return RANKS_ON_HOSTS || light() ? 20 : 200;
}

/* Any collective, small vectors and slices, blocking and as a request. */
static struct collective draw(int i)
{
    const enum plait_coll coll =
        i % (NCOLLECTIVE + 1) < NCOLLECTIVE ? collectives[i % (NCOLLECTIVE + 1)] : PLAIT_ALLREDUCE;
    const bool rooted = plait_geometry_of(coll, NRANK, 0, 0, 1).rooted;

    return (struct collective){ .coll = coll,
                                .type = PLAIT_FLOAT32,
                                .root = rooted ? (uint32_t)(i / 3 % NRANK) : 0,
                                .count = i % 2 ? COUNT / NRANK : 10 };
}

static int run_and_abort(struct plait_comm *comm, uint32_t rank, int i, char *const memory[4])
{
    const struct collective c = draw(i);
    const struct collective_buffers b = collective_place(&c, NRANK, rank, memory[0], memory[1]);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    const bool pending = i / 2 % 2;

    collective_fill(&c, NRANK, rank, b.in);
    collective_want(&c, NRANK, rank, memory[2], memory[3]);
    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    call.request = pending ? &request : NULL;
    CHECK(collective_call(comm, &c, b.in, b.out, call) == PLAIT_OK);
    CHECK(!pending || plait_wait(&request) == PLAIT_OK);
    if (rank == (uint32_t)i % NRANK)
        CHECK(plait_comm_abort(comm, "it is done") == PLAIT_OK);
    CHECK(b.out == NULL || collective_right(&c, NRANK, rank, b.out, memory[3]));
    if (rank != (uint32_t)i % NRANK) {
        CHECK(plait_barrier(comm, NULL) == PLAIT_ERR_FAILED);
        CHECK(strstr(plait_last_error(), "aborted by rank") != NULL &&
              strstr(plait_last_error(), "it is done") != NULL);
    }
    return 0;
}

static int abort_after_the_last(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char *memory[4];

    for (int k = 0; k < 4; k++)
        CHECK((memory[k] = calloc(COUNT, sizeof(float))) != NULL);
    for (int i = 0; i < tries(); i++) {
        struct plait_comm *own;
        CHECK(plait_comm_duplicate(*comm, "aborted", &own) == PLAIT_OK);
        CHECK(run_and_abort(own, rank, i, memory) == 0);
        plait_comm_destroy(own);
    }
    for (int k = 0; k < 4; k++)
        free(memory[k]);
    return 0;
}

static void the_others_finish_what_an_aborting_rank_has_finished(void **state)
{
    struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = abort_after_the_last, .limit = 200 };

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
