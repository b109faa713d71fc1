/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that die, abort or never call while operations are on the streams of a device (collectives, requests, messages,
 * fused sums): the others get an error that says who, soon; their streams pass; nothing of the device's is left; and they
 * make a comm of those that are left.
 */
#include "../child.h"
#include "../kept.h"
#include "../places.h"
#include "../random.h"
#include "../ranks.h"
#include "../tier.h"
#include "base/clock.h"
#include "device.h"
#include "device_run.h"

#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>
#include <plait/stream.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define COUNT  1000
#define ROOM   (4 * COUNT * sizeof(int32_t))
#define SOON   20.0 /* seconds: far above a loaded machine's delays */
#define VICTIM 1u

static struct shared { /* by all processes of a test */
    _Atomic int gate;
    uint64_t seed;
} * shared;
static pthread_barrier_t in_process; /* of its ranks */

/* ---- What a survivor sees ---------------------------------------------------------------------------------- */

static double started;

static bool is_over(void)
{
    return plait_clock() - started > SOON;
}

/* request: NULL, it is none */
static enum plait_status begin_sum(struct plait_comm *comm, const struct device_rank *d, bool blocking,
                                   struct plait_request **request)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.stream = blocking ? NULL : d->stream;
    call.request = request;
    return plait_allreduce(comm, d->in, d->out, COUNT, PLAIT_INT32, PLAIT_SUM, &call);
}

static enum plait_status sum(struct plait_comm *comm, const struct device_rank *d, bool blocking)
{
    return begin_sum(comm, d, blocking, NULL);
}

/* From each rank to the next. */
static enum plait_status ring(struct plait_comm *comm, const struct device_rank *d)
{
    const uint32_t nrank = plait_comm_nrank(comm), rank = plait_comm_rank(comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.stream = d->stream;
    enum plait_status status = plait_group_start();
    if (status == PLAIT_OK)
        status = plait_send(comm, d->in, COUNT, PLAIT_INT32, (rank + 1) % nrank, &call);
    if (status == PLAIT_OK)
        status = plait_recv(comm, d->out, COUNT, PLAIT_INT32, (rank + nrank - 1) % nrank, &call);
    const enum plait_status all = plait_group_end();
    return all != PLAIT_OK ? all : status;
}

enum { NTENSOR = 3 };

static enum plait_status make_fusion(struct plait_comm *comm, const struct device_rank *d, struct plait_fusion **out)
{
    const struct plait_tensor tensors[NTENSOR] = { { "a", 5, PLAIT_FLOAT32, NULL },
                                                   { "b", COUNT, PLAIT_FLOAT32, NULL },
                                                   { "c", 70, PLAIT_FLOAT32, NULL } };
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;

    o.tensors = tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = 1024;
    o.sharded = 1;
    o.weights = PLAIT_FLOAT32;
    o.stream = d->stream;
    return plait_fusion_create(comm, &o, out);
}

static enum plait_status fuse(struct plait_fusion *f)
{
    enum plait_status status = PLAIT_OK;

    for (uint32_t t = 0; t < NTENSOR && status == PLAIT_OK; t++)
        status = plait_fusion_ready(f, t);
    if (status == PLAIT_OK)
        status = plait_fusion_wait_all(f, NULL);
    return status == PLAIT_OK ? plait_fusion_gather(f) : status;
}

/* As device_leave(). */
static void leave_fusion(struct plait_fusion *f)
{
    const double start = plait_clock();

    plait_fusion_destroy(f);
    if (plait_clock() - start >= 2)
        device_kept = true;
}

/* The ranks but one make a comm of their own, and use it. */
static int go_on(struct plait_comm *comm, uint32_t rank, const struct device_rank *d)
{
    const uint32_t gone[] = { VICTIM };
    struct plait_comm *rest;

    CHECK(plait_comm_shrink(comm, gone, 1, 0, NULL, &rest) == PLAIT_OK);
    CHECK(sum(rest, d, false) == PLAIT_OK && sum(rest, d, true) == PLAIT_OK);
    CHECK(plait_stream_synchronize(d->stream) == PLAIT_OK);
    CHECK(plait_comm_destroy(rest) == PLAIT_OK);
    return 0;
}

/*
 * The streams pass; the comm fails soon, with a text that has both words; what it had is given back.
 * *comm becomes NULL. What the process had on the device before the comm is in `before`.
 */
static int survive(struct plait_comm **comm, uint32_t rank, const struct device_rank *d, const char *who,
                   const char *what, bool shrinks, const struct standin_left *before)
{
    struct standin_left after;

    started = plait_clock();
    CHECK(plait_stream_synchronize(d->stream) == PLAIT_OK);
    while (plait_comm_status(*comm) == PLAIT_OK && !is_over())
        usleep(500);
    CHECK(sum(*comm, d, false) == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), who) != NULL && strstr(plait_last_error(), what) != NULL);
    CHECK(plait_stream_synchronize(d->stream) == PLAIT_OK);
    if (shrinks && go_on(*comm, rank, d) != 0)
        return 1;
    CHECK(device_leave(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(!is_over());
    pthread_barrier_wait(&in_process);
    ask.standin_left(&after);
    if (memcmp(&after, before, sizeof after) != 0)
        fprintf(stderr, "left: memory %u, %u before; imported %u, %u; streams %u, %u; events %u, %u\n", after.memory,
                before->memory, after.imported, before->imported, after.streams, before->streams, after.events,
                before->events);
    CHECK(device_kept || memcmp(&after, before, sizeof after) == 0);
    pthread_barrier_wait(&in_process);
    return 0;
}

/* What the process has before its comms use the device. */
static int begin(struct device_rank *d, uint32_t rank, struct standin_left *before)
{
    CHECK(device_begin_among(d, ROOM, rank));
    ask.standin_careless(1); /* the streams of a failed comm pass in any order */
    pthread_barrier_wait(&in_process);
    ask.standin_left(before);
    pthread_barrier_wait(&in_process);
    return 0;
}

struct scene {
    int (*act)(struct plait_comm *comm, uint32_t rank, struct device_rank *d); /* until the comm fails */
    const char *who, *what;                                                    /* in the error */
    bool shrinks; /* the others go on in a comm of their own */
};

static int play(struct plait_comm **comm, uint32_t rank, void *scene)
{
    const struct scene *s = scene;
    struct standin_left before;
    struct device_rank d;

    if (begin(&d, rank, &before) != 0 || s->act(*comm, rank, &d) != 0 ||
        survive(comm, rank, &d, s->who, s->what, s->shrinks, &before) != 0)
        return 1;
    CHECK(device_end(&d));
    return 0;
}

static void wait_at_shared_gate(void *context)
{
    while (!atomic_load(&shared->gate))
        usleep(100);
}

/* ---- A process is killed -------------------------------------------------------------------------------------- */

/* Its stream is held up, so that the others' wait for it. */
static int killed_under_way(struct plait_comm *comm, uint32_t rank, struct device_rank *d)
{

    CHECK(sum(comm, d, false) == PLAIT_OK && plait_stream_synchronize(d->stream) == PLAIT_OK);
    CHECK(rank != VICTIM || device.stream_call(d->cuda, wait_at_shared_gate, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(sum(comm, d, false) == PLAIT_OK);
    CHECK(device.stream_query(d->cuda) == 600);
    ranks_meet();
    if (rank == VICTIM)
        kill(getpid(), SIGKILL);
    return 0;
}

/* A graph that waits for a rank that died before it launched its own. */
static int killed_before_its_graph(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct standin_left before;
    struct device_rank d;
    void *graph, *exec;

    if (begin(&d, rank, &before) != 0)
        return 1;
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(sum(*comm, &d, false) == PLAIT_OK);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    CHECK(device.launch(exec, d.cuda) == 0 && plait_stream_synchronize(d.stream) == PLAIT_OK);
    ranks_meet();
    if (rank == VICTIM)
        kill(getpid(), SIGKILL);
    CHECK(device.launch(exec, d.cuda) == 0);
    if (survive(comm, rank, &d, "rank 1 (process ", "died", true, &before) != 0)
        return 1;
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    CHECK(device_end(&d));
    return 0;
}

/* Nobody waits for the graph: leaving does. The victim aborts, or is killed. */
static int left_with_a_graph(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool *aborts = arg;
    struct device_rank d;
    void *graph, *exec;

    CHECK(device_begin_among(&d, ROOM, rank));
    ask.standin_careless(1);
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(sum(*comm, &d, false) == PLAIT_OK);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    ranks_meet();
    if (rank == VICTIM && *aborts)
        CHECK(plait_comm_abort(*comm, "enough") == PLAIT_OK);
    else if (rank == VICTIM)
        kill(getpid(), SIGKILL);
    const unsigned long long waited = ask.standin_named("cuCtxSynchronize");
    for (int i = 0; i < 3 && rank != VICTIM; i++)
        CHECK(device.launch(exec, d.cuda) == 0);
    while (plait_comm_status(*comm) == PLAIT_OK)
        usleep(100);
    CHECK(plait_comm_destroy(*comm) == (*aborts ? PLAIT_ERR_FAILED : PLAIT_ERR_PEER));
    *comm = NULL;
    CHECK(ask.standin_calls() == 0 || ask.standin_named("cuCtxSynchronize") > waited);
    CHECK(device.stream_synchronize(d.cuda) == 0);
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    CHECK(device_end(&d));
    return 0;
}

/* Whatever it does at that moment. */
static void *kill_later(void *arg)
{
    uint64_t random = shared->seed;

    usleep((unsigned)(random_next(&random) % 20000));
    kill(getpid(), SIGKILL);
    return NULL;
}

static int killed_at_any_time(struct plait_comm *comm, uint32_t rank, struct device_rank *d)
{
    uint64_t random = shared->seed * 7;
    enum plait_status status = PLAIT_OK;
    struct plait_fusion *fusion;
    pthread_t killer;

    CHECK(make_fusion(comm, d, &fusion) == PLAIT_OK);
    ranks_meet();
    CHECK(rank != VICTIM || pthread_create(&killer, NULL, kill_later, NULL) == 0);
    while (status == PLAIT_OK) {
        const unsigned what = random_next(&random) >> 33 & 7;
        struct plait_request *request = NULL;
        status = what == 0  ? fuse(fusion)
                 : what < 3 ? ring(comm, d)
                            : begin_sum(comm, d, what < 5, what == 3 || what == 5 ? &request : NULL);
        if (status == PLAIT_OK && random_next(&random) % 8 == 0)
            plait_stream_synchronize(d->stream);
        const enum plait_status ended = plait_wait(&request);
        status = status == PLAIT_OK ? ended : status;
    }
    while (sum(comm, d, false) == PLAIT_OK) /* where only the fusion's comm has seen it */
        ;
    leave_fusion(fusion);
    return 0;
}

/* ---- Abort ---------------------------------------------------------------------------------------------------- */

static int aborted(struct plait_comm *comm, uint32_t rank, struct device_rank *d)
{
    struct plait_request *request = NULL;
    struct plait_fusion *fusion;

    CHECK(sum(comm, d, false) == PLAIT_OK && plait_stream_synchronize(d->stream) == PLAIT_OK);
    CHECK(make_fusion(comm, d, &fusion) == PLAIT_OK);
    CHECK(rank != VICTIM || device.stream_call(d->cuda, wait_at_shared_gate, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(sum(comm, d, false) == PLAIT_OK && ring(comm, d) == PLAIT_OK && fuse(fusion) == PLAIT_OK);
    CHECK(begin_sum(comm, d, false, &request) == PLAIT_OK);
    ranks_meet();
    if (rank == 0) {
        CHECK(plait_comm_abort(comm, "enough") == PLAIT_OK);
        CHECK(plait_comm_abort(plait_fusion_comm(fusion), "enough") == PLAIT_OK);
        CHECK(plait_stream_synchronize(d->stream) == PLAIT_OK);
        atomic_store(&shared->gate, 1);
    }
    CHECK(plait_wait(&request) != PLAIT_OK && strstr(plait_last_error(), "enough") != NULL);
    leave_fusion(fusion);
    return 0;
}

/* By another thread, while the rank waits for one that comes late. */
static void *abort_soon(void *arg)
{
    usleep(20000);
    plait_comm_abort(arg, "enough");
    return NULL;
}

static int aborted_while_waiting(struct plait_comm *comm, uint32_t rank, struct device_rank *d)
{
    pthread_t other;

    CHECK(sum(comm, d, false) == PLAIT_OK);
    ranks_meet(); /* over hosts others may need as long again for it */
    if (rank == 0)
        CHECK(pthread_create(&other, NULL, abort_soon, comm) == 0);
    if (rank != VICTIM) {
        CHECK(sum(comm, d, false) != PLAIT_OK);
        CHECK(strstr(plait_last_error(), "aborted by rank 0") != NULL);
    }
    if (rank == 0)
        pthread_join(other, NULL);
    return 0;
}

/* ---- Never -------------------------------------------------------------------------------------------------- */

static int never_called(struct plait_comm *comm, uint32_t rank, struct device_rank *d)
{
    CHECK(sum(comm, d, false) == PLAIT_OK);
    if (rank != VICTIM) {
        CHECK(sum(comm, d, false) != PLAIT_OK); /* a timeout, or who has had one */
        CHECK(strstr(plait_last_error(), "rank 1") != NULL);
    }
    return 0;
}

/* One leaves, and another is in an operation with it, for which its stream gives a flag of the one that leaves. */
static int left_behind(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct standin_left before, after;
    struct device_rank d;

    CHECK(begin(&d, rank, &before) == 0);
    CHECK(sum(*comm, &d, false) == PLAIT_OK && plait_stream_synchronize(d.stream) == PLAIT_OK);
    ranks_meet();
    if (rank == VICTIM) {
        usleep(20000);
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    } else {
        CHECK(sum(*comm, &d, false) == PLAIT_ERR_PEER);
        CHECK(strstr(plait_last_error(), "rank 1 left the comm after operation #1") != NULL);
        CHECK(device_leave(*comm) == PLAIT_ERR_PEER);
    }
    *comm = NULL;
    pthread_barrier_wait(&in_process);
    ask.standin_left(&after);
    CHECK(device_kept || memcmp(&after, &before, sizeof after) == 0);
    pthread_barrier_wait(&in_process);
    CHECK(device_end(&d));
    return 0;
}

/* One rank has never used the device at all. */
static int never_came(struct plait_comm *comm, uint32_t rank, struct device_rank *d)
{
    if (rank != VICTIM) {
        CHECK(sum(comm, d, rank == 0) != PLAIT_OK);
        CHECK(strstr(plait_last_error(), "rank 1") != NULL);
    }
    return 0;
}

/* ---- Tests -------------------------------------------------------------------------------------------------- */

/* `lost` processes do not come back. */
static void run_with(uint32_t nprocess, uint32_t threads, int (*body)(struct plait_comm **, uint32_t, void *),
                     void *arg, double deadline, unsigned lost)
{
    struct ranks r = { .nprocess = nprocess,
                       .nthread = threads,
                       .body = body,
                       .arg = arg,
                       .processes = true,
                       .options.deadline = deadline };

    shared->gate = 0;
    pthread_barrier_init(&in_process, NULL, threads);
    const unsigned failed = device_ranks_run(&r);
    pthread_barrier_destroy(&in_process);
    if (failed != lost)
        fail_msg("%u ranks failed, seed %llu", failed, (unsigned long long)shared->seed);
}

static void run(uint32_t nprocess, uint32_t threads, struct scene *s, double deadline, unsigned lost)
{
    run_with(nprocess, threads, play, s, deadline, lost);
}

static struct scene under_way = { killed_under_way, "rank 1 (process ", "died", true };
static struct scene at_any_time = { killed_at_any_time, "rank 1 (process ", "died", true };
static struct scene abort_queued = { aborted, "aborted by rank 0", "enough", false };
static struct scene abort_waiting = { aborted_while_waiting, "aborted by rank 0", "enough", false };
static struct scene not_called = { never_called, "rank 1", "", false };
static struct scene not_come = { never_came, "rank 1", "", false };

/* On one host: over hosts a call waits for its stream */
static void a_rank_that_dies_holds_no_stream(void **state)
{
    run(2, 1, &under_way, 600, 1);
    run(4, 1, &under_way, 600, 1);
}

/* On one host: no operation over hosts is in a graph */
static void a_rank_that_dies_holds_no_graph(void **state)
{
    bool aborts = false;

    run_with(3, 1, killed_before_its_graph, NULL, 600, 1);
    run_with(3, 1, left_with_a_graph, &aborts, 600, 1);
    aborts = true;
    run_with(1, 3, left_with_a_graph, &aborts, 600, 0);
}

static void a_rank_may_die_at_any_time(void **state)
{
    const uint64_t first = kept_time() * 1000;

    printf("seeds from %llu\n", (unsigned long long)first);
    for (unsigned i = 0; i < (full() ? 500 : light() ? 3 : 15); i++) {
        shared->seed = first + i;
        run(2 + i % 3, 1, &at_any_time, 600, 1);
    }
}

static void an_abort_ends_what_is_queued(void **state)
{
    if (!RANKS_ON_HOSTS) { /* where a call waits for its stream */
        run(3, 1, &abort_queued, 600, 0);
        run(1, 3, &abort_queued, 600, 0);
        run(2, 2, &abort_queued, 600, 0);
    }
    run(3, 1, &abort_waiting, 600, 0);
    run(1, 3, &abort_waiting, 600, 0);
}

/* On one host: over hosts no rank gives another's flag */
static void who_leaves_is_waited_for_no_more(void **state)
{
    run_with(2, 1, left_behind, NULL, 600, 0);
    run_with(1, 2, left_behind, NULL, 600, 0);
    run_with(4, 1, left_behind, NULL, 600, 0);
}

static void a_rank_that_never_calls_is_named(void **state)
{
    run(3, 1, &not_called, 3, 0);
    run(1, 3, &not_called, 3, 0);
    run(3, 1, &not_come, 1, 0);
    run(1, 2, &not_come, 1, 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        test_on_one_host(a_rank_that_dies_holds_no_stream), test_on_one_host(a_rank_that_dies_holds_no_graph),
        cmocka_unit_test(a_rank_may_die_at_any_time),       cmocka_unit_test(an_abort_ends_what_is_queued),
        test_on_one_host(who_leaves_is_waited_for_no_more), cmocka_unit_test(a_rank_that_never_calls_is_named),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    setenv("PLAIT_LOG_FILE", "/dev/null", 0);
    shared = shared_memory(sizeof *shared);
    return run_tests_of_this_place("deaths with operations on a device", tests);
}
