/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's names in the environment, parameters, and what the log says. */
#include "../child.h"
#include "../comma_locale.h"
#include "../unit.h"
#include "comm.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char log_text[1 << 16];

static const char *const *with;
static int (*run_body)(int rank);

static void run_with_names(void)
{
    alarm(60);
    for (; *with != NULL; with++)
        putenv((char *)(uintptr_t)*with);
    if (run_body(0) != 0)
        _exit(1);
}

/* In a child with these names ("NAME=value", ..., NULL), as things are told once for each process; what it logs is kept. */
static int run_with(const char *const *environment, int (*body)(int rank))
{
    with = environment;
    run_body = body;
    const int end = child_run(run_with_names, log_text, sizeof log_text);
    if (end != 0)
        fprintf(stderr, "%s", log_text);
    return end;
}
#define RUN(body, ...) assert_int_equal(run_with((const char *const[]){ __VA_ARGS__, NULL }, body), 0)

static unsigned times_logged(const char *text)
{
    unsigned n = 0;

    for (const char *at = log_text; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* A comm of two, held by this thread, and an all-reduce. */
static int use(int rank)
{
    float x[2] = { 1, 2 };
    ncclComm_t comms[2];

    for (int again = 0; again < 2; again++) {
        OK(ncclCommInitAll(comms, 2, NULL));
        OK(ncclGroupStart());
        for (int i = 0; i < 2; i++)
            OK(ncclAllReduce(&x[i], &x[i], 1, ncclFloat, ncclSum, comms[i], NULL));
        OK(ncclGroupEnd());
        for (int i = 0; i < 2; i++)
            OK(ncclCommDestroy(comms[i]));
    }
    CHECK(x[0] == 6 && x[1] == 6);
    return 0;
}

/* ---- The log ---------------------------------------------------------------------------------------------------- */

static void nccl_debug_says_how_much_is_told(void **state)
{
    RUN(use, "PATH=/bin");
    assert_string_equal(log_text, "");
    RUN(use, "NCCL_DEBUG=VERSION");
    assert_int_equal(times_logged("libnccl.so.2 of Plait"), 1);
    assert_int_equal(times_logged("info:"), 0);
    RUN(use, "NCCL_DEBUG=info");
    assert_int_equal(times_logged("info: libnccl.so.2 of Plait"), 1);
    assert_int_equal(times_logged("created, ranks: 2"), 4);
    RUN(use, "NCCL_DEBUG=INFO", "PLAIT_LOG=warn"); /* which counts */
    assert_int_equal(times_logged("created, ranks: 2"), 0);
    RUN(use, "NCCL_DEBUG=LOUD");
    assert_int_equal(times_logged("NCCL_DEBUG='LOUD' is not used"), 1);
}

/* As in Turkish, where i is not the small letter of I. */
static void words_of_nccl_are_known_in_every_locale(void **state)
{
    assert_true(comma_locale(true));
    RUN(use, "NCCL_DEBUG=info");
    assert_int_equal(times_logged("is not used"), 0);
    assert_int_equal(times_logged("created, ranks: 2"), 4);
    RUN(use, "NCCL_DEBUG=info", "NCCL_ALGO=RING");
    assert_int_equal(times_logged("is not used"), 0);
    assert_true(comma_locale(false));
}

static void nccl_debug_file_takes_the_log(void **state)
{
    char name[64], set[96], line[256];
    FILE *f;

    snprintf(name, sizeof name, "/tmp/plait-nccl-%d.log", (int)getpid());
    snprintf(set, sizeof set, "NCCL_DEBUG_FILE=%s", name);
    RUN(use, "NCCL_DEBUG=INFO", set);
    assert_string_equal(log_text, "");
    f = fopen(name, "r");
    assert_true(f != NULL && fgets(line, sizeof line, f) != NULL && strstr(line, "libnccl.so.2 of Plait") != NULL);
    fclose(f);
    unlink(name);
}

static void names_without_a_meaning_are_told_once(void **state)
{
    RUN(use, "NCCL_IB_HCA=mlx5", "NCCL_P2P_DISABLE=1", "NCCL_ASYNC_ERROR_HANDLING=1", "NCCL_COMM_BLOCKING=1");
    assert_int_equal(times_logged("NCCL_IB_HCA has no meaning here: UCX_NET_DEVICES"), 1);
    assert_int_equal(times_logged("NCCL_P2P_DISABLE has no meaning here"), 1);
    assert_int_equal(times_logged("no meaning"), 2);
    RUN(use, "NCCL_BUFFSIZE=lots");
    assert_int_equal(times_logged("NCCL_BUFFSIZE is not used: PLAIT_SLICE='lots' (NCCL_BUFFSIZE): allowed is"), 1);
}

static int makes_no_id(int rank)
{
    ncclUniqueId id;
    ncclComm_t comm;

    CHECK(ncclGetUniqueId(&id) == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(NULL), "NCCL_COMM_ID=127.0.0.1:5000") != NULL);
    CHECK(strstr(ncclGetLastError(NULL), "unset it") != NULL);
    OK(ncclCommInitAll(&comm, 1, NULL)); /* which needs no id of the caller's */
    OK(ncclCommDestroy(comm));
    unsetenv("NCCL_COMM_ID");
    OK(ncclGetUniqueId(&id));
    return 0;
}

static void nccl_comm_id_makes_no_id_and_the_error_says_what_does(void **state)
{
    RUN(makes_no_id, "NCCL_COMM_ID=127.0.0.1:5000");
    assert_int_equal(times_logged("NCCL_COMM_ID has no meaning here: ncclGetUniqueId() fails"), 1);
}

/* ---- Algorithms -------------------------------------------------------------------------------------------------- */

static char expected[64];

static int runs_what_is_expected(int rank)
{
    float in[4096] = { 1 }, out[2][4096];
    struct plait_comm_count count;
    ncclComm_t comms[2];

    OK(ncclCommInitAll(comms, 2, NULL));
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        OK(ncclAllReduce(in, out[i], 4096, ncclFloat, ncclSum, comms[i], NULL));
    OK(ncclGroupEnd());
    CHECK(plait_comm_count(atomic_load(&comms[0]->plait), 0, &count) == PLAIT_OK);
    CHECK(strcmp(count.algorithm, expected) == 0 || fprintf(stderr, "%s ran\n", count.algorithm) < 0);
    for (int i = 0; i < 2; i++)
        OK(ncclCommDestroy(comms[i]));
    return 0;
}

static void nccl_algo_chooses_by_its_names_and_ours(void **state)
{
    strcpy(expected, "ring");
    RUN(runs_what_is_expected, "NCCL_ALGO=Ring");
    RUN(runs_what_is_expected, "NCCL_ALGO=allreduce:nvls,ring;allgather:bruck");
    strcpy(expected, "double-tree");
    RUN(runs_what_is_expected, "NCCL_ALGO=Tree,Ring");
    strcpy(expected, "torus:2x1");
    RUN(runs_what_is_expected, "NCCL_ALGO=torus:2x1");
    assert_int_equal(times_logged("can run"), 0);
    strcpy(expected, "one-shot");
    RUN(runs_what_is_expected, "NCCL_ALGO=reducescatter:ring");
    RUN(runs_what_is_expected, "NCCL_ALGO=ring", "PLAIT_ALGO=allreduce:one-shot");
    RUN(runs_what_is_expected, "NCCL_ALGO=nvlstree");
    assert_int_equal(times_logged("none of the algorithms 'nvlstree' can run; the library chooses"), 1);
}

static int exchanges(int rank)
{
    float x = 1, y;
    ncclComm_t comm;

    OK(ncclCommInitAll(&comm, 1, NULL));
    OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL));
    OK(ncclAlltoAll(&x, &y, 1, ncclFloat, comm, NULL));
    OK(ncclAlltoAll(&y, &y, 1, ncclFloat, comm, NULL));
    OK(ncclCommDestroy(comm));
    return 0;
}

/* They are set for all-reduces. */
static void nccl_algo_is_silent_of_collectives_that_its_names_do_not_fit(void **state)
{
    RUN(exchanges, "NCCL_ALGO=ring");
    assert_int_equal(times_logged("can run"), 0);
    RUN(exchanges, "NCCL_ALGO=Ring,NVLS");
    assert_int_equal(times_logged("can run"), 0);
    RUN(exchanges, "NCCL_ALGO=alltoall:ring");
    assert_int_equal(times_logged("ncclAlltoAll: none of the algorithms 'ring' can run"), 1);
    RUN(exchanges, "NCCL_ALGO=rung");
    assert_int_equal(times_logged("none of the algorithms 'rung' can run"), 1);
}

/* More than the arena has, where the input would be copied. */
static int stages_too_much(int rank)
{
    static float x[8 << 20];
    ncclComm_t comm;

    OK(ncclCommInitAll(&comm, 1, NULL));
    CHECK(ncclAlltoAll(x, x, sizeof x / sizeof *x, ncclFloat, comm, NULL) == ncclSystemError);
    CHECK(strstr(ncclGetLastError(comm), "cannot begin alltoall #1") != NULL);
    CHECK(strstr(ncclGetLastError(comm), "raise PLAIT_ARENA to at least") != NULL);
    OK(ncclCommAbort(comm));
    return 0;
}

static void memory_that_all_to_all_in_place_lacks_is_named(void **state)
{
    RUN(stages_too_much, "PLAIT_ARENA=16M");
}

static int selects(int rank)
{
    float x = 1;
    ncclComm_t comm;
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

    OK(ncclCommInitAll(&comm, 1, NULL));
    config.algSelection = "binomial";
    OK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &config));
    config.algSelection = "nvls,pat";
    CHECK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &config) == ncclInvalidUsage);
    config.forceAlgSelection = 0;
    OK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &config));
    config.launchCompletionEvent = (cudaEvent_t)(void *)&x;
    CHECK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &config) == ncclInvalidUsage);
    OK(ncclCommDestroy(comm));
    return 0;
}

static void a_call_selects_its_algorithm_and_may_insist(void **state)
{
    RUN(selects, "PATH=/bin");
}

/* ---- Parameters --------------------------------------------------------------------------------------------------- */

static int parameters(int rank)
{
    ncclParamHandle_t h;
    const char *text, **keys;
    int8_t small;
    int32_t number;
    uint64_t large;
    char bytes[64];
    int n, version;

    OK(ncclGetVersion(&version));
    CHECK(version == 22809);
    OK(ncclParamBind(&h, "NCCL_BUFFSIZE"));
    OK(ncclParamGetI32(h, &number));
    OK(ncclParamGetU64(h, &large));
    CHECK(number == 65536 && large == 65536);
    CHECK(ncclParamGetI8(h, &small) == ncclInvalidArgument); /* too large for it */
    OK(ncclParamGetStr(h, &text));
    CHECK(strcmp(text, "65536") == 0);
    OK(ncclParamGet(h, bytes, sizeof bytes, &n));
    CHECK(n == 6 && strcmp(bytes, "65536") == 0);
    CHECK(ncclParamGet(h, bytes, 5, &n) == ncclInvalidArgument);
    OK(ncclParamBind(&h, "PLAIT_SLICE"));
    OK(ncclParamGetStr(h, &text));
    CHECK(strcmp(text, "65536") == 0); /* which NCCL_BUFFSIZE sets */
    OK(ncclParamGetParameter("NCCL_ALGO", &text, &n));
    CHECK(n == 4 && strcmp(text, "ring") == 0); /* of the file */
    CHECK(ncclParamGetParameter("NCCL_NONE", &text, &n) == ncclInvalidArgument);
    CHECK(ncclParamBind(NULL, "NCCL_ALGO") == ncclInvalidArgument);
    CHECK(ncclParamGetI32((ncclParamHandle_t)(void *)&n, &number) == ncclInvalidArgument);
    OK(ncclParamGetAllParameterKeys(&keys, &n));
    CHECK(n > 20 && strcmp(keys[0], "NCCL_ALGO") == 0);
    ncclParamDumpAll();
    return 0;
}

static int no_version(int rank)
{
    int version;

    CHECK(ncclGetVersion(&version) == ncclInvalidUsage);
    return 0;
}

static void a_version_is_three_numbers(void **state)
{
    RUN(no_version, "PLAIT_NCCL_VERSION=2.32");
    RUN(no_version, "PLAIT_NCCL_VERSION=2.32.3a");
    RUN(no_version, "PLAIT_NCCL_VERSION=2.32.100");
}

static void parameters_are_nccls_names_and_plaits_settings(void **state)
{
    char path[] = "/tmp/plait-nccl-conf-XXXXXX", set[64];
    const int fd = mkstemp(path);

    assert_true(fd >= 0 && dprintf(fd, "# a comment\nNCCL_ALGO = ring # ours\nNCCL_BUFFSIZE=1\n") > 0);
    close(fd);
    snprintf(set, sizeof set, "NCCL_CONF_FILE=%s", path);
    RUN(parameters, set, "NCCL_BUFFSIZE=65536", "PLAIT_NCCL_VERSION=2.28.9", "NCCL_PARAM_DUMP_ALL=true");
    assert_int_equal(times_logged("warn: NCCL_BUFFSIZE=65536\n"), 1);
    assert_int_equal(times_logged("warn: PLAIT_DEADLINE=600\n"), 1);
    unlink(path);
}

static int blocks_or_not(int rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t comm;
    ncclResult_t state = ncclInProgress;

    config.blocking = 1;
    OK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
    while (state == ncclInProgress)
        OK(ncclCommGetAsyncError(comm, &state));
    OK(ncclCommDestroy(comm));
    return 0;
}

static void nccl_comm_blocking_overrides_the_config(void **state)
{
    RUN(blocks_or_not, "NCCL_COMM_BLOCKING=0");
}

/* 40000 in float16: three of them leave the type. */
static int average_halves(int rank)
{
    enum { N = 3, COUNT = 3000 };
    static uint16_t x[N][COUNT];
    ncclComm_t comms[N];

    OK(ncclCommInitAll(comms, N, NULL));
    for (size_t count = 1; count <= COUNT; count += COUNT - 1) {
        for (int i = 0; i < N; i++)
            for (size_t k = 0; k < count; k++)
                x[i][k] = 0x78e2;
        OK(ncclGroupStart());
        for (int i = 0; i < N; i++)
            OK(ncclAllReduce(x[i], x[i], count, ncclHalf, ncclAvg, comms[i], NULL));
        OK(ncclGroupEnd());
        for (int i = 0; i < N; i++)
            for (size_t k = 0; k < count; k++)
                CHECK(x[i][k] >= 0x78e1 && x[i][k] <= 0x78e3);
    }
    for (int i = 0; i < N; i++)
        OK(ncclCommDestroy(comms[i]));
    return 0;
}

static void an_average_of_halves_is_finite_with_every_algorithm_of_nccl_algo(void **state)
{
    RUN(average_halves, "PATH=/bin");
    RUN(average_halves, "NCCL_ALGO=Ring");
    RUN(average_halves, "NCCL_ALGO=Tree");
    RUN(average_halves, "NCCL_ALGO=two-shot");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nccl_debug_says_how_much_is_told),
        cmocka_unit_test(words_of_nccl_are_known_in_every_locale),
        cmocka_unit_test(nccl_debug_file_takes_the_log),
        cmocka_unit_test(names_without_a_meaning_are_told_once),
        cmocka_unit_test(nccl_comm_id_makes_no_id_and_the_error_says_what_does),
        cmocka_unit_test(nccl_algo_chooses_by_its_names_and_ours),
        cmocka_unit_test(memory_that_all_to_all_in_place_lacks_is_named),
        cmocka_unit_test(nccl_algo_is_silent_of_collectives_that_its_names_do_not_fit),
        cmocka_unit_test(an_average_of_halves_is_finite_with_every_algorithm_of_nccl_algo),
        cmocka_unit_test(a_call_selects_its_algorithm_and_may_insist),
        cmocka_unit_test(a_version_is_three_numbers),
        cmocka_unit_test(parameters_are_nccls_names_and_plaits_settings),
        cmocka_unit_test(nccl_comm_blocking_overrides_the_config),
    };
    return cmocka_run_group_tests_name("nccl environment", tests, NULL, NULL);
}
