/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of the driver (in the short tier some) fails once, one after the other, on one rank: in the first use
 * of a device, in the first operation of a comm and a later one, in a capture, in leaving. The rank gets an error that
 * names the call, all others get the same soon; no stream hangs; nothing of the device's is left; and the same ranks can
 * make a new comm. As tests/alloc_test.c does with calls that take resources.
 */
#include "../child.h"
#include "../collective.h"
#include "../places.h"
#include "../ranks.h"
#include "../tier.h"
#include "base/clock.h"
#include "device.h"
#include "device_run.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>
#include <plait/stream.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define NRANK 3
#define ROOM  (1 << 16)
#define LATE  60.0 /* seconds: far above a loaded machine's delays, below the deadline */
#define FAULT 999  /* CUDA_ERROR_UNKNOWN */

/* Of the calls, each 13th fails in the short tier; over hosts, where there are more, each 37th. */
static unsigned every(void)
{
    return full() ? 1 : RANKS_ON_HOSTS ? 61 : 19;
}

enum way {
    CALL,
    REQUEST,
    MESSAGES,
    PERSISTENT,
    COPIES
}; /* messages: an all-gather made of them; copies: the inputs' */
enum phase { FIRST, LATER, CAPTURE, DESTROY };

struct kind { /* of operation */
    const char *name;
    struct collective c;
    bool blocking; /* without a stream */
    bool scale;
    bool bare; /* the thread has no context of its own: of a device */
    enum way way;
};

static const struct kind kinds[] = {
    { "two-shot", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = 999 }, false, false },
    { "ring in slices", { PLAIT_ALLREDUCE, "ring", PLAIT_FLOAT32, .count = 4000, .slice = 4096 }, false, false },
    { "blocking", { PLAIT_ALLREDUCE, "", PLAIT_FLOAT16, PLAIT_MAX, .count = 500 }, true, false, true },
    { "all-gather", { PLAIT_ALLGATHER, "bruck", PLAIT_INT32, .count = 300 }, false, false },
    { "reduce-scatter of scaled inputs", { PLAIT_REDUCE_SCATTER, "", PLAIT_FLOAT32, .count = 300 }, false, true },
    { "all-to-all", { PLAIT_ALLTOALL, "", PLAIT_INT32, .count = 100 }, true, false },
    { "broadcast", { PLAIT_BROADCAST, "binomial", PLAIT_INT32, .count = 700, .root = 1 }, false, false, true },
    { "gather of different blocks", { PLAIT_GATHER, "", PLAIT_INT32, .count = 200, .sizes = 3 }, false, false },
    { "request", { PLAIT_ALLREDUCE, "ring", PLAIT_FLOAT32, .count = 999 }, true, .way = REQUEST },
    { "request on a stream", { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, .count = 999 }, .way = REQUEST },
    { "messages", { PLAIT_ALLGATHER, "", PLAIT_INT32, .count = 300 }, true, .way = MESSAGES },
    { "messages on a stream", { PLAIT_ALLGATHER, "", PLAIT_INT32, .count = 300 }, .way = MESSAGES },
    { "persistent", { PLAIT_ALLREDUCE, "ring", PLAIT_FLOAT32, .count = 999 }, .way = PERSISTENT },
    { "copies", { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, .count = 999 }, .way = COPIES },
};
#define NKIND (sizeof kinds / sizeof *kinds)

struct scene { /* shared by the test and its ranks */
    enum phase phase;
    const struct kind *kind;
    uint32_t nthread, victim;

    /* Of the round. */
    pthread_barrier_t all;
    struct plait_unique_id id;
    char call[48]; /* that failed, or "" */
    enum plait_status status[NRANK];
    char text[NRANK][512];
    double seconds[NRANK];

    unsigned fired, survived;
    struct standin_left reference[NRANK];
};

/* ---- A round ----------------------------------------------------------------------------------------------- */

static void new_id(struct scene *s, uint32_t rank)
{
    pthread_barrier_wait(&s->all);
    if (rank == 0 && plait_unique_id_create(&s->id) != PLAIT_OK)
        abort();
    pthread_barrier_wait(&s->all);
}

static struct plait_comm_options options_of(const struct scene *s, uint32_t rank)
{
    struct plait_comm_options o = options_of_rank(NRANK, rank, &s->id);

    o.timeout = o.deadline = 2 * LATE;
    return o;
}

static enum plait_status send_to_all(struct plait_comm *comm, const struct collective *c,
                                     const struct collective_buffers *at, const struct plait_call *call)
{
    enum plait_status status = plait_group_start();

    for (uint32_t r = 0; r < NRANK && status == PLAIT_OK; r++) {
        char *out = (char *)at->out + r * c->count * plait_dtype_size(c->type);
        status = plait_send(comm, at->in, c->count, c->type, r, call);
        if (status == PLAIT_OK)
            status = plait_recv(comm, out, c->count, c->type, r, call);
    }
    const enum plait_status all = plait_group_end();
    return all != PLAIT_OK ? all : status;
}

/* Started twice. */
static enum plait_status start_twice(struct plait_request *request, enum plait_status status)
{
    for (int i = 0; i < 2 && status == PLAIT_OK; i++) {
        status = plait_start(request);
        if (status == PLAIT_OK)
            status = plait_wait(&request);
    }
    plait_request_free(&request);
    return status;
}

/* What the operation has is a copy that the comm has made. */
static enum plait_status sum_copies(struct plait_comm *comm, const struct collective *c,
                                    const struct collective_buffers *at, const struct device_rank *d,
                                    const struct plait_call *call)
{
    const size_t bytes = c->count * plait_dtype_size(c->type), half = bytes / 2;
    char *to = d->in + ROOM / 2;
    const struct plait_copy copies[] = { { to, at->in, half },
                                         { to + half, (const char *)at->in + half, bytes - half } };
    const enum plait_status status = plait_comm_copy(comm, copies, 2, d->stream);

    return status == PLAIT_OK ? collective_call(comm, c, to, at->out, *call) : status;
}

/* The sum of inputs times 1 is the sum. */
static enum plait_status operate(struct plait_comm *comm, const struct kind *k, const struct collective_buffers *at,
                                 const struct device_rank *d)
{
    static const float one = 1;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    struct collective c = k->c;

    c.op = k->scale ? PLAIT_PREMULSUM : c.op;
    call.stream = k->blocking ? NULL : d->stream;
    call.scale = k->scale ? &one : NULL;
    if (k->way == MESSAGES)
        return send_to_all(comm, &c, at, &call);
    if (k->way == COPIES)
        return sum_copies(comm, &c, at, d, &call);
    call.request = k->way == CALL ? NULL : &request;
    call.persistent = k->way == PERSISTENT;
    const enum plait_status status = collective_call(comm, &c, at->in, at->out, call);
    if (k->way == PERSISTENT)
        return start_twice(request, status);
    return status == PLAIT_OK && k->way == REQUEST ? plait_wait(&request) : status;
}

/* Put the operation into a graph and launch it. What a failed capture leaves nobody launches. */
static enum plait_status capture(struct plait_comm *comm, const struct kind *k, const struct collective_buffers *at,
                                 const struct device_rank *d, uint32_t victim, unsigned nth)
{
    void *graph = NULL, *exec;
    const char *failed;

    if (device.capture_begin(d->cuda, CAPTURE_ALONE) != 0)
        return PLAIT_ERR_CONFIG;
    if (plait_comm_rank(comm) == victim)
        ask.standin_arm(nth, FAULT);
    enum plait_status status = operate(comm, k, at, d);
    ask.standin_disarm(&failed);
    const bool captured = device.capture_end(d->cuda, &graph) == 0;
    const enum plait_status all = status == PLAIT_OK ? plait_barrier(comm, NULL) : status; /* has everybody? */
    if (status == PLAIT_OK && all == PLAIT_OK &&
        (!captured || device.instantiate(&exec, graph, 0) != 0 || device.launch(exec, d->cuda) != 0 ||
         device.stream_synchronize(d->cuda) != 0 || device.exec_destroy(exec) != 0))
        status = PLAIT_ERR_CONFIG;
    if (captured)
        device.graph_destroy(graph);
    return all != PLAIT_OK ? all : status;
}

static enum plait_status act(const struct scene *s, struct plait_comm **comm, const struct collective_buffers *at,
                             const struct device_rank *d, unsigned nth)
{
    enum plait_status status;

    switch (s->phase) {
    case FIRST:
    case LATER:
        return operate(*comm, s->kind, at, d);
    case CAPTURE:
        return capture(*comm, s->kind, at, d, s->victim, nth);
    case DESTROY:
        status = plait_comm_destroy(*comm);
        *comm = NULL;
        return status;
    }
    return PLAIT_OK;
}

/* Is what came out right? */
static int compare(const struct kind *k, uint32_t rank, const struct collective_buffers *at,
                   const struct device_rank *d)
{
    const struct plait_geometry g = plait_geometry_of(k->c.coll, NRANK, k->c.root, rank, 1);
    char *want = calloc(1, ROOM), *got = calloc(1, ROOM);

    CHECK(want != NULL && got != NULL);
    collective_want(&k->c, NRANK, rank, got, want);
    if (at->out != NULL) {
        CHECK(device_read(d, got, at->out, collective_elements(&k->c, &g.out) * plait_dtype_size(k->c.type)));
        CHECK(collective_right(&k->c, NRANK, rank, got, want));
    }
    free(want);
    free(got);
    return 0;
}

/* Run the phase with call `nth` failing on the victim, and note what comes of it. */
static int run_phase(struct scene *s, uint32_t rank, unsigned nth, struct device_rank *d)
{
    const struct plait_geometry g = plait_geometry_of(s->kind->c.coll, NRANK, s->kind->c.root, rank, 1);
    const struct collective_buffers at = collective_place(&s->kind->c, NRANK, rank, d->in, d->out);
    const struct plait_comm_options o = options_of(s, rank);
    const char *failed = NULL;
    struct plait_comm *comm;
    const bool bare = s->kind->bare && s->phase != CAPTURE;
    void *context, *none;

    new_id(s, rank);
    CHECK(plait_comm_create(&o, &comm) == PLAIT_OK);
    collective_fill(&s->kind->c, NRANK, rank, d->host);
    if (at.in != NULL)
        CHECK(device_write(d, at.in, d->host,
                           collective_elements(&s->kind->c, &g.in) * plait_dtype_size(s->kind->c.type)));
    CHECK(device.stream_synchronize(d->cuda) == 0);
    if (s->phase != FIRST)
        CHECK(operate(comm, s->kind, &at, d) == PLAIT_OK);
    CHECK(!bare || device.context_pop(&context) == 0);
    pthread_barrier_wait(&s->all);
    const double start = plait_clock();
    if (rank == s->victim && s->phase != CAPTURE)
        ask.standin_arm(nth, FAULT);
    s->status[rank] = act(s, &comm, &at, d, nth);
    ask.standin_disarm(&failed);
    CHECK(!bare || (device.context_pop(&none) != 0 && device.context_push(context) == 0));
    if (s->status[rank] == PLAIT_OK && comm != NULL)
        s->status[rank] = plait_barrier(comm, NULL); /* not all hear of all: the next call fails at the latest */
    CHECK(device.stream_synchronize(d->cuda) == 0);
    s->seconds[rank] = plait_clock() - start;
    snprintf(s->text[rank], sizeof s->text[rank], "%s", s->status[rank] != PLAIT_OK ? plait_last_error() : "");
    if (s->status[rank] == PLAIT_OK && compare(s->kind, rank, &at, d) != 0)
        return 1;
    if (rank == s->victim)
        snprintf(s->call, sizeof s->call, "%s", failed != NULL ? failed : "");
    pthread_barrier_wait(&s->all); /* destroying earlier would be a second failure */
    device_leave(comm);
    pthread_barrier_wait(&s->all);
    return 0;
}

static int judge(const struct scene *s, uint32_t rank)
{
    const enum plait_status victim = s->status[s->victim], own = s->status[rank];

    CHECK(s->seconds[rank] < LATE);
    if (victim == PLAIT_OK) {
        CHECK(own == PLAIT_OK);
        return 0;
    }
    CHECK(s->phase != DESTROY && s->call[0] != '\0');
    CHECK(victim == PLAIT_ERR_NOMEM || victim == PLAIT_ERR_SYSTEM);
    CHECK(strstr(s->text[s->victim], "CUDA_ERROR_UNKNOWN") != NULL);
    CHECK(own == victim || own == PLAIT_ERR_FAILED); /* the latter from the barrier that comes next */
    CHECK(strstr(s->text[rank], s->text[s->victim]) != NULL);
    return 0;
}

static int use_new_comm(struct scene *s, uint32_t rank, struct device_rank *d)
{
    const struct plait_comm_options o = options_of(s, rank);
    const struct collective c = { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, .count = 40 };
    const struct kind k = { "new", c, true, false };
    const struct collective_buffers at = { d->in, d->out };
    struct plait_comm *comm;

    new_id(s, rank);
    CHECK(plait_comm_create(&o, &comm) == PLAIT_OK);
    collective_fill(&c, NRANK, rank, d->host);
    CHECK(device_write(d, d->in, d->host, 160) && device.stream_synchronize(d->cuda) == 0);
    CHECK(operate(comm, &k, &at, d) == PLAIT_OK);
    if (compare(&k, rank, &at, d) != 0)
        return 1;
    CHECK(plait_comm_destroy(comm) == PLAIT_OK);
    pthread_barrier_wait(&s->all);
    return 0;
}

/* Equal to what the process has after the first round, in which nothing failed. One thread of each process looks. */
static int compare_left(struct scene *s, uint32_t rank, bool first)
{
    struct standin_left *r = &s->reference[rank], is;
    int mode = 0;

    CHECK(device.capture_mode(&mode) == 0 && mode == 0); /* the thread's is what it was: global */
    if (rank % s->nthread == 0) {
        ask.standin_left(&is);
        if (first)
            *r = is;
        if (memcmp(&is, r, sizeof is) != 0)
            fprintf(stderr, "memory %u, %u before; imported %u, %u; streams %u, %u; events %u, %u\n", is.memory,
                    r->memory, is.imported, r->imported, is.streams, r->streams, is.events, r->events);
        CHECK(device_kept || memcmp(&is, r, sizeof is) == 0);
    }
    pthread_barrier_wait(&s->all);
    return 0;
}

static int round_of(struct scene *s, uint32_t rank, unsigned nth, struct device_rank *d, bool first)
{
    if (run_phase(s, rank, nth, d) != 0 || judge(s, rank) != 0 || use_new_comm(s, rank, d) != 0 ||
        compare_left(s, rank, first) != 0) {
        fprintf(stderr, "phase %d (%s), rank %u, call %u of rank %u (%s) failed: rank says %s '%s', it says '%s'\n",
                (int)s->phase, s->kind->name, rank, nth, s->victim, s->call, plait_status_name(s->status[rank]),
                s->text[rank], s->text[s->victim]);
        return 1;
    }
    if (rank == s->victim && s->call[0] != '\0') {
        s->fired++;
        s->survived += s->status[rank] == PLAIT_OK;
    }
    pthread_barrier_wait(&s->all);
    return 0;
}

/* ---- A job ------------------------------------------------------------------------------------------------- */

/* Twice with nothing failing. What fails lets streams of the failed comm pass too early: no access is a race then. */
static int run_rank(struct plait_comm **comm, uint32_t rank, void *scene)
{
    struct scene *s = scene;
    struct device_rank d;
    const unsigned step = every();
    unsigned nth = full() ? 0 : (unsigned)(s->kind - kinds) % step;

    if (!device_begin_among(&d, ROOM, rank))
        _exit(1); /* with the threads that wait for it */
    if (round_of(s, rank, 0, &d, true) != 0 || round_of(s, rank, 0, &d, false) != 0)
        _exit(1);
    ask.standin_careless(1);
    do {
        nth = nth == 0 ? 1 : nth + step;
        if (round_of(s, rank, nth, &d, false) != 0)
            _exit(1);
    } while (s->call[0] != '\0');
    pthread_barrier_wait(&s->all);
    return 0;
}

/* Every call of a phase, until a round goes through without one failing. */
static void run_job(enum phase phase, const struct kind *kind, uint32_t nthread, uint32_t victim, unsigned least)
{
    static const char *const names[] = { "first", "later", "capture", "destroy" };
    struct scene *s = shared_memory(sizeof *s);
    const struct ranks r = { .nprocess = NRANK / nthread,
                             .nthread = nthread,
                             .limit = 600,
                             .body = run_rank,
                             .arg = s,
                             .processes = true,
                             .no_comm = true,
                             .tied = true };

    *s = (struct scene){ .phase = phase, .kind = kind, .nthread = nthread, .victim = victim };
    shared_barrier_init(&s->all, NRANK);
    const double start = plait_clock();
    const unsigned failed = device_ranks_run(&r);
    const unsigned fired = s->fired;
    printf("%-7s %-31s %s, rank %u: %u calls failed, in %u the library did without (%.1f s)\n", names[phase],
           kind->name, nthread > 1 ? "threads  " : "processes", victim, fired, s->survived, plait_clock() - start);
    munmap(s, sizeof *s);
    assert_int_equal(failed, 0);
    if (fired < least / every())
        fail_msg("only %u calls failed, not %u: the test looks at the wrong calls", fired, least);
}

/* Ranks as processes and as threads, the first and a middle one. The short tier takes every `of`th, from `first`. */
static void run_jobs(enum phase phase, const struct kind *kind, unsigned least, unsigned first, unsigned of)
{
    for (unsigned i = full() ? 0 : first; i < 4; i += full() ? 1 : of)
        run_job(phase, kind, i & 1 ? NRANK : 1, i >> 1 & 1, least);
}

static void the_first_operation_of_a_comm(void **state)
{
    for (unsigned k = 0; k < NKIND; k++)
        if (full() || k < 3 || kinds[k].way >= MESSAGES)
            run_jobs(FIRST, &kinds[k], 20, k == 2 ? 3 : k % 4, 4);
}

static void later_operations(void **state)
{
    for (unsigned k = 0; k < NKIND; k += full() ? 1 : 2)
        run_jobs(LATER, &kinds[k], 10, (k / 2 + 1) % 4, 4);
}

/* On one host: no operation over hosts is in a graph */
static void an_operation_that_is_captured(void **state)
{
    for (unsigned k = 0; k < NKIND; k++)
        if (!kinds[k].blocking && (full() || k % 3 == 0))
            run_jobs(CAPTURE, &kinds[k], 10, k % 2 == 0 ? 1 : 3, 4);
}

static void leaving(void **state)
{
    for (unsigned k = 0; k < NKIND; k += full() ? 1 : 3)
        run_jobs(DESTROY, &kinds[k], 10, k / 3 % 4, 4);
}

/* ---- Without a comm ---------------------------------------------------------------------------------------- */

static unsigned failures;

/* Like plait calls of a user that has had an error: again. */
#define TWICE(call)                                                                                  \
    do {                                                                                             \
        enum plait_status status_ = (call);                                                          \
        if (status_ != PLAIT_OK) {                                                                   \
            failures++;                                                                              \
            if (failures > 1 || strstr(plait_last_error(), "CUDA_ERROR_UNKNOWN") == NULL) {          \
                fprintf(stderr, "%s: %s, after %u failures\n", #call, plait_last_error(), failures); \
                _exit(1);                                                                            \
            }                                                                                        \
            status_ = (call);                                                                        \
        }                                                                                            \
        if (status_ != PLAIT_OK) {                                                                   \
            fprintf(stderr, "%s, again: %s\n", #call, plait_last_error());                           \
            _exit(1);                                                                                \
        }                                                                                            \
    } while (0)

/* The first use of a device: driver, context, kernels; then memory of each kind, a stream. Did one fail? */
static bool use(unsigned nth, void *cuda)
{
    static const enum plait_memory taken[] = { PLAIT_MEMORY_DEVICE, PLAIT_MEMORY_PINNED, PLAIT_MEMORY_MANAGED };
    struct plait_stream *stream;
    enum plait_memory kind;
    const char *failed;
    void *memory[3];

    ask.standin_arm(nth, FAULT);
    for (int i = 0; i < 3; i++)
        TWICE(plait_mem_alloc_as(taken[i], 1000, &memory[i]));
    TWICE(plait_stream_create_cuda(cuda, &stream));
    for (int i = 0; i < 3; i++) {
        TWICE(plait_mem_kind(memory[i], &kind, NULL));
        if (kind != taken[i])
            _exit(2);
    }
    TWICE(plait_stream_synchronize(stream));
    TWICE(plait_stream_destroy(stream));
    for (int i = 0; i < 3; i++)
        TWICE(plait_mem_free(memory[i]));
    ask.standin_disarm(&failed);
    return failed != NULL;
}

/*
 * In a process of its own, whose first use it is; then once more, with nothing failing, which shows what is left of the
 * first. Exit status: 0 a call failed, 3 there was none.
 */
static void first_use(unsigned nth)
{
    struct standin_left first, second;
    void *context, *cuda;

    alarm(60);
    if (!device_load() || device.context_retain(&context, 0) != 0 || device.context_push(context) != 0 ||
        device.stream_create(&cuda, 1) != 0)
        _exit(1);
    const bool failed = use(nth, cuda);
    ask.standin_left(&first);
    use(0, cuda);
    ask.standin_left(&second);
    if (memcmp(&first, &second, sizeof first) != 0 || first.memory + first.pinned + first.managed != 0 ||
        first.streams != 2 || first.contexts != 2 || first.modules != 3) {
        fprintf(stderr, "call %u: memory %u, pinned %u, managed %u, streams %u, contexts %u, modules %u are left\n",
                nth, first.memory, first.pinned, first.managed, first.streams, first.contexts, first.modules);
        _exit(1);
    }
    _exit(failed ? 0 : 3);
}

static void the_first_use_of_a_device(void **state)
{
    int end = 0;
    unsigned n = 0;

    while (end == 0) {
        const pid_t child = child_fork();
        if (child == 0)
            first_use(++n);
        n++;
        end = child_end(child);
    }
    printf("first use: %u calls failed\n", n - 1);
    assert_true(end == 3 && n > 60);
}

/* A call may return the error of an earlier one: whichever fails, the memory is freed. */
static void free_memory(void)
{
    static const enum plait_memory kinds_of_memory[] = { PLAIT_MEMORY_DEVICE, PLAIT_MEMORY_PINNED,
                                                         PLAIT_MEMORY_MANAGED };
    struct standin_left left;
    const char *failed;
    void *memory;

    alarm(60);
    for (unsigned k = 0; k < sizeof kinds_of_memory / sizeof *kinds_of_memory; k++) {
        failed = "";
        for (unsigned n = 1; failed != NULL; n++) {
            if (!device_load() || plait_mem_alloc_as(kinds_of_memory[k], 1000, &memory) != PLAIT_OK)
                _exit(1);
            ask.standin_arm(n, FAULT);
            const enum plait_status status = plait_mem_free(memory);
            ask.standin_disarm(&failed);
            if (status != PLAIT_OK) {
                fprintf(stderr, "call %u (%s): %s\n", n, failed, plait_last_error());
                _exit(1);
            }
        }
    }
    ask.standin_left(&left);
    _exit(left.memory + left.pinned + left.managed == 0 ? 0 : 2);
}

static void memory_is_freed_though_a_call_fails(void **state)
{
    const pid_t child = child_fork();

    if (child == 0)
        free_memory();
    assert_int_equal(child_end(child), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        test_on_one_host(the_first_use_of_a_device), /* there is no comm */
        test_on_one_host(memory_is_freed_though_a_call_fails),
        cmocka_unit_test(the_first_operation_of_a_comm),
        cmocka_unit_test(later_operations),
        test_on_one_host(an_operation_that_is_captured),
        cmocka_unit_test(leaving),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    setenv("PLAIT_CONFIG", "/dev/null", 1);
    setenv("PLAIT_LOG_FILE", "/dev/null", 0); /* thousands of failures */
    return run_tests_of_this_place("calls of the driver", tests);
}
