/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each call of the driver (in the short tier some) that a rank makes in a scene of NCCL's calls fails once: the rank gets an
 * error that names it, or none if the library can do without. Then it aborts its comm, and the others hear of it. No
 * stream hangs, nothing of the GPU's is left, and the same ranks go on in a new comm.
 */
#include "../child.h"
#include "../tier.h"
#include "../unit.h"
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NRANK   2
#define VICTIM  1
#define COUNT   1000
#define TENSORS 4
#define FAULT   999 /* CUDA_ERROR_UNKNOWN */
#define LATE    30  /* seconds: far above a loaded machine's delays */
#define EVERY   7   /* of the calls fails in the short tier */

struct seat { /* of a rank, for a round */
    struct gpu_rank g, other;
    ncclComm_t comm;
    int rank;
};

struct scene {
    const char *name;
    ncclResult_t (*act)(struct seat *s);
    unsigned least; /* calls that fail */
    bool captures;
};

static struct shared {
    pthread_barrier_t all;
    ncclUniqueId id;
    ncclResult_t result[NRANK];
    char failed[64], text[1024]; /* the victim's call, and what it said */
    unsigned fired, survived;
} * shared;
static const struct scene *scene;

static ncclResult_t first(ncclResult_t a, ncclResult_t b)
{
    return a != ncclSuccess ? a : b;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Atomic bool kept; /* memory that another rank may still use, after two seconds in which it got no processor */

static void leave_failed(ncclComm_t comm)
{
    const double start = now();

    ncclCommAbort(comm);
    if (now() - start >= 2)
        kept = true;
}

/* ---- Scenes ------------------------------------------------------------------------------------------------------- */

static ncclResult_t sum(struct seat *s)
{
    return ncclAllReduce(s->g.in, s->g.out, COUNT, ncclFloat, ncclSum, s->comm, s->g.stream);
}

static ncclResult_t fused(struct seat *s)
{
    ncclResult_t result = ncclGroupStart();

    for (int t = 0; t < TENSORS; t++)
        result =
            first(result, ncclAllReduce(s->g.in + t * COUNT / TENSORS, s->g.out + t * COUNT / TENSORS, COUNT / TENSORS,
                                        ncclFloat, ncclSum, s->comm, t % 2 == 0 ? s->g.stream : s->other.stream));
    return first(result, ncclGroupEnd());
}

/* Their inputs are ones more than what the scalar multiplies. */
static ncclResult_t scaled(struct seat *s)
{
    ncclRedOp_t op;
    ncclResult_t result = ncclRedOpCreatePreMulSum(&op, s->g.in + COUNT, ncclFloat, ncclScalarDevice, s->comm);

    result = first(result, ncclAllReduce(s->g.in, s->g.out, COUNT, ncclFloat, op, s->comm, s->g.stream));
    return first(result, ncclRedOpDestroy(op, s->comm));
}

/* A sum by hand. */
static ncclResult_t exchanged(struct seat *s)
{
    void *theirs = NULL;
    ncclResult_t result = ncclMemAlloc(&theirs, COUNT * sizeof(float));

    if (result != ncclSuccess)
        return result;
    result = ncclGroupStart();
    result = first(result, ncclSend(s->g.in, COUNT, ncclFloat, !s->rank, s->comm, s->g.stream));
    result = first(result, ncclRecv(theirs, COUNT, ncclFloat, !s->rank, s->comm, s->g.stream));
    result = first(result, ncclGroupEnd());
    if (result == ncclSuccess)
        result = ncclAllReduce(theirs, s->g.out, COUNT, ncclFloat, ncclSum, s->comm, s->g.stream);
    /* What the other reads is free when all is done and the comm is well: if it fails, the stream goes on without the other. */
    if (result == ncclSuccess && gpu.synchronize(s->g.stream) != 0)
        result = ncclUnhandledCudaError;
    ncclResult_t state = ncclSuccess;
    if (result == ncclSuccess)
        result = first(ncclCommGetAsyncError(s->comm, &state), state);
    if (result != ncclSuccess)
        leave_failed(s->comm), s->comm = NULL;
    const ncclResult_t freed = ncclMemFree(theirs);
    if (freed != ncclSuccess)
        ncclMemFree(theirs); /* again */
    return first(result, freed);
}

static ncclResult_t one_group(struct seat *s)
{
    ncclResult_t result = ncclGroupStart();

    for (int t = 0; t < TENSORS; t++)
        result = first(result, ncclAllReduce(s->g.in + t * COUNT / TENSORS, s->g.out + t * COUNT / TENSORS,
                                             COUNT / TENSORS, ncclFloat, ncclSum, s->comm, s->g.stream));
    return first(result, ncclGroupEnd());
}

static ncclResult_t made_and_left(struct seat *s)
{
    ncclComm_t half = NULL;
    ncclResult_t result = ncclCommSplit(s->comm, 0, s->rank, &half, NULL);

    if (result == ncclSuccess)
        result = ncclAllReduce(s->g.in, s->g.out, COUNT, ncclFloat, ncclSum, half, s->g.stream);
    if (result == ncclSuccess)
        return ncclCommDestroy(half);
    if (half != NULL)
        leave_failed(half);
    return result;
}

static const struct scene scenes[] = {
    { "a sum", sum, 10, false },
    { "a fused group on two streams", fused, 20, false },
    { "a sum of inputs that are scaled late", scaled, 10, false },
    { "messages in memory of NCCL's", exchanged, 20, false },
    { "a comm that is split off", made_and_left, 30, false },
    { "a captured sum", sum, 10, true },
    { "a captured group", one_group, 15, true },
};

/* ---- A round ------------------------------------------------------------------------------------------------------ */

static void arm(const struct seat *s, unsigned nth)
{
    if (s->rank == VICTIM)
        gpu_arm(nth, FAULT);
}

static void disarm(const struct seat *s)
{
    const char *failed = gpu_disarm();

    if (s->rank == VICTIM)
        snprintf(shared->failed, sizeof shared->failed, "%s", failed != NULL ? failed : "");
}

/* It may be another rank that has failed; who has, leaves at once. */
static ncclResult_t meet(struct seat *s, ncclResult_t result)
{
    if (result == ncclSuccess)
        result = ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, s->comm, s->g.stream);
    if (s->rank == VICTIM)
        snprintf(shared->text, sizeof shared->text, "%s", ncclGetLastError(NULL));
    if (result != ncclSuccess && s->comm != NULL)
        leave_failed(s->comm);
    return shared->result[s->rank] = result;
}

static void launch(struct seat *s, void *graph)
{
    void *exec;

    if (gpu.instantiate(&exec, graph, 0) != 0 || gpu.launch(exec, s->g.stream) != 0 ||
        gpu.synchronize(s->g.stream) != 0 || gpu.exec_destroy(exec) != 0)
        abort();
}

static ncclResult_t act(struct seat *s, unsigned nth)
{
    void *graph = NULL;

    if (scene->captures && gpu.capture_begin(s->g.stream, CAPTURE_ALONE) != 0)
        abort();
    arm(s, nth);
    ncclResult_t result = scene->act(s);
    disarm(s);
    const bool captured = scene->captures && gpu.capture_end(s->g.stream, &graph) == 0;
    if (scene->captures && !captured)
        result = first(result, ncclInternalError);
    result = meet(s, result);
    pthread_barrier_wait(&shared->all);
    if (captured && shared->result[0] == ncclSuccess && shared->result[1] == ncclSuccess)
        launch(s, graph);
    if (captured)
        gpu.graph_destroy(graph);
    pthread_barrier_wait(&shared->all);
    return result;
}

static int fill(struct seat *s, int rank)
{
    for (int i = 0; i < COUNT; i++)
        s->g.host[i] = (float)i;
    s->g.host[COUNT] = 1; /* a scalar */
    CHECK(gpu_put(s->g.in, s->g.host, (COUNT + 1) * sizeof(float), s->g.stream) && gpu.synchronize(s->g.stream) == 0);
    return 0;
}

static int is_right(struct seat *s, int rank)
{
    CHECK(gpu_get(s->g.host, s->g.out, COUNT * sizeof(float), s->g.stream));
    for (int i = 0; i < COUNT; i++)
        CHECK(s->g.host[i] == (float)(NRANK * i));
    return 0;
}

static int make(struct seat *s, int rank)
{
    pthread_barrier_wait(&shared->all);
    if (rank == 0)
        OK(ncclGetUniqueId(&shared->id));
    pthread_barrier_wait(&shared->all);
    OK(ncclCommInitRank(&s->comm, NRANK, shared->id, rank));
    OK(sum(s));
    CHECK(gpu.synchronize(s->g.stream) == 0);
    return 0;
}

static int judge(int rank, time_t seconds)
{
    const ncclResult_t victim = shared->result[VICTIM], own = shared->result[rank];

    CHECK(seconds < LATE);
    CHECK(victim == ncclSuccess || shared->failed[0] != '\0');
    CHECK((own == ncclSuccess) == (victim == ncclSuccess));
    CHECK(victim == ncclSuccess || strstr(shared->text, "CUDA_ERROR_UNKNOWN") != NULL);
    return 0;
}

static int play(struct seat *s, int rank, unsigned nth)
{
    if (fill(s, rank) != 0 || make(s, rank) != 0)
        return 1;
    pthread_barrier_wait(&shared->all);
    const time_t start = time(NULL);
    const ncclResult_t result = act(s, nth);
    CHECK(gpu.synchronize(s->g.stream) == 0 && gpu.synchronize(s->other.stream) == 0);
    if (result == ncclSuccess && is_right(s, rank) != 0)
        return 1;
    pthread_barrier_wait(&shared->all);
    if (result == ncclSuccess)
        OK(ncclCommDestroy(s->comm));
    return judge(rank, time(NULL) - start);
}

static int round_of(struct seat *s, int rank, unsigned nth)
{
    if (play(s, rank, nth) == 0 && make(s, rank) == 0) {
        OK(ncclCommDestroy(s->comm));
        if (rank == VICTIM && shared->failed[0] != '\0') {
            shared->fired++;
            shared->survived += shared->result[VICTIM] == ncclSuccess;
        }
        pthread_barrier_wait(&shared->all);
        return 0;
    }
    fprintf(stderr, "%s, call %u (%s): the victim says %d '%s', rank %d says %d\n", scene->name, nth, shared->failed,
            (int)shared->result[VICTIM], shared->text, rank, (int)shared->result[rank]);
    _exit(1); /* with those that wait for it */
}

static int same_as(const struct standin_left *before, int rank)
{
    const struct standin_left after = gpu_left();
    const bool same = memcmp(&after, before, sizeof after) == 0;

    if (!same)
        fprintf(stderr, "rank %d: memory %u, %u before; imported %u, %u; streams %u, %u; events %u, %u\n", rank,
                after.memory, before->memory, after.imported, before->imported, after.streams, before->streams,
                after.events, before->events);
    return !same && !kept;
}

static int fail_each(ncclComm_t *unused, int rank, int nrank)
{
    struct seat s = { .rank = rank };
    struct standin_left before;
    unsigned nth = 0;

    CHECK(gpu_use(0) && gpu_begin(&s.g, 2 * COUNT) && gpu_begin(&s.other, 1));
    gpu_careless(); /* the streams of a failed comm pass in any order */
    round_of(&s, rank, 0);
    before = gpu_left();
    pthread_barrier_wait(&shared->all);
    do {
        nth += nth == 0 || full() ? 1 : EVERY;
        round_of(&s, rank, nth);
        if (same_as(&before, rank) != 0)
            _exit(1);
        pthread_barrier_wait(&shared->all);
    } while (shared->failed[0] != '\0');
    CHECK(gpu_end(&s.g) && gpu_end(&s.other));
    return 0;
}

static void run_scene(const struct scene *which, int nprocess)
{
    pthread_barrierattr_t attr;

    shared = shared_memory(sizeof *shared);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->all, &attr, NRANK);
    scene = which;

    assert_int_equal(gpu_run(nprocess, NRANK / nprocess, fail_each), 0);
    printf("%-40s %s: %u calls failed, in %u the library did without\n", which->name,
           nprocess > 1 ? "processes" : "threads", shared->fired, shared->survived);
    if (shared->fired < (full() ? which->least : which->least / EVERY))
        fail_msg("only %u calls failed, not %u: the test looks at the wrong calls", shared->fired, which->least);
    pthread_barrierattr_destroy(&attr);
    munmap(shared, sizeof *shared);
}

static void every_call_of_the_driver_may_fail_in_threads(void **state)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        run_scene(&scenes[i], 1);
}

static void every_call_of_the_driver_may_fail_in_processes(void **state)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        run_scene(&scenes[i], NRANK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_the_driver_may_fail_in_threads),
        cmocka_unit_test(every_call_of_the_driver_may_fail_in_processes),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    setenv("PLAIT_LOG_FILE", "/dev/null", 0); /* hundreds of failures */
    return cmocka_run_group_tests_name("calls of the driver under nccl", tests, NULL, NULL);
}
