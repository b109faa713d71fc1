/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random jobs of collectives, messages and fused sums on devices: ranks as threads and processes, on one device or several, random delays of every operation of
 * a stream. The host waits for nothing between the calls: inputs are written, results taken away by operations of the
 * same stream, so that only the order of streams keeps the data right. A seed says all but how threads are scheduled;
 * PLAIT_SEED=n runs that one alone. PLAIT_TEST_DEVICES=n: the driver is a GPU's, with n of them.
 */
#include "../kept.h"
#include "../places.h"
#include "../random.h"
#include "../ranks.h"
#include "../specs.h"
#include "../tier.h"
#include "base/clock.h"
#include "device.h"
#include "device_operate.h"
#include "device_run.h"

#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>
#include <plait/stream.h>

#include <pthread.h>
#include <string.h>

enum { MOST_OPERATIONS = 24, BLOCK = 1 << 15 };

static const struct {
    enum plait_dtype type;
    enum plait_op op;
} kinds[] = {
    { PLAIT_FLOAT32, PLAIT_SUM }, { PLAIT_INT32, PLAIT_MAX },    { PLAIT_FLOAT16, PLAIT_SUM },
    { PLAIT_UINT8, PLAIT_PROD },  { PLAIT_BFLOAT16, PLAIT_AVG }, { PLAIT_INT64, PLAIT_MIN },
};
#define NKIND (sizeof kinds / sizeof *kinds)

struct job { /* equal on all ranks */
    uint64_t seed;
    uint32_t nprocess, nthread, ndevice;
    bool fails; /* some call of the driver in one process */
};

enum what { COLLECTIVE, RING, FUSED };
enum form { STREAMED, BLOCKING, CAPTURED, REQUESTED };

struct operation { /* equal on all ranks, as their numbers in a job are */
    enum what what;
    enum form form;
    struct collective c;
    uint32_t count, distance; /* of a ring: int32s, from each rank to the one that is so far behind it */
    void *exec;               /* of a graph; or NULL */
    struct plait_request *requests[2];
};

static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)(random_next(random) >> 33) % n;
}

/* Any plan of a collective that these ranks can run. */
static void draw_spec(uint64_t *random, struct collective *c, uint32_t nrank)
{
    struct specs specs;

    specs_init(&specs, c->coll, nrank, c->inplace);
    const struct spec *s = specs.n > 0 ? &specs.spec[below(random, specs.n)] : NULL;
    if (s != NULL && s->shape.node == NULL) {
        memcpy(c->spec, s->text, sizeof c->spec - 1);
        c->root = s->shape.root;
    }
    specs_finish(&specs);
}

static struct collective draw_collective(uint64_t *random, uint32_t nrank)
{
    static const size_t counts[] = { 1, 13, 200, 0, 499 };
    const uint32_t coll = below(random, NCOLLECTIVE + 4), kind = below(random, NKIND);
    struct collective c = { .coll = coll < NCOLLECTIVE ? collectives[coll] : PLAIT_ALLREDUCE,
                            .type = kinds[kind].type,
                            .op = kinds[kind].op,
                            .count = counts[below(random, 5)] };
    const struct plait_geometry g = plait_geometry_of(c.coll, nrank, 0, 0, 1);

    c.inplace = below(random, 2) == 1;
    c.mixed = below(random, 2) == 1;
    c.root = g.rooted ? below(random, nrank) : 0;
    c.slice = below(random, 4) == 0 ? 256 : 0;
    if (below(random, 3) == 0 && nrank > 1)
        draw_spec(random, &c, nrank);
    return c;
}

static struct operation draw(uint64_t *random, uint32_t nrank)
{
    static const uint32_t counts[] = { 1, 13, 700, 5000 };
    static const enum form forms[] = { BLOCKING, CAPTURED, REQUESTED, REQUESTED };
    const uint32_t what = below(random, 8), form = below(random, 10);
    struct operation o = { .what = what == 0  ? FUSED
                                   : what < 3 ? RING
                                              : COLLECTIVE,
                           .form = form < 4 ? forms[form] : STREAMED };

    if (o.form == CAPTURED && RANKS_ON_HOSTS)
        o.form = STREAMED;
    if (o.what == COLLECTIVE)
        o.c = draw_collective(random, nrank);
    o.count = counts[below(random, 4)];
    o.distance = below(random, nrank);
    return o;
}

struct place { /* of operation number i: what it reads, on the host; where its result is kept, on the device */
    char *from, *kept;
};

static struct place place_of(const struct device_rank *d, char *host, uint32_t i)
{
    return (struct place){ host + (size_t)i * BLOCK, d->in + (size_t)(i + 2) * BLOCK };
}

/* ---- A fused sum: of tensors of a fusion that the whole job has ------------------------------------------------- */

enum { NTENSOR = 3, MOST = 2700 };
static const size_t tensor_counts[NTENSOR] = { 1, 700, MOST };

static float gradient(uint32_t rank, uint32_t t, size_t i, uint32_t k)
{
    return (float)((rank + t + i + k) % 7);
}

static enum plait_status make_fusion(struct plait_comm *comm, const struct device_rank *d, uint64_t *random,
                                     struct plait_fusion **out)
{
    static const char *const names[NTENSOR] = { "a", "b", "c" };
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[NTENSOR];

    for (uint32_t t = 0; t < NTENSOR; t++)
        tensors[t] = (struct plait_tensor){ names[t], tensor_counts[t], PLAIT_FLOAT32, NULL };
    o.tensors = tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = below(random, 2) * 4096;
    o.payload = below(random, 2) ? PLAIT_FLOAT16 : PLAIT_NDTYPE;
    o.sharded = (int)below(random, 2);
    o.weights = o.sharded ? PLAIT_FLOAT32 : PLAIT_NDTYPE;
    o.check = (int)below(random, 2);
    o.progress = (int)below(random, 2);
    o.stream = d->stream;
    return plait_fusion_create(comm, &o, out);
}

/* Sharded: the sums of this rank's pieces become their weights, which all get. */
static enum plait_status spread(struct plait_fusion *f, const struct device_rank *d)
{
    struct plait_piece piece;

    for (uint32_t k = 0; k < plait_fusion_npiece(f); k++) {
        plait_fusion_piece(f, k, &piece);
        if (!device_write(d, piece.weight, piece.gradient, piece.count * sizeof(float)))
            return PLAIT_ERR_SYSTEM;
    }
    return plait_fusion_gather(f);
}

static enum plait_status put_fused(struct plait_fusion *f, uint32_t rank, const struct device_rank *d, struct place p,
                                   uint32_t k)
{
    const bool sharded = plait_fusion_weights(f, 0) != NULL;
    enum plait_status status = PLAIT_OK;

    for (uint32_t n = 0; n < NTENSOR && status == PLAIT_OK; n++) {
        const uint32_t t = (rank + n) % NTENSOR;
        float *host = (float *)(void *)p.from + t * MOST;
        for (size_t i = 0; i < tensor_counts[t]; i++)
            host[i] = gradient(rank, t, i, k);
        if (!device_write(d, plait_fusion_data(f, t), host, tensor_counts[t] * sizeof *host))
            return PLAIT_ERR_SYSTEM;
        status = plait_fusion_ready(f, t);
    }
    if (status == PLAIT_OK)
        status = plait_fusion_wait_all(f, NULL);
    if (status == PLAIT_OK && sharded)
        status = spread(f, d);
    for (uint32_t t = 0; t < NTENSOR && status == PLAIT_OK; t++)
        if (!device_write(d, p.kept + t * MOST * sizeof(float),
                          sharded ? plait_fusion_weights(f, t) : plait_fusion_data(f, t),
                          tensor_counts[t] * sizeof(float)))
            return PLAIT_ERR_SYSTEM;
    return status;
}

static int verify_fused(uint32_t nrank, uint32_t rank, const struct device_rank *d, struct place p, uint32_t k)
{
    static _Thread_local float got[NTENSOR * MOST];

    _Static_assert(sizeof got <= BLOCK, "it is kept in one");
    CHECK(device_read(d, got, p.kept, sizeof got));
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < tensor_counts[t]; i++) {
            float want = 0;
            for (uint32_t r = 0; r < nrank; r++)
                want += gradient(r, t, i, k);
            CHECK(got[t * MOST + i] == want);
        }
    return 0;
}

/* ---- A ring of messages ------------------------------------------------------------------------------------------- */

static enum plait_status send_ring(struct plait_comm *comm, const struct device_rank *d, struct operation *o,
                                   struct plait_call call)
{
    const uint32_t nrank = plait_comm_nrank(comm), rank = plait_comm_rank(comm);
    struct plait_call other = call;
    enum plait_status status = plait_group_start();

    if (o->form == REQUESTED) {
        call.request = &o->requests[0];
        other.request = &o->requests[1];
    }
    if (status == PLAIT_OK)
        status = plait_send(comm, d->in, o->count, PLAIT_INT32, (rank + o->distance) % nrank, &call);
    if (status == PLAIT_OK)
        status = plait_recv(comm, d->in + BLOCK, o->count, PLAIT_INT32, (rank + nrank - o->distance) % nrank, &other);
    const enum plait_status all = plait_group_end();
    return all != PLAIT_OK ? all : status;
}

static int verify_ring(uint32_t nrank, uint32_t rank, const struct device_rank *d, struct place p,
                       const struct operation *o)
{
    const uint32_t from = (rank + nrank - o->distance) % nrank;
    static _Thread_local int32_t got[BLOCK / 4];

    CHECK(device_read(d, got, p.kept, o->count * sizeof *got));
    for (uint32_t i = 0; i < o->count; i++)
        CHECK(got[i] == (int32_t)(from * 10000 + i));
    return 0;
}

/* ---- One job ------------------------------------------------------------------------------------------------- */

static enum plait_status call_now(struct plait_comm *comm, const struct device_rank *d, struct operation *o,
                                  const struct collective_buffers *at)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.stream = o->form == BLOCKING ? NULL : d->stream;
    if (o->what == RING)
        return send_ring(comm, d, o, call);
    call.request = o->form == REQUESTED ? &o->requests[0] : NULL;
    return collective_call(comm, &o->c, at->in, at->out, call);
}

/* The call, or a graph with it that is launched. */
static enum plait_status call_as(struct plait_comm *comm, const struct device_rank *d, struct operation *o,
                                 const struct collective_buffers *at)
{
    void *graph;

    if (o->form == BLOCKING && device.stream_synchronize(d->cuda) != 0)
        return PLAIT_ERR_SYSTEM;
    if (o->form == CAPTURED && device.capture_begin(d->cuda, CAPTURE_ALONE) != 0)
        return PLAIT_ERR_SYSTEM;
    const enum plait_status status = call_now(comm, d, o, at);
    if (o->form != CAPTURED)
        return status;
    const bool captured = device.capture_end(d->cuda, &graph) == 0;
    if (!captured && device.capture_end(d->cuda, &graph) == 0) /* the stream must not stay in it */
        device.graph_destroy(graph);
    if (!captured)
        return status != PLAIT_OK ? status : PLAIT_ERR_SYSTEM;
    const bool launched =
        status == PLAIT_OK && device.instantiate(&o->exec, graph, 0) == 0 && device.launch(o->exec, d->cuda) == 0;
    device.graph_destroy(graph);
    return status != PLAIT_OK ? status : launched ? PLAIT_OK : PLAIT_ERR_SYSTEM;
}

/* Of one operation, whose place in the two buffers all operations share. */
static enum plait_status put(struct plait_comm *comm, uint32_t rank, const struct device_rank *d, struct place p,
                             struct operation *o)
{
    const struct collective *c = &o->c;
    const uint32_t nrank = plait_comm_nrank(comm);
    const size_t size = plait_dtype_size(c->type);
    const struct collective_buffers at = collective_place(c, nrank, rank, d->in, d->in + BLOCK);
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);

    if (collective_room(c, nrank) * size > BLOCK)
        return PLAIT_ERR_ARG;
    collective_fill(c, nrank, rank, p.from);
    if (at.in != NULL && !device_write(d, at.in, p.from, collective_elements(c, &g.in) * size))
        return PLAIT_ERR_SYSTEM;
    const enum plait_status status = call_as(comm, d, o, &at);
    if (status == PLAIT_OK && at.out != NULL && !device_write(d, p.kept, at.out, collective_elements(c, &g.out) * size))
        return PLAIT_ERR_SYSTEM;
    return status;
}

static enum plait_status put_ring(struct plait_comm *comm, uint32_t rank, const struct device_rank *d, struct place p,
                                  struct operation *o)
{
    const size_t bytes = o->count * sizeof(int32_t);

    for (uint32_t i = 0; i < o->count; i++)
        ((int32_t *)(void *)p.from)[i] = (int32_t)(rank * 10000 + i);
    if (!device_write(d, d->in, p.from, bytes))
        return PLAIT_ERR_SYSTEM;
    const enum plait_status status = call_as(comm, d, o, NULL);
    return status != PLAIT_OK || device_write(d, p.kept, d->in + BLOCK, bytes) ? status : PLAIT_ERR_SYSTEM;
}

static int verify(uint32_t nrank, uint32_t rank, const struct device_rank *d, struct place p,
                  const struct collective *c, uint32_t i)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    char *want = calloc(1, BLOCK), *got = calloc(1, BLOCK);

    CHECK(want != NULL && got != NULL);
    collective_want(c, nrank, rank, got, want);
    if (g.out.nslot > 0) {
        CHECK(device_read(d, got, p.kept, collective_elements(c, &g.out) * plait_dtype_size(c->type)));
        if (!collective_right(c, nrank, rank, got, want)) {
            fprintf(stderr, "rank %u: operation %u, %s of %zu %s %s root %u inplace %d slice %zu %s: wrong\n", rank, i,
                    plait_coll_name(c->coll), c->count, plait_dtype_name(c->type), plait_op_name(c->op), c->root,
                    c->inplace, c->slice, c->spec);
            return 1;
        }
    }
    free(want);
    free(got);
    return 0;
}

static pthread_barrier_t in_process; /* of its ranks */

/* The process's ranks have ended. Of the library's there is one stream of each device. */
static int check_left(uint32_t rank, const struct job *j)
{
    struct standin_left left;

    pthread_barrier_wait(&in_process);
    ask.standin_left(&left);
    if (left.memory + left.imported + left.events != 0 || left.streams > j->ndevice)
        fprintf(stderr, "left: memory %u, imported %u, events %u, streams %u of %u\n", left.memory, left.imported,
                left.events, left.streams, j->ndevice);
    CHECK(device_kept || (left.memory + left.imported + left.events == 0 && left.streams <= j->ndevice));
    return 0;
}

static int verify_any(uint32_t nrank, uint32_t rank, const struct device_rank *d, struct place p,
                      const struct operation *o, uint32_t i)
{
    return o->what == FUSED  ? verify_fused(nrank, rank, d, p, i)
           : o->what == RING ? verify_ring(nrank, rank, d, p, o)
                             : verify(nrank, rank, d, p, &o->c, i);
}

/* The others need not wait for this rank. */
static void give_up(struct plait_comm *comm, struct plait_fusion *fusion)
{
    plait_comm_abort(comm, "the job failed");
    if (fusion != NULL)
        plait_comm_abort(plait_fusion_comm(fusion), "the job failed");
}

/* All ranks draw the same. */
static int do_job(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct job *j = arg;
    const uint32_t nrank = plait_comm_nrank(*comm);
    uint64_t random = j->seed;
    const uint32_t n = 4 + below(&random, MOST_OPERATIONS - 4), victim = below(&random, nrank),
                   after = below(&random, 400);
    struct operation o[MOST_OPERATIONS] = { { .what = COLLECTIVE } };
    char *host = calloc(MOST_OPERATIONS, BLOCK);
    enum plait_status status = PLAIT_OK;
    struct plait_fusion *fusion = NULL;
    struct device_rank d;

    CHECK(host != NULL && device_begin_on(&d, (MOST_OPERATIONS + 2) * BLOCK, (int)(rank % j->ndevice)));
    if (j->fails)
        ask.standin_careless(1);
    status = plait_barrier(*comm, NULL); /* one may have failed already */
    if (j->fails && rank == victim)
        ask.standin_fail(after);
    if (status == PLAIT_OK)
        status = make_fusion(*comm, &d, &random, &fusion);
    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++) {
        const struct place p = place_of(&d, host, i);
        o[i] = draw(&random, nrank);
        status = o[i].what == FUSED  ? put_fused(fusion, rank, &d, p, i)
                 : o[i].what == RING ? put_ring(*comm, rank, &d, p, &o[i])
                                     : put(*comm, rank, &d, p, &o[i]);
    }
    CHECK(status == PLAIT_OK || j->fails);
    if (status == PLAIT_OK && j->fails)
        status = plait_barrier(*comm, NULL);
    else if (j->fails) /* what failed may be this test's own call */
        give_up(*comm, fusion);
    if (j->fails && rank == victim)
        ask.standin_fail(0);
    for (uint32_t i = n; i-- > 0;)
        for (int k = 0; k < 2; k++) {
            const enum plait_status ended = plait_wait(&o[i].requests[k]);
            CHECK(ended == PLAIT_OK || j->fails);
            status = status == PLAIT_OK ? ended : status;
        }
    CHECK(device.stream_synchronize(d.cuda) == 0);
    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++)
        if (verify_any(nrank, rank, &d, place_of(&d, host, i), &o[i], i) != 0)
            return 1;
    for (uint32_t i = 0; i < n; i++)
        CHECK(o[i].exec == NULL || device.exec_destroy(o[i].exec) == 0);
    CHECK(plait_fusion_destroy(fusion) == PLAIT_OK || j->fails);
    const enum plait_status end = device_leave(*comm);
    *comm = NULL;
    CHECK(end == PLAIT_OK || j->fails);
    CHECK(device_end(&d));
    free(host);
    return check_left(rank, j);
}

/* ---- A thousand replays ----------------------------------------------------------------------------------------- */

enum { REPLAYS = 1000, WORDS = 64 };

/* Two graphs, each of two sums, and sums that are not in graphs: whatever runs adds up the same. */
static int replay(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm), ndevice = *(uint32_t *)arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t values[WORDS];
    struct device_rank d;
    uint64_t random = 1;
    void *graph, *exec[2];

    CHECK(device_begin_on(&d, 4 * BLOCK, (int)(rank % ndevice)));
    call.stream = d.stream;
    for (int i = 0; i < WORDS; i++)
        values[i] = (int32_t)rank + i;
    CHECK(device_write(&d, d.in, values, sizeof values) && device.stream_synchronize(d.cuda) == 0);
    for (int g = 0; g < 2; g++) {
        call.algorithm = g == 0 ? NULL : "ring";
        CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
        CHECK(plait_allreduce(*comm, d.in, d.out, WORDS, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(plait_allreduce(*comm, d.out, d.out, WORDS, PLAIT_INT32, PLAIT_MAX, &call) == PLAIT_OK);
        CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec[g], graph, 0) == 0);
        CHECK(device.graph_destroy(graph) == 0);
    }
    call.algorithm = NULL;
    for (uint32_t k = 0; k < (light() ? REPLAYS / 10 : full() ? REPLAYS : REPLAYS / 2); k++) {
        CHECK(device.launch(exec[below(&random, 2)], d.cuda) == 0);
        for (uint32_t eager = below(&random, 3); eager > 1; eager--)
            CHECK(plait_allreduce(*comm, d.in, d.out, WORDS, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        if (k % 100 != 99)
            continue;
        CHECK(device_read(&d, values, d.out, sizeof values));
        for (int i = 0; i < WORDS; i++)
            CHECK(values[i] == (int32_t)(nrank * (nrank - 1) / 2) + (int32_t)nrank * i);
        memset(values, 0, sizeof values);
        CHECK(device_write(&d, d.out, values, sizeof values));
        CHECK(device.stream_synchronize(d.cuda) == 0);
    }
    CHECK(device.exec_destroy(exec[0]) == 0 && device.exec_destroy(exec[1]) == 0);
    CHECK(device_end(&d));
    return 0;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

static unsigned run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *), void *arg)
{
    struct ranks r = {
        .nprocess = nprocess, .nthread = nthread, .limit = 120, .body = body, .arg = arg, .options.deadline = 60
    };

    pthread_barrier_init(&in_process, NULL, nthread);
    const unsigned failed = device_ranks_run(&r);
    pthread_barrier_destroy(&in_process);
    return failed;
}

static void set(const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

static uint32_t gpus(void)
{
    const char *n = getenv("PLAIT_TEST_DEVICES");

    return n != NULL ? (uint32_t)atoi(n) : 0;
}

static void run_seed(uint64_t seed, bool fails)
{
    static const uint32_t delays[] = { 0, 5, 50, 300 };
    uint64_t random = seed;
    struct job j = { .seed = seed, .fails = fails };

    j.nprocess = 1 + below(&random, 3);
    j.nthread = 1 + below(&random, j.nprocess == 1 ? 4 : 2);
    j.ndevice = 1 + below(&random, gpus() > 0 && gpus() < 3 ? gpus() : 3);
    set("PLAIT_STANDIN_DEVICES", j.ndevice);
    set("PLAIT_STANDIN_SEED", seed);
    set("PLAIT_STANDIN_DELAY", delays[below(&random, 4)]);
    const unsigned failed = run(j.nprocess, j.nthread, do_job, &j);
    if (failed > 0)
        fail_msg("%u ranks failed: %u processes of %u ranks, %u devices; PLAIT_SEED=%llu", failed, j.nprocess,
                 j.nthread, j.ndevice, (unsigned long long)seed);
}

static void run_seeds(unsigned few, unsigned many, bool fails)
{
    const char *given = getenv("PLAIT_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 10) : kept_time() * 10000;
    const unsigned n = given != NULL ? 1 : full() ? many : light() ? few / 6 : few;

    printf("%u seeds from %llu\n", n, (unsigned long long)first);
    for (unsigned i = 0; i < n; i++)
        run_seed(first + i, fails);
}

static void random_jobs_are_right(void **state)
{
    run_seeds(18, 3000, false);
}

static void random_jobs_end_when_a_call_of_the_driver_fails(void **state)
{
    if (gpus() > 0)
        skip(); /* a driver fails none */
    run_seeds(6, 1000, true);
}

/* On one host: no operation over hosts is in a graph */
static void a_thousand_replays_between_other_calls(void **state)
{
    uint32_t one = 1, two = gpus() == 1 ? 1 : 2;

    set("PLAIT_STANDIN_DEVICES", 2);
    set("PLAIT_STANDIN_DELAY", full() ? 20 : 2);
    assert_int_equal(run(1, 3, replay, &one), 0);
    assert_int_equal(run(2, 1, replay, &two), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_are_right),
        cmocka_unit_test(random_jobs_end_when_a_call_of_the_driver_fails),
        test_on_one_host(a_thousand_replays_between_other_calls),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    setenv("PLAIT_LOG_FILE", "/dev/null", 0);
    return run_tests_of_this_place("random jobs on devices", tests);
}
