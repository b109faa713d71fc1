/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that call other collectives than the all-reduce differently: whoever hears of it says so, and all are told, in
 * the call or later. (Of the all-reduce: failure_test.c; at random: the campaign.)
 */
#include "../lib/comm/record.h"

#include "ranks.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int disagree(struct plait_comm **comm, uint32_t rank, void *arg)
{
    size_t give[3] = { 10, 10, 10 }, take[3] = { 10, 10, 10 };
    int in[40] = { 0 }, out[40];

    take[1] = rank == 2 ? 20 : 10; /* rank 1 gives 10 */
    CHECK(plait_alltoallv(*comm, in, give, NULL, out, take, NULL, PLAIT_INT32, NULL) != PLAIT_OK ||
          plait_barrier(*comm, NULL) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "rank 1 sends 40 bytes where rank 2 expects 80") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

struct pair { /* of two ranks: elements that each gives the other, and that each expects */
    size_t give[2], take[2];
    const char *text, *other;
};

static int disagree_in_pair(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct pair *p = arg;
    const size_t give[2] = { rank == 1 ? p->give[1] : 3, rank == 0 ? p->give[0] : 3 };
    const size_t take[2] = { rank == 1 ? p->take[1] : 3, rank == 0 ? p->take[0] : 3 };
    int *in = calloc(1048580, sizeof *in), *out = calloc(1048580, sizeof *out);

    CHECK(in != NULL && out != NULL);
    CHECK(plait_alltoallv(*comm, in, give, NULL, out, take, NULL, PLAIT_INT32, NULL) != PLAIT_OK ||
          plait_barrier(*comm, NULL) != PLAIT_OK);
    if (strstr(plait_last_error(), p->text) == NULL && strstr(plait_last_error(), p->other) == NULL) {
        fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
        return 1;
    }
    plait_comm_destroy(*comm);
    *comm = NULL;
    free(in);
    free(out);
    return 0;
}

/* Two ranks know the largest block that goes: small ones take another way. */
static void two_ranks_whose_sizes_disagree_are_told(void **state)
{
    static const struct pair pairs[] = {
        { { 30, 10 }, { 20, 30 }, "rank 1 sends 40 bytes where rank 0 expects 80", "\n" },
        { { 10, 10 },
          { 20, 10 },
          "the largest block has 20 elements on rank 0 and 10 on rank 1",
          "the largest block has 10 elements on rank 1 and 20 on rank 0" },
        { { 5, 7 },
          { 100000, 5 },
          "the largest block has 100000 elements on rank 0 and 7 on rank 1",
          "the largest block has 7 elements on rank 1 and 100000 on rank 0" },
        { { 0, 7 },
          { 0, 0 },
          "the largest block has 0 elements on rank 0 and 7 on rank 1",
          "the largest block has 7 elements on rank 1 and 0 on rank 0" },
        { { 100000, 7 }, { 8, 100000 }, "rank 1 sends 28 bytes where rank 0 expects 32", "\n" },
        { { 190000, 199000 }, /* several slices, the first of which are equal */
          { 199000, 180000 },
          "rank 0 sends 760000 bytes where rank 1 expects 720000",
          "\n" },
        { { 524288, 1048576 }, /* whole slices: only the block's size tells */
          { 1048576, 262144 },
          "rank 0 sends 2097152 bytes where rank 1 expects 1048576",
          "\n" },
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct ranks r = {
            .nprocess = 2, .nthread = 1, .body = disagree_in_pair, .arg = (void *)(uintptr_t)&pairs[i]
        };
        assert_int_equal(ranks_run(&r), 0);
    }
}

struct
    triple { /* of three ranks: elements that rank 1 gives rank 2, and that rank 2 expects; others go small or large ways */
    size_t give, take;
    size_t usual;
    enum plait_coll coll;
};

static enum plait_status call_triple(struct plait_comm *comm, const struct triple *t, uint32_t rank, const int *in,
                                     int *out)
{
    const size_t give[3] = { t->usual, t->usual, rank == 1 ? t->give : t->usual };
    const size_t take[3] = { t->usual, rank == 2 ? t->take : t->usual, t->usual };

    if (t->coll == PLAIT_GATHER) /* to rank 2 */
        return plait_gatherv(comm, in, rank == 1 ? t->give : t->usual, out, take, NULL, PLAIT_INT32, 2, NULL);
    if (t->coll == PLAIT_SCATTER) /* from rank 1 */
        return plait_scatterv(comm, in, give, NULL, out, rank == 2 ? t->take : t->usual, PLAIT_INT32, 1, NULL);
    return plait_alltoallv(comm, in, give, NULL, out, take, NULL, PLAIT_INT32, NULL);
}

static int disagree_in_triple(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct triple *t = arg;
    int *in = calloc(1 << 20, sizeof *in), *out = calloc(1 << 20, sizeof *out);
    char text[100];

    CHECK(in != NULL && out != NULL);
    snprintf(text, sizeof text, "rank 1 sends %zu bytes where rank 2 expects %zu", t->give * sizeof *in,
             t->take * sizeof *in);
    CHECK(call_triple(*comm, t, rank, in, out) != PLAIT_OK || plait_barrier(*comm, NULL) != PLAIT_OK);
    if (strstr(plait_last_error(), text) == NULL) {
        fprintf(stderr, "rank %u: %s instead of %s\n", rank, plait_last_error(), text);
        return 1;
    }
    plait_comm_destroy(*comm);
    *comm = NULL;
    free(in);
    free(out);
    return 0;
}

/* Small blocks take another way than large ones: each end may take it for the other kind. */
static void ranks_that_disagree_on_whether_a_block_is_small_are_told(void **state)
{
    static const enum plait_coll colls[] = { PLAIT_GATHER, PLAIT_SCATTER, PLAIT_ALLTOALL };
    static const size_t sizes[] = { 0, 7, 8, 100000, 200000 }, usual[] = { 3, 60000 };

    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
            for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++)
                for (size_t u = 0; u < sizeof usual / sizeof *usual && a != b; u++) {
                    struct triple t = { sizes[a], sizes[b], usual[u], colls[i] };
                    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = disagree_in_triple, .arg = &t };
                    assert_int_equal(ranks_run(&r), 0);
                }
}

/* Ranks that count other slices would never wait for the same message. */
static int differ_in_slices(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[3] = { rank == 2 ? 9000000 : 3000000, 4, 4 };
    int *in = calloc(9000008, sizeof *in), *out = calloc(9000008, sizeof *out);

    CHECK(in != NULL && out != NULL);
    CHECK(plait_reduce_scatterv(*comm, in, out, counts, NULL, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), " and 9000000 on rank 2") != NULL ||
          strstr(plait_last_error(), "the largest block has 9000000 elements on rank 2 and 3000000 on rank ") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    free(in);
    free(out);
    return 0;
}

static int differ_in_root(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int in[4] = { 0 }, out[4];

    CHECK(plait_broadcast(*comm, in, out, 4, PLAIT_INT32, rank == 2 ? 1 : 0, NULL) != PLAIT_OK ||
          plait_barrier(*comm, NULL) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "root is ") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* Of the blocks each rank knows its own root's. */
static int differ_in_root_and_sizes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[2] = { 3, 5 };
    int in[8] = { 0 }, out[8];

    CHECK(plait_scatterv(*comm, in, counts, NULL, out, counts[rank], PLAIT_INT32, rank, NULL) != PLAIT_OK ||
          plait_barrier(*comm, NULL) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "root is ") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static int differ_in_form(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[3] = { 4, 4, 4 };
    int in[4] = { 0 }, out[12];

    CHECK((rank == 1 ? plait_allgatherv(*comm, in, out, counts, NULL, PLAIT_INT32, NULL)
                     : plait_allgather(*comm, in, out, 4, PLAIT_INT32, NULL)) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "allgather #1 (4 int32, direct)") != NULL ||
          strstr(plait_last_error(), "allgatherv #1 (int32, direct)") != NULL);
    CHECK(strstr(plait_last_error(), " and allgatherv on rank 1") != NULL ||
          strstr(plait_last_error(), "collective is allgatherv on rank 1 and allgather on rank ") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static int differ_in_collective(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int in[12] = { 0 }, out[12];

    if (rank == 1)
        CHECK(plait_gather(*comm, in, out, 4, PLAIT_INT32, 0, NULL) != PLAIT_OK ||
              plait_barrier(*comm, NULL) != PLAIT_OK);
    else
        CHECK(plait_allgather(*comm, in, out, 4, PLAIT_INT32, NULL) != PLAIT_OK ||
              plait_barrier(*comm, NULL) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "collective is ") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* Small messages are sent without waiting: nobody waits in the call that differs. */
static int differ_in_root_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int calls = *(const int *)arg;
    enum plait_status status = PLAIT_OK;

    for (int k = 0; k < calls && status == PLAIT_OK; k++) {
        int in[4] = { k, k, k, k }, out[4] = { -1, -1, -1, -1 };
        status = plait_broadcast(*comm, in, out, 4, PLAIT_INT32, k == 1 && rank == 2 ? 2 : 0, NULL);
        if (status == PLAIT_OK)
            CHECK(out[0] == k && out[3] == k);
    }
    const enum plait_status left = plait_comm_destroy(*comm);
    *comm = NULL;
    CHECK(left == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "broadcast #2") != NULL && strstr(plait_last_error(), "root is ") != NULL);
    return 0;
}

/* The message of one call was taken for that of the next, and what it held for the result. */
static void a_call_that_differs_is_told_though_nobody_waited_in_it(void **state)
{
    int calls = 1000;
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = differ_in_root_once, .arg = &calls };

    assert_int_equal(ranks_run(&r), 0);
    calls = 2; /* nothing follows it but leaving */
    assert_int_equal(ranks_run(&r), 0);
}

static int differ_in_root_before_others(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int nothing[4] = { 0 };
    enum plait_status status;
    int in[4] = { 0 }, out[4];

    status = plait_broadcast(*comm, nothing, out, 4, PLAIT_INT32, rank == 1 ? 1 : 0, NULL);
    for (unsigned k = 0; k < PLAIT_NRECORD + 10 && status == PLAIT_OK; k++)
        status = plait_allreduce(*comm, in, out, 4, PLAIT_INT32, PLAIT_SUM, NULL);
    CHECK(status != PLAIT_OK && strstr(plait_last_error(), "broadcast #1") != NULL &&
          strstr(plait_last_error(), "root is ") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* The ring forgot the broadcast, as only rooted calls and waits looked back; no rank was ever told. */
static void a_rooted_call_that_differs_is_told_by_the_calls_that_follow(void **state)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = differ_in_root_before_others };

    assert_int_equal(ranks_run(&r), 0);
    r.nprocess = 2;
    assert_int_equal(ranks_run(&r), 0);
}

static void sizes_that_disagree_are_named(void **state)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = disagree };

    assert_int_equal(ranks_run(&r), 0);
    r.body = differ_in_slices;
    assert_int_equal(ranks_run(&r), 0);
}

static void ranks_that_differ_are_told(void **state)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = differ_in_root };

    assert_int_equal(ranks_run(&r), 0);
    r = (struct ranks){ .nprocess = 2, .nthread = 1, .body = differ_in_root_and_sizes };
    assert_int_equal(ranks_run(&r), 0);
    r = (struct ranks){ .nprocess = 3, .nthread = 1, .body = differ_in_form };
    assert_int_equal(ranks_run(&r), 0);
    r.body = differ_in_collective;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_disagree_are_named),
        cmocka_unit_test(two_ranks_whose_sizes_disagree_are_told),
        cmocka_unit_test(ranks_that_disagree_on_whether_a_block_is_small_are_told),
        cmocka_unit_test(ranks_that_differ_are_told),
        cmocka_unit_test(a_call_that_differs_is_told_though_nobody_waited_in_it),
        cmocka_unit_test(a_rooted_call_that_differs_is_told_by_the_calls_that_follow),
    };
    return cmocka_run_group_tests_name("differ", tests, NULL, NULL);
}
