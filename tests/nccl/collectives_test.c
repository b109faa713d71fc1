/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does with NCCL on the host's memory: every collective, messages, groups. It is compiled with NVIDIA's
 * nccl.h where that is at hand, else with ours, and linked with libnccl.so.2.
 */
#include "unit_ranks.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 1000
#define MOST  8

static void fill(float *to, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)((i * 7 + (size_t)rank * 13) % 32);
}

static float sum_at(size_t i, int nrank)
{
    float sum = 0;

    for (int r = 0; r < nrank; r++)
        sum += (float)((i * 7 + (size_t)r * 13) % 32);
    return sum;
}

/* ---- Each collective ----------------------------------------------------------------------------------------- */

static int reduce_things(ncclComm_t *comm, int rank, int nrank)
{
    static _Thread_local float in[MOST * COUNT], out[MOST * COUNT];
    const size_t n = (size_t)nrank * COUNT;

    fill(in, n, rank);
    OK(ncclAllReduce(in, out, n, ncclFloat, ncclSum, *comm, NULL));
    for (size_t i = 0; i < n; i++)
        CHECK(out[i] == sum_at(i, nrank));
    memcpy(out, in, sizeof in);
    OK(ncclAllReduce(out, out, n, ncclFloat, ncclMax, *comm, NULL));
    for (size_t i = 0; i < n; i++)
        CHECK(out[i] >= in[i]);
    memset(out, 0, sizeof out);
    OK(ncclReduce(in, out, n, ncclFloat, ncclSum, nrank - 1, *comm, NULL));
    for (size_t i = 0; i < n; i++)
        CHECK(out[i] == (rank == nrank - 1 ? sum_at(i, nrank) : 0));
    OK(ncclReduceScatter(in, out, COUNT, ncclFloat, ncclSum, *comm, NULL));
    for (size_t i = 0; i < COUNT; i++)
        CHECK(out[i] == sum_at((size_t)rank * COUNT + i, nrank));
    return 0;
}

static int move_things(ncclComm_t *comm, int rank, int nrank)
{
    static _Thread_local float in[MOST * COUNT], out[MOST * COUNT], of[COUNT];
    const size_t n = (size_t)nrank * COUNT;

    fill(in, n, rank);
    OK(ncclAllGather(in, out, COUNT, ncclFloat, *comm, NULL));
    for (int r = 0; r < nrank; r++) {
        fill(of, COUNT, r);
        CHECK(memcmp(out + r * COUNT, of, sizeof of) == 0);
    }
    memset(out, 0, sizeof out);
    OK(ncclBroadcast(rank == 0 ? in : NULL, out, COUNT, ncclFloat, 0, *comm, NULL));
    fill(of, COUNT, 0);
    CHECK(memcmp(out, of, sizeof of) == 0);
    memcpy(out, in, sizeof in);
    OK(ncclBcast(out, COUNT, ncclFloat, nrank - 1, *comm, NULL));
    fill(of, COUNT, nrank - 1);
    CHECK(memcmp(out, of, sizeof of) == 0);
    return 0;
}

/* Not in releases before 2.28. */
static int gather_and_scatter(ncclComm_t *comm, int rank, int nrank)
{
    static _Thread_local float in[MOST * COUNT], out[MOST * COUNT], of[MOST * COUNT];
    const size_t n = (size_t)nrank * COUNT;

    fill(in, n, rank);
    memset(out, 0, sizeof out);
    OK(ncclGather(in, out, COUNT, ncclFloat, 0, *comm, NULL));
    for (int r = 0; r < nrank && rank == 0; r++) {
        fill(of, COUNT, r);
        CHECK(memcmp(out + r * COUNT, of, COUNT * sizeof *of) == 0);
    }
    OK(ncclScatter(in, out, COUNT, ncclFloat, 0, *comm, NULL));
    fill(of, n, 0);
    CHECK(memcmp(out, of + rank * COUNT, COUNT * sizeof *of) == 0);
    OK(ncclAlltoAll(in, out, COUNT, ncclFloat, *comm, NULL));
    for (int r = 0; r < nrank; r++) {
        fill(of, n, r);
        CHECK(memcmp(out + r * COUNT, of + rank * COUNT, COUNT * sizeof *of) == 0);
    }
    return 0;
}

static int use_everything(ncclComm_t *comm, int rank, int nrank)
{
    int count = 0, mine = -1, device = -1;

    OK(ncclCommCount(*comm, &count));
    OK(ncclCommUserRank(*comm, &mine));
    OK(ncclCommCuDevice(*comm, &device));
    CHECK(count == nrank && mine == rank && device == 0);
    return reduce_things(comm, rank, nrank) || move_things(comm, rank, nrank) || gather_and_scatter(comm, rank, nrank);
}

static void every_collective_is_right_in_processes_threads_and_both(void **state)
{
    static const int shapes[][2] = { { 1, 1 }, { 2, 1 }, { 1, 3 }, { 3, 2 } };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_int_equal(
            ranks_run(&(struct ranks){ .nprocess = shapes[i][0], .nthread = shapes[i][1], .body = use_everything }), 0);
}

/* ---- In place on some ranks ----------------------------------------------------------------------------------- */

/* Bit r of `places`: rank r works in place. */
static int sum_and_move(ncclComm_t comm, int rank, int nrank, unsigned places, size_t count, int grouped)
{
    static _Thread_local float in[4][MOST * COUNT], out[4][MOST * COUNT], of[MOST * COUNT];
    const int here = places >> rank & 1;
    const size_t n = (size_t)nrank * count, part = (size_t)rank * count;

    for (int k = 0; k < 4; k++)
        fill(in[k], n, rank);
    fill(in[2] + part, count, rank);
    if (grouped)
        OK(ncclGroupStart());
    OK(ncclAllReduce(in[0], here ? in[0] : out[0], n, ncclFloat, ncclSum, comm, NULL));
    OK(ncclReduceScatter(in[1], here ? in[1] + part : out[1], count, ncclFloat, ncclSum, comm, NULL));
    OK(ncclAllGather(in[2] + part, here ? in[2] : out[2], count, ncclFloat, comm, NULL));
    OK(ncclAlltoAll(in[3], here ? in[3] : out[3], count, ncclFloat, comm, NULL));
    if (grouped)
        OK(ncclGroupEnd());
    const float *sum = here ? in[0] : out[0], *scattered = here ? in[1] + part : out[1],
                *gathered = here ? in[2] : out[2], *turned = here ? in[3] : out[3];
    for (size_t i = 0; i < n; i++)
        CHECK(sum[i] == sum_at(i, nrank));
    for (size_t i = 0; i < count; i++)
        CHECK(scattered[i] == sum_at(part + i, nrank));
    for (int r = 0; r < nrank; r++) {
        fill(of, n, r);
        CHECK(memcmp(gathered + (size_t)r * count, of, count * sizeof *of) == 0);
        CHECK(memcmp(turned + (size_t)r * count, of + part, count * sizeof *of) == 0);
    }
    return 0;
}

static int work_in_every_mixture_of_places(ncclComm_t *comm, int rank, int nrank)
{
    for (unsigned places = 0; places < 1u << nrank; places++)
        for (unsigned k = 0; k < 4; k++)
            if (sum_and_move(*comm, rank, nrank, places, k / 2 ? COUNT : 1, k % 2) != 0)
                return 1;
    return 0;
}

static void each_rank_may_work_in_place_or_not(void **state)
{
    static const char *const algorithms[][2] = { { NULL },
                                                 { "NCCL_ALGO=allreduce:ring", NULL },
                                                 { "NCCL_ALGO=allreduce:tree", NULL } };

    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
        for (int threads = 0; threads < 2; threads++)
            assert_int_equal(ranks_run(&(struct ranks){ .nprocess = threads ? 1 : 3,
                                                        .nthread = threads ? 4 : 1,
                                                        .body = work_in_every_mixture_of_places,
                                                        .environment = algorithms[i] }),
                             0);
}

/* ---- Types and operators --------------------------------------------------------------------------------------- */

/* The average of ones is one, in every type; so are their product, minimum and maximum. */
static int combine_every_type(ncclComm_t *comm, int rank, int nrank)
{
    unsigned char in[64 * 8], out[64 * 8];

    for (int type = 0; type < ncclNumTypes; type++)
        for (int op = ncclProd; op < ncclNumOps; op++) {
            for (size_t i = 0; i < 64; i++)
                put_one(in + i * type_sizes[type], type);
            memset(out, 0, sizeof out);
            OK(ncclAllReduce(in, out, 64, (ncclDataType_t)type, (ncclRedOp_t)op, *comm, NULL));
            CHECK(memcmp(in, out, 64 * type_sizes[type]) == 0);
        }
    return 0;
}

static int multiply_before(ncclComm_t *comm, int rank, int nrank)
{
    float in[COUNT], out[COUNT], scalar = 2, late = 4;
    ncclRedOp_t now, then;

    fill(in, COUNT, rank);
    OK(ncclRedOpCreatePreMulSum(&now, &scalar, ncclFloat, ncclScalarHostImmediate, *comm));
    OK(ncclRedOpCreatePreMulSum(&then, &late, ncclFloat, ncclScalarDevice, *comm));
    CHECK(now >= ncclNumOps && then >= ncclNumOps && now != then);
    scalar = 100; /* which has been read */
    late = 8;
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, now, *comm, NULL));
    for (size_t i = 0; i < COUNT; i++)
        CHECK(out[i] == 2 * sum_at(i, nrank));
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, then, *comm, NULL));
    for (size_t i = 0; i < COUNT; i++)
        CHECK(out[i] == 8 * sum_at(i, nrank));
    CHECK(ncclAllReduce(in, out, COUNT, ncclDouble, now, *comm, NULL) == ncclInvalidArgument); /* made for float */
    OK(ncclGroupStart());
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, now, *comm, NULL));
    OK(ncclRedOpDestroy(now, *comm)); /* as soon as the call has returned */
    OK(ncclGroupEnd());
    for (size_t i = 0; i < COUNT; i++)
        CHECK(out[i] == 2 * sum_at(i, nrank));
    CHECK(ncclAllReduce(in, out, COUNT, ncclFloat, now, *comm, NULL) == ncclInvalidArgument);
    CHECK(ncclRedOpDestroy(now, *comm) == ncclInvalidArgument);
    OK(ncclRedOpDestroy(then, *comm));
    return 0;
}

static int every_type_is_combined_by_every_operator_and_by_those_that_multiply_before(ncclComm_t *comm, int rank,
                                                                                      int nrank)
{
    return combine_every_type(comm, rank, nrank) || multiply_before(comm, rank, nrank);
}

/* ---- Messages and groups ----------------------------------------------------------------------------------------- */

static int messages_in_groups_do_not_wait_for_each_other(ncclComm_t *comm, int rank, int nrank)
{
    static _Thread_local float out[MOST][COUNT], in[MOST][COUNT], expected[COUNT];

    OK(ncclGroupStart());
    for (int r = 0; r < nrank; r++) { /* all receives behind all sends, to itself too */
        fill(out[r], COUNT, rank + r);
        OK(ncclSend(out[r], COUNT, ncclFloat, r, *comm, NULL));
    }
    OK(ncclGroupStart()); /* the outermost counts */
    for (int r = 0; r < nrank; r++)
        OK(ncclRecv(in[r], COUNT, ncclFloat, r, *comm, NULL));
    OK(ncclGroupEnd());
    OK(ncclGroupEnd());
    for (int r = 0; r < nrank; r++) {
        fill(expected, COUNT, rank + r);
        CHECK(memcmp(in[r], expected, sizeof expected) == 0);
    }
    if (rank < 2) { /* outside of groups, one waits for the other */
        OK(rank == 0 ? ncclSend(out[0], COUNT, ncclFloat, 1, *comm, NULL)
                     : ncclRecv(in[0], COUNT, ncclFloat, 0, *comm, NULL));
        CHECK(rank == 0 || memcmp(in[0], (fill(expected, COUNT, 0), expected), sizeof expected) == 0);
    }
    return 0;
}

/* One thread with all ranks of a comm. */
static int one_thread_may_hold_all_ranks_several_of_them_on_a_device(ncclComm_t *unused, int rank, int nrank)
{
    static float in[4][COUNT], out[4][COUNT];
    const int devices[4] = { 0, 0, 1, 3 }; /* two of them on one */
    ncclComm_t comms[4], parts[4];
    int device;

    OK(ncclCommInitAll(comms, 4, devices));
    OK(ncclCommCuDevice(comms[3], &device));
    CHECK(device == 3);
    OK(ncclGroupStart());
    for (int r = 0; r < 4; r++) {
        fill(in[r], COUNT, r);
        OK(ncclAllReduce(in[r], out[r], COUNT, ncclFloat, ncclSum, comms[r], NULL));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < 4; r++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(out[r][i] == sum_at(i, 4));
    OK(ncclGroupStart());
    for (int r = 0; r < 4; r++)
        OK(ncclCommSplit(comms[r], r % 2, -r, &parts[r], NULL));
    OK(ncclGroupEnd());
    for (int r = 0; r < 4; r++) {
        int mine, n;
        OK(ncclCommUserRank(parts[r], &mine));
        OK(ncclCommCount(parts[r], &n));
        CHECK(n == 2 && mine == (r < 2 ? 1 : 0)); /* by their keys */
    }
    /* Of two comms, in one group. */
    OK(ncclGroupStart());
    for (int r = 0; r < 4; r++) {
        OK(ncclAllReduce(in[r], out[r], COUNT, ncclFloat, ncclSum, parts[r], NULL));
        OK(ncclBcast(in[r], COUNT, ncclFloat, 2, comms[r], NULL));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < 4; r++)
        OK(ncclCommDestroy(parts[r]));
    for (int r = 0; r < 4; r++)
        OK(ncclCommDestroy(comms[r]));
    return 0;
}

static void the_version_is_that_of_the_interface(void **state)
{
    int version = 0;

    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_true(version >= NCCL_VERSION_CODE);
    assert_int_equal(pncclGetVersion(&version), ncclSuccess);
    assert_int_equal(ncclGetVersion(NULL), ncclInvalidArgument);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_that_of_the_interface),
        cmocka_unit_test(every_collective_is_right_in_processes_threads_and_both),
        cmocka_unit_test(each_rank_may_work_in_place_or_not),
        test_of_ranks(every_type_is_combined_by_every_operator_and_by_those_that_multiply_before, 2, 1),
        test_of_ranks(messages_in_groups_do_not_wait_for_each_other, 2, 2),
        test_of_ranks(one_thread_may_hold_all_ranks_several_of_them_on_a_device, 1, 1, .no_comm = 1),
    };
    return cmocka_run_group_tests_name("nccl collectives", tests, NULL, NULL);
}
