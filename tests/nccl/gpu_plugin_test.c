/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that uses a GPU, and the plug-in: not there, no library, of another build; and found in a build folder. */
#include "unit_gpu.h"

#include <plait/coll.h>
#include <plait/comm.h>
#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/stream.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT 100

static const char *folder; /* where the plug-in is looked for; "": where it lies */
static const char *words;  /* in every error */

static bool says(const char *text)
{
    const bool file = strstr(text, "/plait-cuda.so") != NULL && strstr(text, folder) != NULL;

    if (!file || strstr(text, words) == NULL || strstr(text, "this program uses GPUs, which Plait cannot") == NULL)
        fprintf(stderr, "it says: %s\n", text);
    return file && strstr(text, words) != NULL && strstr(text, "this program uses GPUs, which Plait cannot") != NULL;
}

#define REFUSED(call) CHECK((call) == PLAIT_ERR_UNSUPPORTED && says(plait_last_error()))

/* A comm of ours takes the host's memory, and refuses that of a GPU. */
static int use_ours(const struct gpu_rank *g, int rank)
{
    const struct plait_tensor tensor = { "a", COUNT, PLAIT_FLOAT32, g->in };
    struct plait_fusion_options f = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_comm_options o = { .size = sizeof o, .nrank = 1 };
    struct plait_unique_id id;
    enum plait_memory kind;
    struct plait_fusion *fusion;
    struct plait_comm *comm;
    float x[COUNT] = { 0 };

    f.tensors = &tensor;
    f.ntensor = 1;
    o.id = &id;
    CHECK(plait_unique_id_create(&id) == PLAIT_OK && plait_comm_create(&o, &comm) == PLAIT_OK);
    CHECK(plait_allreduce(comm, x, x, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    REFUSED(plait_allreduce(comm, g->in, g->out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL));
    REFUSED(plait_allreduce(comm, x, g->out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL));
    CHECK(plait_group_start() == PLAIT_OK);
    REFUSED(plait_send(comm, g->in, COUNT, PLAIT_FLOAT32, 0, NULL));
    CHECK(plait_group_end() == PLAIT_ERR_UNSUPPORTED);
    REFUSED(plait_fusion_create(comm, &f, &fusion));
    REFUSED(plait_mem_kind(g->in, &kind, NULL));
    CHECK(plait_mem_kind(g->host, &kind, NULL) == PLAIT_OK); /* pinned: the host can use it */
    CHECK(plait_allreduce(comm, g->host, g->host, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(plait_comm_destroy(comm) == PLAIT_OK);
    return 0;
}

static int refuse(ncclComm_t *comm, int rank, int nrank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t none = NULL;
    struct gpu_rank g;
    int device;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    CHECK(plait_device_now(&device) == PLAIT_ERR_UNSUPPORTED);
    CHECK(ncclCommInitRank(&none, 1, ranks_id[0], 0) != ncclSuccess && none == NULL && says(ncclGetLastError(NULL)));
    CHECK(ncclCommInitRankConfig(&none, 1, ranks_id[1], 0, &config) != ncclSuccess && says(ncclGetLastError(NULL)));
    CHECK(ncclCommInitAll(&none, 1, NULL) != ncclSuccess && none == NULL && says(ncclGetLastError(NULL)));
    const int failed = use_ours(&g, rank);
    CHECK(gpu_end(&g));
    return failed;
}

/* The GPU cannot be used, and the error says all this. */
static int refuse_gpu(int rank, const char *const *parts, size_t n)
{
    struct plait_stream *stream;
    ncclComm_t none = NULL;
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    for (int all = 0; all < 2; all++) {
        CHECK((all ? ncclCommInitAll(&none, 1, NULL) : ncclCommInitRank(&none, 1, ranks_id[0], 0)) == ncclInvalidUsage);
        for (size_t i = 0; i < n; i++)
            CHECK(none == NULL && strstr(ncclGetLastError(NULL), parts[i]) != NULL);
    }
    CHECK(plait_stream_create_cuda(g.stream, &stream) == PLAIT_ERR_UNSUPPORTED);
    CHECK(plait_stream_create_cuda_on(0, g.stream, &stream) == PLAIT_ERR_UNSUPPORTED);
    CHECK(gpu_end(&g));
    return 0;
}

/* Its PTX is newer than the driver. */
static int refuse_as_too_new(ncclComm_t *comm, int rank, int nrank)
{
    static const char *const parts[] = {
        "ncclCommInit",           "UNSUPPORTED_PTX_VERSION", "built by nvcc of CUDA 1", "the driver is of CUDA 12.8",
        "install a newer driver", "/plait-cuda.so",          "-Dgpu_architectures"
    };

    return refuse_gpu(rank, parts, sizeof parts / sizeof *parts);
}

static int refuse_without_values(ncclComm_t *comm, int rank, int nrank)
{
    static const char *const parts[] = { "ncclCommInit", "GPU 0, or its driver, has no batched memory operations",
                                         "cuStreamBatchMemOp: CUDA_ERROR_NOT_SUPPORTED",
                                         "use another GPU, or a newer driver" };

    return refuse_gpu(rank, parts, sizeof parts / sizeof *parts);
}

static int add_up(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;

    CHECK(gpu_use(0) && gpu_begin(&g, COUNT));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    OK(ncclAllReduce(g.in, g.out, COUNT, ncclFloat, ncclSum, *comm, g.stream));
    CHECK(gpu_end(&g));
    return 0;
}

static void run_with(int (*body)(ncclComm_t *, int, int), const char *where, const char *what, const char *cuda)
{
    static char setting[4200];
    const char *const environment[] = { setting, cuda, NULL };

    folder = where;
    words = what;
    snprintf(setting, sizeof setting, "PLAIT_PLUGINS=%s", where);
    assert_int_equal(gpu_ranks_run((struct ranks){
                         .nprocess = 1, .nthread = 1, .body = body, .fresh = 1, .environment = environment }),
                     0);
}

static void run(int (*body)(ncclComm_t *, int, int), const char *where, const char *what)
{
    run_with(body, where, what, NULL);
}

static void a_plug_in_that_is_not_there_is_an_error_of_a_program_with_a_gpu(void **state)
{
    run(refuse, "/nowhere", "set PLAIT_PLUGINS to its folder");
}

static void a_plug_in_that_is_no_library_is_one(void **state)
{
    char room[] = "/tmp/plait-plugin-test-XXXXXX", path[64];

    assert_non_null(mkdtemp(room));
    snprintf(path, sizeof path, "%s/plait-cuda.so", room);
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs("no library", f) >= 0 && fclose(f) == 0);
    run(refuse, room, "install the libraries it was built with, or build Plait again");
    unlink(path);
    rmdir(room);
}

static void a_plug_in_of_a_newer_build_is_one(void **state)
{
    run(refuse, getenv("PLAIT_TEST_NEWER"), "is not of this build of Plait; install both from one");
}

/* Beside the library, where a build has it. */
static void the_plug_in_is_found_in_a_build_folder(void **state)
{
    run(add_up, "", "");
}

static void a_plug_in_that_is_newer_than_the_driver_is_an_error_of_the_first_comm(void **state)
{
    run_with(refuse_as_too_new, "", "", "PLAIT_STANDIN_CUDA=12080");
}

static void a_gpu_without_batched_memory_operations_is_an_error_of_the_first_comm(void **state)
{
    run_with(refuse_without_values, "", "", "PLAIT_STANDIN_VALUES=0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plug_in_that_is_not_there_is_an_error_of_a_program_with_a_gpu),
        cmocka_unit_test(a_plug_in_that_is_no_library_is_one),
        cmocka_unit_test(a_plug_in_of_a_newer_build_is_one),
        cmocka_unit_test(the_plug_in_is_found_in_a_build_folder),
        cmocka_unit_test(a_plug_in_that_is_newer_than_the_driver_is_an_error_of_the_first_comm),
        cmocka_unit_test(a_gpu_without_batched_memory_operations_is_an_error_of_the_first_comm),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL || getenv("PLAIT_TEST_NEWER") == NULL)
        return 77;
    return cmocka_run_group_tests_name("the plug-in for GPUs", tests, NULL, NULL);
}
