/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on a device's memory in the order of its streams. */
#include "../collective.h"
#include "../places.h"
#include "../ranks.h"
#include "../specs.h"
#include "../tier.h"
#include "../values.h"
#include "device.h"
#include "device_operate.h"
#include "unit_device.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 18 };

static const struct {
    enum plait_dtype type;
    enum plait_op op;
} kinds[] = {
    { PLAIT_FLOAT32, PLAIT_SUM }, { PLAIT_INT32, PLAIT_MAX },      { PLAIT_FLOAT16, PLAIT_SUM },
    { PLAIT_UINT8, PLAIT_PROD },  { PLAIT_BFLOAT16, PLAIT_AVG },   { PLAIT_FLOAT64, PLAIT_MIN },
    { PLAIT_INT64, PLAIT_SUM },   { PLAIT_FLOAT8E4M3, PLAIT_SUM }, { PLAIT_INT8, PLAIT_MIN },
    { PLAIT_UINT32, PLAIT_AVG },  { PLAIT_UINT64, PLAIT_MAX },     { PLAIT_FLOAT8E5M2, PLAIT_MAX },
};
#define NKIND (sizeof kinds / sizeof *kinds)

static int every_kind(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { 1, 7, 1000, 0, 3001 };
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (unsigned i = 0; i < NCOLLECTIVE + 2; i++)
        for (unsigned k = 0; k < NKIND; k++) {
            struct collective c = { .coll = i < NCOLLECTIVE    ? collectives[i]
                                            : i == NCOLLECTIVE ? PLAIT_ALLREDUCE
                                                               : PLAIT_BARRIER,
                                    .type = kinds[k].type,
                                    .op = kinds[k].op,
                                    .count = counts[(i + k) % 5],
                                    .inplace = k % 2 == 1,
                                    .mixed = i % 2 == 1 };
            const struct plait_geometry g = plait_geometry_of(c.coll, nrank, 0, rank, 1);
            c.root = g.rooted ? k % nrank : 0;
            c.inplace = c.inplace && c.coll != PLAIT_BARRIER;
            if (c.coll == PLAIT_BARRIER)
                c.count = 0;
            if (device_operate(*comm, rank, &d, &c, k % 5 == 4) != 0)
                return 1;
        }
    CHECK(device_end(&d));
    return 0;
}

static void every_collective_type_and_operator(void **state)
{
    for (uint32_t n = 1; n <= 4; n++)
        if (full() || n != 2)
            device_run(1, n, every_kind, NULL);
}

/* Each process maps what the others show it. */
static void ranks_of_several_processes_share_a_device(void **state)
{
    device_run(2, 1, every_kind, NULL);
    device_run(2, 2, every_kind, NULL);
}

/* ---- Plans ------------------------------------------------------------------------------------------------ */

static int every_plan(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (unsigned i = 0; i <= NCOLLECTIVE; i++)
        for (unsigned inplace = 0; inplace < 2; inplace++) {
            const enum plait_coll coll = i < NCOLLECTIVE ? collectives[i] : PLAIT_ALLREDUCE;
            struct specs specs;
            specs_init(&specs, coll, nrank, inplace);
            for (uint32_t k = 0; k < specs.n; k++) {
                const unsigned half = (k + inplace) % 2;
                struct collective c = { .coll = coll,
                                        .type = half ? PLAIT_FLOAT16 : PLAIT_FLOAT32,
                                        .round = half && specs.spec[k].alg->no_partials == 0 ? PLAIT_ROUND_ONCE
                                                                                             : PLAIT_ROUND_DEFAULT,
                                        .root = specs.spec[k].shape.root,
                                        .count = 997,
                                        .inplace = inplace,
                                        .mixed = k % 3 == 1 };
                if (specs.spec[k].shape.node != NULL)
                    continue;
                memcpy(c.spec, specs.spec[k].text, sizeof c.spec - 1);
                if (device_operate(*comm, rank, &d, &c, false) != 0)
                    return 1;
            }
            specs_finish(&specs);
        }
    CHECK(device_end(&d));
    return 0;
}

static void plans_that_run_on_the_host_run_on_the_device(void **state)
{
    for (uint32_t n = 2; n <= 5; n += 3)
        device_run(1, n, every_plan, NULL);
}

/* ---- Graphs ----------------------------------------------------------------------------------------------- */

static int sum_is(const struct device_rank *d, uint32_t rank, int32_t want)
{
    int32_t got[100];

    CHECK(device_read(d, got, d->out, sizeof got));
    for (int i = 0; i < 100; i++)
        CHECK(got[i] == want);
    return 0;
}

static int replay(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int32_t nrank = (int32_t)plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    void *graph, *exec;
    int32_t in[100];

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    for (int32_t k = 0; k < (full() ? 1000 : 100); k++) {
        for (int i = 0; i < 100; i++)
            in[i] = k + (int32_t)rank;
        CHECK(device_write(&d, d.in, in, sizeof in));
        if (k % 3 == 2)
            CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        else
            CHECK(device.launch(exec, d.cuda) == 0);
        if (sum_is(&d, rank, nrank * k + nrank * (nrank - 1) / 2) != 0)
            return 1;
    }
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    CHECK(device_end(&d));
    return 0;
}

/* On one host: no operation over hosts is in a graph */
static void a_graph_runs_again_and_again_between_other_calls(void **state)
{
    device_run(1, 3, replay, NULL);
}

enum { BRANCH = 5000 };

/* Sums on two streams of one capture in turn, each of which the caller orders with nothing; then messages on both. */
static int capture_branches(struct plait_comm **comm, struct device_rank *d, uint32_t rank)
{
    struct plait_call call[2] = { PLAIT_CALL_DEFAULT, PLAIT_CALL_DEFAULT };
    const uint32_t nrank = plait_comm_nrank(*comm);

    for (int b = 0; b < 2; b++) {
        call[b].stream = d[b].stream;
        call[b].algorithm = "ring";
    }
    for (int k = 0; k < 8; k++)
        CHECK(plait_allreduce(*comm, d[k % 2].in, d[k % 2].out, BRANCH, PLAIT_INT32, PLAIT_SUM, &call[k % 2]) ==
              PLAIT_OK);
    call[0].algorithm = call[1].algorithm = NULL;
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_send(*comm, d[0].in, 100, PLAIT_INT32, (rank + 1) % nrank, &call[0]) == PLAIT_OK);
    CHECK(plait_recv(*comm, d[1].out + ROOM / 2, 100, PLAIT_INT32, (rank + nrank - 1) % nrank, &call[1]) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_OK);
    return 0;
}

static int replay_branches(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int32_t nrank = (int32_t)plait_comm_nrank(*comm);
    struct device_rank d[2];
    uint64_t captures[2];
    void *graph, *exec;
    int32_t in[100];

    for (int b = 0; b < 2; b++)
        CHECK(device_begin(&d[b], ROOM));
    CHECK(device.capture_begin(d[0].cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_stream_follow(d[1].stream, d[0].stream) == PLAIT_OK);
    for (int b = 0; b < 2; b++)
        CHECK(plait_stream_captures(d[b].stream, &captures[b]) == PLAIT_OK);
    CHECK(captures[0] != 0 && captures[0] == captures[1]);
    CHECK(capture_branches(comm, d, rank) == 0);
    CHECK(plait_stream_follow(d[0].stream, d[1].stream) == PLAIT_OK);
    CHECK(device.capture_end(d[0].cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    for (int32_t k = 0; k < (full() ? 200 : 20); k++) {
        for (int b = 0; b < 2; b++) {
            for (int i = 0; i < 100; i++)
                in[i] = (b + 1) * (k + (int32_t)rank);
            CHECK(device_write(&d[b], d[b].in, in, sizeof in) && plait_stream_synchronize(d[b].stream) == PLAIT_OK);
        }
        CHECK(device.launch(exec, d[0].cuda) == 0);
        for (int b = 0; b < 2; b++)
            if (plait_stream_synchronize(d[0].stream) != PLAIT_OK ||
                sum_is(&d[b], rank, (b + 1) * (nrank * k + nrank * (nrank - 1) / 2)) != 0)
                return 1;
        CHECK(device_read(&d[1], in, d[1].out + ROOM / 2, sizeof in));
        CHECK(in[0] == k + (int32_t)(rank + (uint32_t)nrank - 1) % nrank && in[99] == in[0]);
    }
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    for (int b = 0; b < 2; b++)
        CHECK(device_end(&d[b]));
    return 0;
}

/* They took each other's flags. */
static void branches_of_a_graph_follow_each_other(void **state)
{
    const char *delay = getenv("PLAIT_STANDIN_DELAY");
    char before[16];

    snprintf(before, sizeof before, "%s", delay != NULL ? delay : "50");
    setenv("PLAIT_STANDIN_DELAY", "200", 1);
    device_run(1, 4, replay_branches, NULL);
    device_run(4, 1, replay_branches, NULL);
    setenv("PLAIT_STANDIN_DELAY", before, 1);
}

static int capture_too_many(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    void *graph;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) < 0);
    CHECK(strstr(plait_last_error(), "3 ranks of this process") != NULL &&
          strstr(plait_last_error(), "2 hardware queues") != NULL);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.graph_destroy(graph) == 0);
    ranks_meet(); /* destroying a comm synchronizes the context, which no thread may do while another captures */
    CHECK(device_end(&d));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_UNSUPPORTED);
    *comm = NULL;
    return 0;
}

/* Their graphs could wait for each other in a queue. */
static void more_ranks_than_hardware_queues_are_named_when_they_capture(void **state)
{
    const char *set = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    char *before = set != NULL ? strdup(set) : NULL;

    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
    device_run(1, 3, capture_too_many, NULL);
    if (before != NULL)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", before, 1);
    else
        unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    free(before);
}

/* ---- Ends ------------------------------------------------------------------------------------------------- */

static _Atomic int called;

/* Rank 1's stream is held up; rank 0's waits for it, and passes when the comm fails. */
static int abort_one(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    CHECK(rank == 0 || device.stream_call(d.cuda, wait_at_gate, NULL) == 0);
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(device.stream_query(d.cuda) == 600);
    atomic_fetch_add(&called, 1);
    while (rank == 0 && atomic_load(&called) < 2)
        usleep(100);
    if (rank == 0) {
        CHECK(plait_comm_abort(*comm, "enough") == PLAIT_OK);
        CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
        atomic_store(&gate, 1);
    }
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    while (plait_comm_status(*comm) == PLAIT_OK)
        usleep(100);
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), "enough") != NULL);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

/* On one host: over hosts a call waits for its stream */
static void an_aborted_comm_holds_no_stream(void **state)
{
    device_run(1, 2, abort_one, NULL);
}

/* Memory is freed when the device has done all, what is given again and again for the failed comm among it. */
static int free_first(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    atomic_fetch_add(&called, 1);
    while (atomic_load(&called) < 2)
        usleep(100);
    CHECK(rank == 1 || plait_comm_abort(*comm, "enough") == PLAIT_OK);
    while (plait_comm_status(*comm) == PLAIT_OK)
        usleep(100);
    usleep(20000);
    CHECK(device_end(&d));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    return 0;
}

static void a_failed_comm_does_not_keep_its_device_busy(void **state)
{
    const char *delay = getenv("PLAIT_STANDIN_DELAY");
    char before[16];

    snprintf(before, sizeof before, "%s", delay != NULL ? delay : "50");
    setenv("PLAIT_STANDIN_DELAY", "200", 1);
    device_run(1, 2, free_first, NULL);
    setenv("PLAIT_STANDIN_DELAY", before, 1);
}

/* ---- What is refused -------------------------------------------------------------------------------------- */

static int what_does_not_fit_is_refused_by_name(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const char *const words[] = { "is memory that CUDA does not know (host memory, or freed); the call needs",
                                         "call->scale is", "set call->scale_when to PLAIT_SCALE_LATE" };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    enum plait_memory kind;
    int32_t host[4] = { 0 };

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(plait_allreduce(*comm, host, d.out, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "in is") != NULL && strstr(plait_last_error(), words[0]) != NULL);
    CHECK(plait_allreduce(*comm, d.in, host, 4, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_send(*comm, host, 4, PLAIT_INT32, !rank, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "send: in is") != NULL && strstr(plait_last_error(), words[0]) != NULL);
    call.scale = host;
    call.scale_when = PLAIT_SCALE_LATE;
    CHECK(plait_allreduce(*comm, d.in, d.out, 4, PLAIT_INT32, PLAIT_PREMULSUM, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), words[1]) != NULL);
    call.scale = d.in;
    call.scale_when = PLAIT_SCALE_NOW;
    CHECK(plait_allreduce(*comm, d.in, d.out, 4, PLAIT_INT32, PLAIT_PREMULSUM, &call) == PLAIT_ERR_UNSUPPORTED);
    CHECK(strstr(plait_last_error(), words[1]) != NULL && strstr(plait_last_error(), words[2]) != NULL);
    call.stream = NULL; /* and what the GPU reads the host cannot */
    CHECK(plait_allreduce(*comm, host, host, 4, PLAIT_INT32, PLAIT_PREMULSUM, &call) == PLAIT_ERR_UNSUPPORTED);
    CHECK(strstr(plait_last_error(), words[1]) != NULL);
    CHECK(plait_mem_kind(host, &kind, NULL) == PLAIT_OK && kind == PLAIT_MEMORY_HOST);
    CHECK(plait_mem_kind(d.in + 5, &kind, NULL) == PLAIT_OK && kind == PLAIT_MEMORY_DEVICE);
    CHECK(plait_allreduce(*comm, host, host, 4, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK); /* nothing has happened */
    CHECK(device_end(&d));
    return 0;
}

/* They could not be put one behind the other, which messages of one comm are. */
static int capture_two(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d[2];
    void *graph;

    for (int i = 0; i < 2; i++)
        CHECK(device_begin(&d[i], ROOM) && device.capture_begin(d[i].cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_group_start() == PLAIT_OK);
    for (int i = 0; i < 2; i++) {
        call.stream = d[i].stream;
        CHECK((i == 0 ? plait_send(*comm, d[i].in, 9, PLAIT_INT32, !rank, &call)
                      : plait_recv(*comm, d[i].out, 9, PLAIT_INT32, !rank, &call)) == PLAIT_OK);
    }
    CHECK(plait_group_end() == PLAIT_ERR_UNSUPPORTED &&
          strstr(plait_last_error(), "streams of several captures") != NULL);
    for (int i = 0; i < 2; i++)
        CHECK(device.capture_end(d[i].cuda, &graph) == 0 && device.graph_destroy(graph) == 0);
    ranks_meet();
    for (int i = 0; i < 2; i++)
        CHECK(device_end(&d[i]));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_UNSUPPORTED);
    *comm = NULL;
    return 0;
}

/* On one host: no operation over hosts is in a graph */
static void messages_of_a_group_are_of_one_capture(void **state)
{
    device_run(1, 2, capture_two, NULL);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_type_and_operator),
        cmocka_unit_test(ranks_of_several_processes_share_a_device),
        cmocka_unit_test(plans_that_run_on_the_host_run_on_the_device),
        test_on_one_host(a_graph_runs_again_and_again_between_other_calls),
        test_on_one_host(branches_of_a_graph_follow_each_other),
        test_on_one_host(more_ranks_than_hardware_queues_are_named_when_they_capture),
        test_on_one_host(an_aborted_comm_holds_no_stream),
        cmocka_unit_test(a_failed_comm_does_not_keep_its_device_busy),
        test_on_device(what_does_not_fit_is_refused_by_name, 1, 2),
        test_on_one_host(messages_of_a_group_are_of_one_capture),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("device", tests);
}
