/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of one group become few: how many, which, and with which bits. Looks into the comm for Plait's counters. */
#include "comm.h"
#include "unit_ranks.h"

#include <stdlib.h>
#include <string.h>

#define NTENSOR 161
#define MOST    3000

static float in[NTENSOR][MOST], out[NTENSOR][MOST], again[NTENSOR][MOST]; /* ranks are processes */

static struct plait_comm_stats stats_of(ncclComm_t comm)
{
    struct plait_comm_stats s;

    plait_comm_stats(atomic_load(&comm->plait), &s);
    return s;
}

static size_t count_of(int tensor)
{
    return (size_t)(tensor * 37 % 50 == 0 ? 0 : tensor * 37 % MOST + 1);
}

static void fill(int rank)
{
    for (int t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < MOST; i++)
            in[t][i] = 1.0f / (float)(1 + (i * 7 + (size_t)t * 3 + (size_t)rank * 11) % 97); /* order matters */
}

static int reduce_all(ncclComm_t comm, int rank, float (*to)[MOST])
{
    OK(ncclGroupStart());
    for (int t = 0; t < NTENSOR; t++)
        OK(ncclAllReduce(in[t], to[t], count_of(t), ncclFloat, ncclSum, comm, NULL));
    OK(ncclGroupEnd());
    return 0;
}

/* Fused, and then one by one. */
static int compare(ncclComm_t *comm, int rank, int nrank)
{
    const struct plait_comm_stats before = stats_of(*comm);

    fill(rank);
    CHECK(reduce_all(*comm, rank, out) == 0);
    const struct plait_comm_stats fused = stats_of(*comm);
    for (int t = 0; t < NTENSOR; t++)
        OK(ncclAllReduce(in[t], again[t], count_of(t), ncclFloat, ncclSum, *comm, NULL));
    const struct plait_comm_stats single = stats_of(*comm);
    CHECK(single.operations - fused.operations == NTENSOR);
    CHECK(fused.operations - before.operations <= 5); /* those without elements are one each */
    CHECK(10 * (fused.messages - before.messages) < single.messages - fused.messages);
    for (int t = 0; t < NTENSOR; t++)
        CHECK(memcmp(out[t], again[t], count_of(t) * sizeof(float)) == 0);
    return 0;
}

static void many_all_reduces_of_a_group_are_few_messages_and_have_the_same_bits(void **state)
{
    static const char *const environment[] = { "PLAIT_REPRODUCIBLE=1", NULL };

    assert_int_equal(
        ranks_run(&(struct ranks){ .nprocess = 3, .nthread = 1, .body = compare, .environment = environment }), 0);
}

static int count_each(ncclComm_t *comm, int rank, int nrank)
{
    const struct plait_comm_stats before = stats_of(*comm);

    CHECK(reduce_all(*comm, rank, out) == 0);
    CHECK(stats_of(*comm).operations - before.operations == NTENSOR);
    return 0;
}

static void fusion_can_be_switched_off(void **state)
{
    static const char *const environment[] = { "PLAIT_NCCL_FUSION=0", NULL };

    assert_int_equal(
        ranks_run(&(struct ranks){ .nprocess = 2, .nthread = 1, .body = count_each, .environment = environment }), 0);
}

/* What differs in type, operator or comm is not mixed; other collectives keep their place; in place is as good. */
static int mix(ncclComm_t *comm, int rank, int nrank)
{
    float a[2][8], b[2][8], large[2][64];
    double c[2][8];
    float part[8], all[64];
    uint64_t operations;
    ncclComm_t other;

    OK(ncclCommSplit(*comm, 0, 0, &other, NULL));
    for (int i = 0; i < 64; i++) {
        a[i / 8 % 2][i % 8] = b[i / 8 % 2][i % 8] = large[0][i] = large[1][i] = (float)rank;
        c[i / 8 % 2][i % 8] = rank;
        part[i % 8] = (float)(10 * rank);
    }
    operations = stats_of(*comm).operations;
    OK(ncclGroupStart());
    for (int k = 0; k < 2; k++) {
        OK(ncclAllReduce(a[k], a[k], 8, ncclFloat, ncclSum, *comm, NULL));
        OK(ncclAllReduce(b[k], b[k], 8, ncclFloat, ncclMax, *comm, NULL));
        OK(ncclAllReduce(c[k], c[k], 8, ncclDouble, ncclSum, *comm, NULL));
        OK(ncclAllReduce(large[k], large[k], 64, ncclFloat, ncclSum, k == 0 ? *comm : other,
                         NULL)); /* more than fits */
    }
    OK(ncclAllGather(part, all, 8, ncclFloat, *comm, NULL));
    OK(ncclAllReduce(part, part, 8, ncclFloat, ncclSum, *comm, NULL));
    OK(ncclGroupEnd());
    CHECK(stats_of(*comm).operations - operations == 3 + 1 + 1 + 1);
    for (int i = 0; i < 16; i++) {
        CHECK(a[i / 8][i % 8] == (float)(nrank * (nrank - 1) / 2) && b[i / 8][i % 8] == (float)(nrank - 1));
        CHECK(c[i / 8][i % 8] == nrank * (nrank - 1) / 2);
    }
    for (int i = 0; i < 8 * nrank; i++)
        CHECK(all[i] == (float)(i / 8 * 10));
    OK(ncclCommDestroy(other));
    return 0;
}

static void only_what_is_alike_is_fused_and_the_order_of_collectives_stays(void **state)
{
    static const char *const environment[] = { "PLAIT_NCCL_FUSION=128", NULL };

    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 2, .nthread = 1, .body = mix, .environment = environment }),
                     0);
}

/* The calls that two ranks would fuse differ, though the sizes of the buckets do not. */
static int ranks_that_would_fuse_other_calls_are_told(ncclComm_t *comm, int rank, int nrank)
{
    const ncclRedOp_t ops[2][4] = { { ncclSum, ncclMax, ncclSum, ncclMax }, { ncclSum, ncclMax, ncclMax, ncclSum } };
    float x[4][8] = { { 0 } };
    ncclComm_t other;

    OK(ncclCommSplit(*comm, 0, 0, &other, NULL));
    OK(ncclGroupStart());
    for (int i = 0; i < 4; i++)
        OK(ncclAllReduce(x[i], x[i], 8, ncclFloat, ops[rank][i], other, NULL));
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(other), "call->mark") != NULL);
    ncclCommDestroy(other);
    OK(ncclGroupStart());
    OK(ncclAllReduce(x[0], x[0], rank == 0 ? 8 : 4, ncclFloat, ncclSum, *comm, NULL));
    OK(ncclAllReduce(x[1], x[1], rank == 0 ? 4 : 8, ncclFloat, ncclSum, *comm, NULL));
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(*comm), "call->mark") != NULL);
    return 0;
}

/* A factor is its rank's own, so what is equal here may be different there. */
static int multiply(ncclComm_t *comm, int rank, int nrank)
{
    float factors[2][4] = { { 2, 3, 2, 3 }, { 2, 3, 3, 2 } }, x[4][8], result[4][8];
    const uint64_t operations = stats_of(*comm).operations;
    ncclRedOp_t ops[4];

    for (int i = 0; i < 4; i++) {
        OK(ncclRedOpCreatePreMulSum(&ops[i], &factors[rank][i], ncclFloat, ncclScalarHostImmediate, *comm));
        for (int k = 0; k < 8; k++)
            x[i][k] = (float)(10 * i + rank);
    }
    OK(ncclGroupStart());
    for (int i = 0; i < 4; i++)
        OK(ncclAllReduce(x[i], result[i], 8, ncclFloat, ops[i], *comm, NULL));
    OK(ncclGroupEnd());
    CHECK(stats_of(*comm).operations - operations == 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++)
            CHECK(result[i][k] == factors[0][i] * (float)(10 * i) + factors[1][i] * (float)(10 * i + 1));
    return 0;
}

static void sums_with_factors_stay_single(void **state)
{
    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 2, .nthread = 1, .body = multiply }), 0);
    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 1, .nthread = 2, .body = multiply }), 0);
}

static int simulate(ncclComm_t *comm, int rank, int nrank)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    const uint64_t operations = stats_of(*comm).operations;

    info.estimatedTime = 7;
    OK(ncclGroupStart());
    OK(ncclAllReduce(in[0], out[0], MOST, ncclFloat, ncclSum, *comm, NULL));
    OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT && stats_of(*comm).operations == operations);
    info.magic = 0;
    OK(ncclGroupStart());
    OK(ncclAllReduce(in[0], out[0], MOST, ncclFloat, ncclSum, *comm, NULL));
    CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidUsage); /* it is over */
    return 0;
}

static void a_simulated_group_begins_nothing(void **state)
{
    assert_int_equal(ranks_run(&(struct ranks){ .nprocess = 2, .nthread = 1, .body = simulate }), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_all_reduces_of_a_group_are_few_messages_and_have_the_same_bits),
        cmocka_unit_test(fusion_can_be_switched_off),
        cmocka_unit_test(only_what_is_alike_is_fused_and_the_order_of_collectives_stays),
        test_of_ranks(ranks_that_would_fuse_other_calls_are_told, 2, 1, .careless = 1),
        cmocka_unit_test(sums_with_factors_stay_single),
        cmocka_unit_test(a_simulated_group_begins_nothing),
    };
    return cmocka_run_group_tests_name("nccl fusion", tests, NULL, NULL);
}
