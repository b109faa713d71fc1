/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that ranks of one GPU make as a whole (lib/device/device_whole.h): their results, the calls of the driver
 * that each rank makes, the nodes of a graph, and how often processes must take turns on the GPU.
 */
#include "../collective.h"
#include "../random.h"
#include "../ranks.h"
#include "../tier.h"
#include "device.h"
#include "device_operate.h"
#include "unit_device.h"

#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls for an operation: of the leader of all, of others, of leaders of groups between which a plan runs. */
enum { ROOM = 1 << 18, LEADER_PUTS = 3, OTHERS_PUT = 2, LEADERS_PUT = 10 };

/* ---- Results ---------------------------------------------------------------------------------------------- */

static struct collective draw(uint64_t *seed, uint32_t nrank)
{
    static const size_t counts[] = { 1, 3, 16, 100, 1001, 4099 };
    const uint32_t i = (uint32_t)(random_next(seed) % (NCOLLECTIVE + 3));
    struct collective c = { .coll = i < NCOLLECTIVE ? collectives[i] : PLAIT_ALLREDUCE,
                            .type = (enum plait_dtype)(random_next(seed) % PLAIT_NDTYPE),
                            .count = counts[random_next(seed) % 6] };
    const struct plait_geometry g = plait_geometry_of(c.coll, nrank, 0, 0, 1);
    static const enum plait_op ops[] = { PLAIT_SUM, PLAIT_PROD, PLAIT_MAX, PLAIT_MIN, PLAIT_AVG };

    if (g.combines)
        c.op = ops[random_next(seed) % 5];
    if (g.rooted)
        c.root = (uint32_t)(random_next(seed) % nrank);
    c.inplace = g.kind != PLAIT_KIND_PAIR && random_next(seed) % 2 != 0;
    c.mixed = random_next(seed) % 2 != 0;
    for (unsigned k = 0; k < NSIZED; k++)
        if (sized_collectives[k] == c.coll && random_next(seed) % 2 != 0)
            c.sizes = 1 + (uint32_t)(random_next(seed) % 100);
    return c;
}

struct place {              /* of the ranks */
    uint32_t ndevice, each; /* devices; neighbours on one */
    bool hidden;            /* memory of all ranks but 0 has no handle */
};

static int device_of(const struct place *p, uint32_t rank)
{
    const char *n = getenv("PLAIT_TEST_DEVICES"); /* the driver is a GPU's, with n of them */
    const uint32_t most = n != NULL ? (uint32_t)atoi(n) : p->ndevice;

    return (int)(rank / p->each % (most < p->ndevice ? most : p->ndevice));
}

static int draw_many(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct place *p = arg;
    const uint32_t nrank = plait_comm_nrank(*comm), n = full() ? 400 : 60;
    uint64_t seed = 100 + nrank + p->ndevice;
    struct device_rank d;

    CHECK(device_load());
    ask.standin_hide(p->hidden && rank > 0);
    CHECK(device_begin_on(&d, (size_t)nrank * nrank * 4099 * 8 + ROOM, device_of(p, rank)));
    ask.standin_hide(0);
    for (uint32_t i = 0; i < n; i++) {
        const struct collective c = draw(&seed, nrank);
        if (device_operate(*comm, rank, &d, &c, i % 4 == 3 && c.sizes == 0) != 0)
            return 1;
    }
    CHECK(device_end(&d));
    return 0;
}

static void any_collective_of_any_number_of_ranks_gives_what_its_plan_says(void **state)
{
    struct place one = { 1, 1 };

    for (uint32_t n = 1; n <= 9; n += n == 1 || full() ? 1 : 3)
        device_run(1, n, draw_many, &one);
    device_run(3, 1, draw_many, &one);
    device_run(2, 2, draw_many, &one);
}

/* Groups of equal and of different numbers of ranks, of neighbours and of others. */
static void so_it_does_where_groups_of_ranks_share_devices(void **state)
{
    struct place places[] = { { 2, 1 }, { 2, 2 }, { 3, 1 }, { 3, 2 } };

    setenv("PLAIT_STANDIN_DEVICES", "3", 1);
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        device_run(1, 3 + i, draw_many, &places[i]);
        device_run(2, 2, draw_many, &places[i]);
        if (full())
            device_run(6, 1, draw_many, &places[i]);
    }
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* Its rank copies it. */
static void memory_that_has_no_handle_is_copied(void **state)
{
    struct place one = { 1, 1, true }, two = { 2, 1, true };

    device_run(3, 1, draw_many, &one);
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    device_run(4, 1, draw_many, &two);
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* The same bits as by the steps of a plan in the canonical order, of numbers whose sums depend on it. */
static int compare_bits(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { N = 1000, BYTES = N * 4 };
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_FLOAT16 };
    const struct place *p = arg;
    uint64_t seed = 7 + rank;
    struct device_rank d;
    unsigned char want[BYTES], got[BYTES];

    CHECK(device_begin_on(&d, ROOM, device_of(p, rank)));
    for (unsigned k = 0; k < 6; k++) {
        struct plait_call call = PLAIT_CALL_DEFAULT;
        const enum plait_op op = k < 3 ? PLAIT_SUM : PLAIT_AVG;
        for (size_t i = 0; i < BYTES / 2; i++) { /* no NaN or infinity of any of the types */
            const uint16_t bits = (uint16_t)(random_next(&seed) >> 20 & 0x9fff) | 0x2000;
            memcpy(d.host + 2 * i, &bits, 2);
        }
        CHECK(device_write(&d, d.in, d.host, BYTES));
        call.stream = d.stream;
        call.reproducible = 1;
        CHECK(plait_allreduce(*comm, d.in, d.out, N, types[k % 3], op, &call) == PLAIT_OK);
        CHECK(device_read(&d, got, d.out, N * plait_dtype_size(types[k % 3])));
        call.algorithm = "two-shot";
        CHECK(plait_allreduce(*comm, d.in, d.out, N, types[k % 3], op, &call) == PLAIT_OK);
        CHECK(device_read(&d, want, d.out, N * plait_dtype_size(types[k % 3])));
        CHECK(memcmp(want, got, N * plait_dtype_size(types[k % 3])) == 0);
    }
    CHECK(device_end(&d));
    return 0;
}

static void reproducible_sums_have_the_bits_of_the_canonical_order(void **state)
{
    struct place places[] = { { 1, 1 }, { 2, 1 }, { 3, 2 }, { 2, 4 }, { 2, 3 } };

    setenv("PLAIT_STANDIN_DEVICES", "3", 1);
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        device_run(1, 4, compare_bits, &places[i]);
        device_run(1, 5, compare_bits, &places[i]);
        device_run(1, 6, compare_bits, &places[i]);
    }
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* The leaders' plan has memory of its own for graphs, which are in no order with calls. */
static int run_graph_beside_calls(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { N = 500, TIMES = 5 };
    const struct place *p = arg;
    struct plait_call call = PLAIT_CALL_DEFAULT, captured = PLAIT_CALL_DEFAULT;
    struct device_rank d, beside;
    void *graph, *exec;

    CHECK(device_begin_on(&d, ROOM, device_of(p, rank)) && device_begin_on(&beside, ROOM, device_of(p, rank)));
    captured.stream = d.stream;
    call.stream = beside.stream;
    CHECK(plait_allreduce(*comm, beside.in, beside.out, N, PLAIT_BFLOAT16, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(device.stream_synchronize(beside.cuda) == 0 && device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_allreduce(*comm, d.in, d.out, N, PLAIT_BFLOAT16, PLAIT_SUM, &captured) == PLAIT_OK);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    for (unsigned i = 0; i < TIMES; i++) {
        CHECK(device.launch(exec, d.cuda) == 0);
        CHECK(plait_allreduce(*comm, beside.in, beside.out, N, PLAIT_BFLOAT16, PLAIT_SUM, &call) == PLAIT_OK);
    }
    CHECK(device.stream_synchronize(d.cuda) == 0 && device.stream_synchronize(beside.cuda) == 0);
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    CHECK(device_end(&d) && device_end(&beside));
    return 0;
}

static void graphs_of_groups_run_beside_calls(void **state)
{
    struct place two = { 2, 2 };

    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    device_run(1, 4, run_graph_beside_calls, &two);
    device_run(4, 1, run_graph_beside_calls, &two);
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* Rank 1 sends 19 elements where all expect 20. */
static int send_too_few(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[] = { 10, rank == 1 ? 19 : 20, 30 }, at[] = { 0, 10, 30 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    ask.standin_careless(1);
    call.stream = d.stream;
    const enum plait_status status = plait_allgatherv(*comm, d.in, d.out, counts, at, PLAIT_FLOAT32, &call);
    CHECK(status == PLAIT_ERR_MISMATCH || status == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), "rank 1 sends 76 bytes where rank 0 expects 80") != NULL);
    CHECK(device_leave(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static void blocks_of_other_sizes_than_expected_are_an_error_of_all(void **state)
{
    device_run(1, 3, send_too_few, NULL);
    device_run(3, 1, send_too_few, NULL);
}

/* ---- Memory ----------------------------------------------------------------------------------------------- */

static const struct collective growing[] = {
    /* the leaders' plan, scaled input, input in place */
    { PLAIT_ALLREDUCE, "", PLAIT_BFLOAT16, PLAIT_SUM },
    { PLAIT_REDUCE_SCATTER, "", PLAIT_FLOAT32, PLAIT_PREMULSUM },
    { PLAIT_ALLTOALL, "", PLAIT_UINT8, .inplace = true },
};

/* Bytes of this process's device memory that operations of `from`, `from` + 100 and so on add to a new comm's. */
static int bytes_of(struct plait_comm *world, uint32_t rank, const struct device_rank *d, const struct collective *kind,
                    size_t from, unsigned long long *out)
{
    enum { MOST = 8000, STEP = 100 };
    const float scale = 2;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *comm;
    unsigned long long before = 0;

    CHECK(plait_comm_duplicate(world, NULL, &comm) == PLAIT_OK);
    call.stream = d->stream;
    call.scale = kind->op == PLAIT_PREMULSUM ? &scale : NULL;
    for (size_t n = 8; n <= MOST; n = n == 8 ? from : n + STEP) { /* the first makes what each comm has */
        struct collective c = *kind;
        c.count = n;
        const struct collective_buffers at = collective_place(&c, plait_comm_nrank(comm), rank, d->in, d->out);
        CHECK(collective_call(comm, &c, at.in, at.out, call) == PLAIT_OK);
        before = n == 8 ? ask.standin_bytes() : before;
    }
    *out = ask.standin_bytes() - before;
    CHECK(plait_stream_synchronize(d->stream) == PLAIT_OK && plait_comm_destroy(comm) == PLAIT_OK);
    return 0;
}

static int grow(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct place *p = arg;
    struct device_rank d;

    CHECK(device_begin_on(&d, ROOM, device_of(p, rank)));
    for (unsigned k = 0; k < sizeof growing / sizeof *growing; k++) {
        unsigned long long one, many;
        if (bytes_of(*comm, rank, &d, &growing[k], 8000, &one) != 0 ||
            bytes_of(*comm, rank, &d, &growing[k], 1000, &many) != 0)
            return 1;
        if (many > 4 * one)
            fprintf(stderr, "kind %u: %llu bytes, of the largest operation %llu\n", k, many, one);
        CHECK(many <= 4 * one);
    }
    CHECK(device_end(&d));
    return 0;
}

static void operations_that_grow_keep_four_times_the_memory_of_the_largest_at_most(void **state)
{
    struct place two = { 2, 2 };

    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    device_run(4, 1, grow, &two);
    unsetenv("PLAIT_STANDIN_DEVICES");
}

static int grow_where_memory_is_short(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { LESS = 1000, MORE = 1100 };
    struct collective c = { PLAIT_ALLTOALL, "", PLAIT_INT32, .inplace = true, .count = LESS };
    const size_t need = plait_comm_nrank(*comm) * MORE * sizeof(int32_t); /* less than twice what it has */
    struct device_rank d;

    CHECK(device_begin(&d, ROOM) && device_operate(*comm, rank, &d, &c, false) == 0);
    const unsigned long long before = ask.standin_bytes(), counted = before > 0 ? need : 0;
    c.count = MORE;
    ask.standin_limit(before + need);
    CHECK(device_operate(*comm, rank, &d, &c, false) == 0);
    ask.standin_limit(0);
    CHECK(ask.standin_bytes() - before == counted);
    CHECK(device_end(&d));
    return 0;
}

static void memory_that_cannot_double_grows_to_what_is_needed(void **state)
{
    device_run(2, 1, grow_where_memory_is_short, NULL);
}

/* ---- What errors name -------------------------------------------------------------------------------------- */

/* Rank 1 does not call the operation of this number. */
struct absence {
    struct place place;
    unsigned number;
    const char *named; /* in the error of rank 0 */
    bool steps;        /* too */
};

static int miss_one(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct absence *a = arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin_on(&d, ROOM, device_of(&a->place, rank)));
    ask.standin_careless(1);
    call.stream = d.stream;
    for (unsigned k = 1; k <= a->number; k++) {
        if (rank == 1 && k == a->number)
            continue;
        const enum plait_status status = plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call);
        CHECK((status == PLAIT_OK) == (k < a->number));
    }
    while (plait_comm_status(*comm) == PLAIT_OK)
        usleep(1000);
    CHECK(rank == 1 ||
          (strstr(plait_last_error(), a->named) != NULL && (strstr(plait_last_error(), " steps") != NULL) == a->steps));
    CHECK(device_leave(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static void errors_name_the_algorithm_and_the_steps_only_if_there_are_some(void **state)
{
    struct absence all[] = {
        { { 1, 1 }, 1, "allreduce #1 (100 int32 sum): ", false }, /* it is not known yet how it would be made */
        { { 1, 1 }, 2, "allreduce #2 (100 int32 sum, one kernel): ", false },
        { { 2, 1 }, 2, "allreduce #2 (100 int32 sum, one-shot), 0 of ", true },
    };

    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        const struct ranks r = { .nprocess = 1,
                                 .nthread = 2,
                                 .body = miss_one,
                                 .arg = &all[i],
                                 .options.deadline = all[i].number == 1 ? 1 : 3 };
        if (!all[i].steps || device_of(&all[i].place, 1) != device_of(&all[i].place, 0)) /* there may be one only */
            assert_int_equal(device_ranks_run(&r), 0);
    }
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* ---- Calls of the driver ----------------------------------------------------------------------------------- */

static const struct collective counted[] = {
    { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, PLAIT_SUM, .count = 2048 },
    { PLAIT_ALLREDUCE, "", PLAIT_BFLOAT16, PLAIT_AVG, .count = 9 },
    { PLAIT_REDUCE_SCATTER, "", PLAIT_FLOAT32, PLAIT_SUM, .count = 300 },
    { PLAIT_ALLGATHER, "", PLAIT_INT32, .count = 300 },
    { PLAIT_BROADCAST, "", PLAIT_INT32, .count = 700, .root = 1 },
    { PLAIT_REDUCE, "", PLAIT_FLOAT16, PLAIT_MAX, .count = 700 },
    { PLAIT_GATHER, "", PLAIT_INT32, .count = 200 },
    { PLAIT_SCATTER, "", PLAIT_INT32, .count = 200, .root = 1 },
    { PLAIT_ALLTOALL, "", PLAIT_INT32, .count = 100 },
    { PLAIT_ALLTOALL, "", PLAIT_INT32, .count = 100, .sizes = 5 },
    { PLAIT_ALLGATHER, "", PLAIT_INT32, .count = 100, .sizes = 6 },
    { PLAIT_BARRIER, "", PLAIT_INT32 },
};
enum { NCOUNTED = sizeof counted / sizeof *counted };

static bool leads(const struct place *p, uint32_t rank)
{
    bool first = true;

    for (uint32_t r = 0; r < rank; r++)
        first &= device_of(p, r) != device_of(p, rank);
    return first;
}

/* The same operation some times, as a request or not: no more is put on this rank's stream than it may be. */
static int put_some(struct plait_comm *comm, uint32_t rank, const struct device_rank *d, const struct collective *c,
                    bool requests, unsigned times)
{
    const struct collective_buffers at = collective_place(c, plait_comm_nrank(comm), rank, d->in, d->out);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;

    call.stream = d->stream;
    call.request = requests ? &request : NULL;
    for (unsigned i = 0; i < times; i++) {
        CHECK(collective_call(comm, c, at.in, at.out, call) == PLAIT_OK);
        CHECK(plait_wait(&request) == PLAIT_OK);
    }
    return 0;
}

static int count_calls(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct place *p = arg;
    struct device_rank d;

    CHECK(device_begin_on(&d, ROOM, device_of(p, rank)));
    for (unsigned k = 0; k < NCOUNTED; k++) {
        if (p->ndevice > 1 && counted[k].sizes != 0)
            continue;
        if (put_some(*comm, rank, &d, &counted[k], false, 1) != 0) /* the first makes what the others need */
            return 1;
        const unsigned long long before = ask.standin_puts(d.cuda);
        if (put_some(*comm, rank, &d, &counted[k], k % 2 == 1, 5) != 0)
            return 1;
        const unsigned long long puts = ask.standin_puts(d.cuda) - before, most = !leads(p, rank)  ? OTHERS_PUT
                                                                                  : p->ndevice > 1 ? LEADERS_PUT
                                                                                                   : LEADER_PUTS;
        if (puts > 5 * most)
            fprintf(stderr, "rank %u: %s: %llu calls for 5 operations\n", rank, plait_coll_name(counted[k].coll), puts);
        CHECK(puts <= 5 * most);
    }
    CHECK(device_end(&d));
    return 0;
}

static void a_rank_puts_little_on_its_stream_whatever_their_number(void **state)
{
    struct place one = { 1, 1 }, two = { 2, 2 };

    device_run(1, 2, count_calls, &one);
    device_run(1, 8, count_calls, &one);
    device_run(3, 1, count_calls, &one);
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    device_run(1, 4, count_calls, &two);
    device_run(4, 1, count_calls, &two);
    two.each = 4;
    device_run(1, 8, count_calls, &two);
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* The leader's calls: batches of waits, kernels, batches of flags. One operation at a time: all in one call each. */
static int count_many(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { TIMES = 3, FLAGS = 64, BLOCKS = 72 }; /* in one batch, in one kernel */
    const struct collective reduce = { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, PLAIT_SUM, .count = 8 };
    const struct collective exchange = { PLAIT_ALLTOALL, "", PLAIT_INT32, .count = 3, .sizes = 5 };
    const uint32_t n = plait_comm_nrank(*comm), flags = (n - 1 + FLAGS - 1) / FLAGS;
    struct device_rank d;

    (void)arg;
    CHECK(device_begin(&d, ROOM));
    for (unsigned k = 0; k < (n <= 16 ? 2 : 1); k++) {
        const unsigned long long most = 1 + flags + (k == 1 ? (n * n + BLOCKS - 1) / BLOCKS : 1);
        if (put_some(*comm, rank, &d, k == 1 ? &exchange : &reduce, false, 1) != 0)
            return 1;
        const unsigned long long before = ask.standin_puts(d.cuda);
        if (put_some(*comm, rank, &d, k == 1 ? &exchange : &reduce, false, TIMES) != 0)
            return 1;
        CHECK(ask.standin_puts(d.cuda) - before <= TIMES * (rank == 0 ? most : OTHERS_PUT));
    }
    CHECK(device_end(&d));
    return 0;
}

static void many_ranks_and_blocks_take_further_batches_and_kernels(void **state)
{
    device_run(1, 9, count_many, NULL);
    device_run(1, 16, count_many, NULL);
    device_run(1, 65, count_many, NULL);
    device_run(1, 70, count_many, NULL);
}

/*
 * The driver is asked once for the handle of an allocation, however often they alternate; so it is if there is none. And
 * an operation makes no call that captures do not allow.
 */
static unsigned long long rare_calls(void)
{
    return ask.standin_named("cuIpcGetMemHandle") + ask.standin_named("cuThreadExchangeStreamCaptureMode");
}

static int alternate(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { TIMES = 10 };
    const struct place *p = arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    unsigned long long before = 0;
    struct device_rank d, other;

    CHECK(device_load());
    ask.standin_hide(p->hidden);
    CHECK(device_begin(&d, ROOM) && device_begin(&other, ROOM));
    ask.standin_hide(0);
    call.stream = d.stream;
    for (unsigned i = 0; i < 2 + TIMES; i++) {
        const struct device_rank *use = i % 2 != 0 ? &other : &d;
        before = i == 2 ? rare_calls() : before;
        CHECK(plait_allreduce(*comm, use->in, use->out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        if (!p->hidden)
            CHECK((rank == 0 ? plait_send(*comm, use->in, 9, PLAIT_INT32, 1, &call)
                             : plait_recv(*comm, use->out, 9, PLAIT_INT32, 0, &call)) == PLAIT_OK);
    }
    CHECK(rare_calls() == before);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK && device_end(&d) && device_end(&other));
    return 0;
}

static void a_handle_is_asked_for_once(void **state)
{
    struct place shown = { 1, 1 }, hidden = { 1, 1, true };

    device_run(2, 1, alternate, &shown);
    device_run(2, 1, alternate, &hidden);
}

/* By a plan's steps: each rank sends the others 7 + 7 messages. A turn enqueues all of its steps together. */
static int count_steps(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { ROUNDS = 30, MOST = 14 };
    const struct collective c = { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, PLAIT_SUM, .count = 2048 };
    const struct place *p = arg;
    unsigned long long least = UINT64_MAX;
    struct device_rank d;

    CHECK(device_begin_on(&d, ROOM, device_of(p, rank)));
    for (unsigned k = 0; k < ROUNDS; k++) {
        const unsigned long long before = ask.standin_puts(d.cuda);
        CHECK(put_some(*comm, rank, &d, &c, false, 1) == 0);
        const unsigned long long puts = ask.standin_puts(d.cuda) - before;
        least = puts < least ? puts : least;
    }
    CHECK(least <= MOST);
    CHECK(device_end(&d));
    return 0;
}

static void steps_of_a_plan_are_put_together(void **state)
{
    struct place one = { 1, 1 }, four = { 4, 1 };

    device_run(1, 8, count_steps, &one);
    setenv("PLAIT_STANDIN_DEVICES", "4", 1);
    device_run(1, 8, count_steps, &four);
    unsetenv("PLAIT_STANDIN_DEVICES");
}

static int count_nodes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (unsigned k = 0; k < NCOUNTED; k++) {
        void *graph;
        size_t n = 0;
        CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
        if (put_some(*comm, rank, &d, &counted[k], false, 4) != 0)
            return 1;
        CHECK(device.capture_end(d.cuda, &graph) == 0 && device.graph_nodes(graph, NULL, &n) == 0);
        CHECK(device.graph_destroy(graph) == 0);
        CHECK(n <= 4U * (rank == 0 ? LEADER_PUTS : OTHERS_PUT));
    }
    CHECK(device_end(&d));
    return 0;
}

static void a_graph_has_few_nodes(void **state)
{
    device_run(1, 4, count_nodes, NULL);
    device_run(2, 1, count_nodes, NULL);
}

/* All others, the leader, all others: the last are the first of the next operation, too. */
static int count_hands(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { TIMES = 10 };
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    if (put_some(*comm, rank, &d, &counted[0], false, 1) != 0) /* the first knows what was before it */
        return 1;
    for (unsigned k = 0; k < NCOUNTED; k++) {
        CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
        const unsigned long long before = ask.standin_hands(d.cuda);
        if (put_some(*comm, rank, &d, &counted[k], false, TIMES) != 0)
            return 1;
        CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
        CHECK(ask.standin_hands(d.cuda) - before <= 2 * TIMES);
    }
    CHECK(device_end(&d));
    return 0;
}

static void processes_take_turns_as_often_as_an_operation_means(void **state)
{
    device_run(2, 1, count_hands, NULL);
    device_run(5, 1, count_hands, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_collective_of_any_number_of_ranks_gives_what_its_plan_says),
        cmocka_unit_test(so_it_does_where_groups_of_ranks_share_devices),
        cmocka_unit_test(reproducible_sums_have_the_bits_of_the_canonical_order),
        cmocka_unit_test(memory_that_has_no_handle_is_copied),
        cmocka_unit_test(graphs_of_groups_run_beside_calls),
        cmocka_unit_test(blocks_of_other_sizes_than_expected_are_an_error_of_all),
        cmocka_unit_test(operations_that_grow_keep_four_times_the_memory_of_the_largest_at_most),
        cmocka_unit_test(memory_that_cannot_double_grows_to_what_is_needed),
        cmocka_unit_test(errors_name_the_algorithm_and_the_steps_only_if_there_are_some),
        cmocka_unit_test(a_rank_puts_little_on_its_stream_whatever_their_number),
        cmocka_unit_test(many_ranks_and_blocks_take_further_batches_and_kernels),
        cmocka_unit_test(a_handle_is_asked_for_once),
        cmocka_unit_test(steps_of_a_plan_are_put_together),
        cmocka_unit_test(a_graph_has_few_nodes),
        cmocka_unit_test(processes_take_turns_as_often_as_an_operation_means),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return cmocka_run_group_tests_name("device_whole", tests, NULL, NULL);
}
