/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's interface used wrongly: an answer, a text that names it, and nothing else happens. */
#include "device.h"
#include "unit_ranks.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define SAYS(text) CHECK(strstr(ncclGetLastError(NULL), text) != NULL)

static int wrong_arguments_are_named_and_change_nothing(ncclComm_t *comm, int rank, int nrank)
{
    float in[4] = { 1, 2, 3, 4 }, out[4];
    ncclComm_t none = NULL;
    ncclRedOp_t op;
    int n;

    CHECK(ncclAllReduce(in, out, 4, ncclFloat, ncclSum, NULL, NULL) == ncclInvalidArgument);
    SAYS("not a comm");
    CHECK(ncclAllReduce(in, out, 4, ncclNumTypes, ncclSum, *comm, NULL) == ncclInvalidArgument);
    SAYS("ncclAllReduce: datatype is 12; types are 0 to 11");
    CHECK(ncclAllReduce(in, out, 4, ncclFloat, (ncclRedOp_t)5, *comm, NULL) == ncclInvalidArgument);
    SAYS("5 is not an operator");
    CHECK(ncclAllReduce(in, out, 4, ncclFloat, ncclSum, *comm, (cudaStream_t)0x1) == ncclInvalidUsage);
    SAYS("ncclAllReduce: stream is 0x1");
    CHECK(ncclBroadcast(in, out, 4, ncclFloat, nrank, *comm, NULL) == ncclInvalidArgument);
    SAYS("root is 2; ranks are 0 to 1");
    CHECK(ncclSend(in, 4, ncclFloat, -1, *comm, NULL) == ncclInvalidArgument);
    SAYS("peer is -1");
    CHECK(ncclAllReduce(NULL, out, 4, ncclFloat, ncclSum, *comm, NULL) == ncclInvalidArgument);
    SAYS("sendbuff is NULL");
    CHECK(ncclAllReduce(in, NULL, 4, ncclFloat, ncclSum, *comm, NULL) == ncclInvalidArgument);
    SAYS("recvbuff is NULL");
    CHECK(ncclAlltoAll(in, in + 1, 1, ncclFloat, *comm, NULL) == ncclInvalidArgument);
    SAYS(" bytes and recvbuff 0x");
    SAYS("they must be apart or equal");
    CHECK(ncclAllReduce(in, in + 1, 3, ncclFloat, ncclSum, *comm, NULL) == ncclInvalidArgument); /* they overlap */
    CHECK(ncclRedOpCreatePreMulSum(&op, in, ncclFloat, (ncclScalarResidence_t)2, *comm) == ncclInvalidArgument);
    CHECK(ncclCommCount(*comm, NULL) == ncclInvalidArgument);
    SAYS("ncclCommCount: count is NULL");
    CHECK(ncclCommUserRank(*comm, NULL) == ncclInvalidArgument);
    SAYS("ncclCommUserRank: rank is NULL");
    CHECK(ncclCommGetAsyncError(*comm, NULL) == ncclInvalidArgument);
    CHECK(ncclGetUniqueId(NULL) == ncclInvalidArgument);
    CHECK(ncclCommInitRank(&none, 2, ranks_id[1], 2) == ncclInvalidArgument && none == NULL);
    SAYS("rank is 2; it is 0 to 1");
    CHECK(ncclCommInitRank(NULL, 2, ranks_id[1], 0) == ncclInvalidArgument);
    SAYS("ncclCommInitRank: comm is NULL");
    CHECK(ncclCommInitRank(&none, 0, ranks_id[1], 0) == ncclInvalidArgument && none == NULL);
    SAYS("nranks is 0; it is 1 to");
    CHECK(ncclCommInitRank(&none, 4097, ranks_id[1], 0) == ncclInvalidArgument && none == NULL);
    SAYS("nranks is 4097; it is 1 to 4096");
    CHECK(ncclCommInitRankScalable(&none, 2, 0, 0, ranks_id, NULL) == ncclInvalidArgument);
    SAYS("nId is 0");
    CHECK(ncclCommInitRankScalable(&none, 2, 0, 1, NULL, NULL) == ncclInvalidArgument);
    SAYS("commIds is NULL");
    CHECK(ncclCommInitAll(NULL, 1, NULL) == ncclInvalidArgument);
    SAYS("comm is NULL");
    CHECK(ncclCommSplit(*comm, -5, 0, &none, NULL) == ncclInvalidArgument && none == NULL);
    SAYS("color is -5");
    CHECK(ncclCommSplit(*comm, 0, 0, NULL, NULL) == ncclInvalidArgument);
    SAYS("newcomm is NULL");
    CHECK(ncclRedOpCreatePreMulSum(NULL, in, ncclFloat, ncclScalarHostImmediate, *comm) == ncclInvalidArgument);
    SAYS("op is NULL");
    CHECK(ncclCommInitAll(&none, 1, (int[]){ -1 }) == ncclInvalidArgument && none == NULL);
    SAYS("device -1");
    CHECK(ncclCommInitAll(&none, 0, NULL) == ncclInvalidArgument);
    CHECK(strcmp(ncclGetErrorString((ncclResult_t)99), "unknown result code") == 0);
    CHECK(strcmp(ncclGetErrorString(ncclInvalidUsage), "invalid usage (run with NCCL_DEBUG=WARN for details)") == 0);
    OK(ncclAllReduce(in, out, 4, ncclFloat, ncclSum, *comm, NULL)); /* the comm is as it was */
    CHECK(out[3] == 8);
    OK(ncclCommCount(*comm, &n));
    return rank < n ? 0 : 1;
}

static int a_comm_that_was_destroyed_is_known_for_it(ncclComm_t *comm, int rank, int nrank)
{
    ncclComm_t gone = *comm, one;
    ncclResult_t state;
    float x = 1;
    int n;

    *comm = NULL;
    OK(ncclCommDestroy(gone));
    for (int i = 0; i < 100; i++) { /* other comms do not take its place */
        OK(ncclCommInitAll(&one, 1, NULL));
        OK(ncclCommDestroy(one));
    }
    CHECK(ncclCommDestroy(gone) == ncclInvalidArgument);
    SAYS("was destroyed or aborted");
    CHECK(ncclCommAbort(gone) == ncclInvalidArgument);
    CHECK(ncclCommCount(gone, &n) == ncclInvalidArgument);
    CHECK(ncclCommGetAsyncError(gone, &state) == ncclInvalidArgument);
    CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, gone, NULL) == ncclInvalidArgument);
    CHECK(ncclCommSplit(gone, 0, 0, &one, NULL) == ncclInvalidArgument);
    SAYS("ncclCommSplit: comm");
    CHECK(strstr(ncclGetLastError(gone), "ncclCommSplit: comm") != NULL); /* whatever the comm is: the last error */
    SAYS("ncclCommSplit: comm");
    return 0;
}

/* The product of such a count and the size of a rank's part is 0 again: it was copied before anybody looked. */
static int an_all_to_all_in_place_of_too_much_is_refused_as_one_that_is_not(ncclComm_t *comm, int rank, int nrank)
{
    float x[4] = { 1, 2, 3, 4 }, y[4];
    const size_t counts[] = { (size_t)1 << 61, (size_t)1 << 62, SIZE_MAX, (size_t)1 << 60 };
    char text[1024];

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        CHECK(ncclAlltoAll(x, y, counts[i], ncclFloat, *comm, NULL) == ncclInvalidArgument);
        snprintf(text, sizeof text, "%s", ncclGetLastError(*comm));
        CHECK(ncclAlltoAll(x, x, counts[i], ncclFloat, *comm, NULL) == ncclInvalidArgument);
        CHECK(strcmp(text, ncclGetLastError(*comm)) == 0 && strstr(text, "more than fits in memory") != NULL);
        OK(ncclGroupStart());
        OK(ncclAlltoAll(x, x, counts[i], ncclFloat, *comm, NULL));
        CHECK(ncclGroupEnd() == ncclInvalidArgument);
        SAYS("more than fits in memory");
    }
    CHECK(x[0] == 1 && x[3] == 4);
    OK(ncclAlltoAll(x, x, 4 / (size_t)nrank, ncclFloat, *comm, NULL)); /* the comm is as it was */
    return 0;
}

/* ---- Groups ---------------------------------------------------------------------------------------------------- */

struct left {
    ncclComm_t comm;
    float *x;
};

static void *leave_a_group_open(void *arg)
{
    struct left *l = arg;

    if (ncclGroupStart() != ncclSuccess ||
        ncclAllReduce(l->x, l->x, 1, ncclFloat, ncclSum, l->comm, NULL) != ncclSuccess)
        return NULL;
    return ncclCommDestroy(l->comm) == ncclInvalidUsage ? arg : NULL; /* the group uses it */
}

/* Where the new comm was to be put goes with the thread. */
static void *leave_a_split_open(void *arg)
{
    const size_t page = 4096;
    ncclComm_t *part = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ncclComm_t comm = arg;

    if (part == MAP_FAILED || ncclGroupStart() != ncclSuccess || ncclCommSplit(comm, 0, 0, part, NULL) != ncclSuccess ||
        *part == NULL)
        return NULL;
    return munmap(part, page) == 0 ? arg : NULL;
}

static int groups_with_an_error_or_left_open_do_nothing(ncclComm_t *comm, int rank, int nrank)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    float x = 1, y = 1;
    struct left left = { *comm, &x };
    ncclComm_t part;
    pthread_t thread;
    void *done;

    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidUsage);
    OK(ncclGroupStart());
    OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, *comm, NULL));
    CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, (ncclRedOp_t)77, *comm, NULL) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidArgument && x == 1); /* nothing of it has begun */
    OK(ncclGroupStart());
    CHECK(ncclAllReduce(&y, &y, 1, ncclFloat, ncclSum, *comm, (cudaStream_t)&x) == ncclInvalidUsage);
    OK(ncclCommSplit(*comm, 0, 0, &part, NULL));
    CHECK(ncclGroupEnd() == ncclInvalidUsage && part == NULL);
    CHECK(pthread_create(&thread, NULL, leave_a_group_open, &left) == 0);
    pthread_join(thread, &done);
    CHECK(done != NULL);
    CHECK(pthread_create(&thread, NULL, leave_a_split_open, *comm) == 0);
    pthread_join(thread, &done);
    CHECK(done != NULL);
    OK(ncclAllReduce(&y, &y, 1, ncclFloat, ncclSum, *comm, NULL)); /* as if that had never been */
    CHECK(y == (float)nrank && x == 1);
    OK(ncclCommInitAll(&part, 1, NULL));
    OK(ncclGroupStart());
    OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, part, NULL));
    OK(ncclCommAbort(part));
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    return 0;
}

/* ---- What is refused ------------------------------------------------------------------------------------------- */

NCCL_PUBLIC ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *requirements, void *out);

static int what_cannot_be_is_refused_by_name(ncclComm_t *comm, int rank, int nrank)
{
    ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
    ncclCommProperties_t properties = { .size = sizeof properties, .magic = NCCL_API_MAGIC };
    ncclTeam_t world;
    ncclComm_t new;

    CHECK(ncclCommGrow(*comm, nrank + 1, NULL, -1, &new, NULL) == ncclInvalidUsage);
    SAYS("ncclCommGrow is not supported");
    CHECK(ncclPutSignal(NULL, 0, ncclFloat, 0, NULL, 0, 0, 0, 0, *comm, NULL) == ncclInvalidUsage);
    CHECK(ncclDevCommCreate(*comm, NULL, NULL) == ncclInvalidUsage);
    SAYS("no device API");
    OK(ncclSetEncryption(&encryption)); /* none */
    encryption.mode = NCCL_ENCRYPTION_MODE_PSK;
    CHECK(ncclSetEncryption(&encryption) == ncclInvalidUsage);
    world = ncclTeamWorld(*comm);
    CHECK(world.nRanks == nrank && world.rank == rank && world.stride == 1);
    CHECK(ncclTeamRankToWorld(*comm, ncclTeamLsa(*comm), 0) == rank && ncclTeamRankToWorld(*comm, world, 1) == 1);
    OK(ncclCommQueryProperties(*comm, &properties));
    CHECK(properties.rank == rank && properties.nRanks == nrank && !properties.deviceApiSupport);
    properties.size = offsetof(ncclCommProperties_t, ginType); /* of an older release */
    memset((char *)&properties + properties.size, 0x55, sizeof properties - properties.size);
    OK(ncclCommQueryProperties(*comm, &properties));
    CHECK(properties.commHash == 0x5555555555555555);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_ranks(wrong_arguments_are_named_and_change_nothing, 2, 1),
        test_of_ranks(a_comm_that_was_destroyed_is_known_for_it, 1, 2),
        test_of_ranks(an_all_to_all_in_place_of_too_much_is_refused_as_one_that_is_not, 2, 1),
        test_of_ranks(groups_with_an_error_or_left_open_do_nothing, 2, 1),
        test_of_ranks(what_cannot_be_is_refused_by_name, 1, 2),
    };
    return cmocka_run_group_tests_name("nccl misuse", tests, NULL, NULL);
}
