/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a device's memory in the order of its streams, beside collectives. */
#include "../places.h"
#include "../random.h"
#include "../ranks.h"
#include "../tier.h"
#include "device.h"
#include "unit_device.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Buffers have parts, one for each message; the last one is for collectives. */
enum { MOST = 3000, MANY = 40, PARTS = MANY + 1, ROOM = PARTS * MOST * sizeof(int32_t) };

static int32_t *part(char *memory, uint32_t i)
{
    return (int32_t *)(void *)memory + i * MOST;
}

static int32_t value(uint32_t rank, uint32_t i, int32_t k)
{
    return (int32_t)(rank * 1000 + i) + 100000 * k;
}

static int fill(struct device_rank *d, uint32_t rank, int32_t k, bool wait)
{
    int32_t *host = (int32_t *)(void *)d->host;

    for (uint32_t i = 0; i < PARTS * MOST; i++)
        host[i] = value(rank, i / MOST, k);
    CHECK(device_write(d, d->in, host, ROOM));
    CHECK(!wait || device.stream_synchronize(d->cuda) == 0);
    return 0;
}

/* Part i of OUT begins with n elements of this value. */
static int check(struct device_rank *d, uint32_t rank, uint32_t i, size_t n, int32_t want)
{
    int32_t got[MOST];

    CHECK(device_read(d, got, part(d->out, i), n * sizeof *got));
    for (size_t j = 0; j < n; j++)
        if (got[j] != want) {
            fprintf(stderr, "rank %u: part %u, element %zu of %zu: %d, not %d\n", rank, i, j, n, got[j], want);
            return 1;
        }
    return 0;
}

static enum plait_status send(struct plait_comm *comm, struct device_rank *d, uint32_t i, size_t n, uint32_t to,
                              const struct plait_call *call)
{
    return plait_send(comm, part(d->in, i), n, PLAIT_INT32, to, call);
}

static enum plait_status recv(struct plait_comm *comm, struct device_rank *d, uint32_t i, size_t n, uint32_t from,
                              const struct plait_call *call)
{
    return plait_recv(comm, part(d->out, i), n, PLAIT_INT32, from, call);
}

/* As threads, and as processes that map each other's memory. */
static void run_both(uint32_t nrank, int (*body)(struct plait_comm **, uint32_t, void *))
{
    device_run(1, nrank, body, NULL);
    device_run(2, nrank > 2 ? 2 : 1, body, NULL);
}

/* ---- Calls of the driver ----------------------------------------------------------------------------------- */

/*
 * Many messages to each rank in one group: what is there at one time is put on the stream together. How much that is
 * depends on the other ranks, so the best of some rounds counts.
 */
static int count_calls(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { EACH = 10, ROUNDS = 20, EACH_PEER = 4, OTHERS = 3 };
    const uint32_t nrank = plait_comm_nrank(*comm), n = EACH * nrank;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    unsigned long long least = UINT64_MAX;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM) && n <= PARTS);
    call.stream = d.stream;
    for (int32_t k = 0; k < ROUNDS; k++) {
        CHECK(fill(&d, rank, k, true) == 0);
        const unsigned long long before = ask.standin_puts(d.cuda);
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t i = 0; i < n; i++) {
            CHECK(send(*comm, &d, i, 50, i % nrank, &call) == PLAIT_OK);
            CHECK(recv(*comm, &d, i, 50, i % nrank, &call) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        const unsigned long long puts = ask.standin_puts(d.cuda) - before;
        least = puts < least ? puts : least;
        for (uint32_t i = 0; i < n; i++)
            CHECK(check(&d, rank, i, 50, value(i % nrank, i / nrank * nrank + rank, k)) == 0);
    }
    CHECK(least <= EACH_PEER * (nrank - 1) + OTHERS);
    CHECK(device_end(&d));
    return 0;
}

static void messages_of_a_group_are_put_on_the_stream_together(void **state)
{
    device_run(1, 2, count_calls, NULL);
    device_run(1, 4, count_calls, NULL);
    device_run(2, 1, count_calls, NULL);
}

/* All are there at once; the last one that was called comes last. */
static int into_one_place(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { N = 5 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[N];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (int32_t k = 0; k < 10; k++) {
        CHECK(fill(&d, rank, k, true) == 0);
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t i = 0; i < N; i++) {
            call.request = &r[i];
            CHECK((rank == 0 ? send(*comm, &d, i, 50, 1, &call) : recv(*comm, &d, 7, 50, 0, &call)) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_wait_all(r, N) == PLAIT_OK);
        CHECK(rank == 0 || check(&d, rank, 7, 50, value(0, N - 1, k)) == 0);
    }
    CHECK(device_end(&d));
    return 0;
}

static void messages_into_one_place_follow_each_other(void **state)
{
    run_both(2, into_one_place);
}

/* ---- Patterns --------------------------------------------------------------------------------------------- */

/* More than a window of messages to the next rank; then a sum of what came, behind them on the stream. */
static int ring(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm), next = (rank + 1) % nrank, before = (rank + nrank - 1) % nrank;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    for (int32_t k = 0; k < (full() ? 30 : 6); k++) {
        if (fill(&d, rank, k, false) != 0)
            return 1;
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t i = 0; i < MANY; i++) {
            CHECK(send(*comm, &d, i, i * 7 % MOST, next, &call) == PLAIT_OK);
            CHECK(recv(*comm, &d, i, i * 7 % MOST, before, &call) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_allreduce(*comm, part(d.out, 3), part(d.out, MANY), 21, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(plait_allreduce(*comm, part(d.out, MANY), part(d.in, 5), 21, PLAIT_INT32, PLAIT_MAX, &call) == PLAIT_OK);
        for (uint32_t i = 0; i < MANY; i++)
            if (check(&d, rank, i, i * 7 % MOST, value(before, i, k)) != 0)
                return 1;
        int32_t sum = 0;
        for (uint32_t r = 0; r < nrank; r++)
            sum += value(r, 3, k);
        if (check(&d, rank, MANY, 21, sum) != 0)
            return 1;
    }
    CHECK(device_end(&d));
    return 0;
}

static void a_ring_of_many_messages_before_collectives(void **state)
{
    device_run(1, 1, ring, NULL);
    run_both(2, ring);
    run_both(4, ring);
}

/* Part r of IN goes to rank r. */
static int all_to_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (int32_t k = 0; k < (full() ? 60 : 12); k++) {
        const size_t n = (size_t)k * 211 % MOST;
        call.stream = k % 3 == 2 ? NULL : d.stream;
        if (fill(&d, rank, k, k % 3 == 2) != 0)
            return 1;
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t r = 0; r < nrank; r++) {
            CHECK(recv(*comm, &d, r, n, r, &call) == PLAIT_OK);
            CHECK(send(*comm, &d, r, n, r, &call) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        for (uint32_t r = 0; r < nrank; r++)
            if (check(&d, rank, r, n, value(r, rank, k)) != 0)
                return 1;
    }
    CHECK(device_end(&d));
    return 0;
}

static void all_send_to_all_and_to_themselves(void **state)
{
    device_run(1, 1, all_to_all, NULL);
    run_both(2, all_to_all);
    run_both(4, all_to_all);
}

struct random_message {
    uint32_t from, to;
    size_t count;
};

/* Each rank's own choice: on one of two streams or on none, for a request or not. */
static struct plait_call any_call(uint64_t *own, const struct device_rank *d, struct plait_stream *second,
                                  struct plait_request **r)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const uint64_t draw = random_next(own);

    call.stream = draw % 3 == 0 ? d->stream : draw % 3 == 1 ? second : NULL;
    call.request = draw / 3 % 2 ? r : NULL;
    return call;
}

/* A batch of messages between any ranks as one group, their receives first or their sends. */
static int batch(struct plait_comm *comm, uint32_t rank, struct device_rank *d, struct plait_stream *second,
                 const struct random_message *m, uint32_t first, uint32_t n, uint64_t *own,
                 struct plait_request *(*r)[2])
{
    const bool turned = random_next(own) % 2;

    CHECK(plait_group_start() == PLAIT_OK);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = first; i < first + n; i++) {
            const bool sends = turned == (pass == 0);
            const struct plait_call call = any_call(own, d, second, &r[i][pass]);
            if (sends && m[i].from == rank)
                CHECK(send(comm, d, i, m[i].count, m[i].to, &call) == PLAIT_OK);
            if (!sends && m[i].to == rank)
                CHECK(recv(comm, d, i, m[i].count, m[i].from, &call) == PLAIT_OK);
        }
    if (random_next(own) % 2) { /* with a collective or not is each rank's choice: it comes then */
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_group_start() == PLAIT_OK);
    }
    const struct plait_call call = any_call(own, d, second, &r[MANY][0]);
    CHECK(plait_allreduce(comm, part(d->in, MANY), part(d->out, MANY), 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_OK);
    return 0;
}

static int any_pattern(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    uint64_t common = 1, own = 100 + rank;
    struct random_message m[MANY];
    struct plait_stream *second;
    struct device_rank d;
    void *cuda;

    CHECK(device_begin(&d, ROOM));
    CHECK(device.stream_create(&cuda, 1) == 0 && plait_stream_create_cuda(cuda, &second) == PLAIT_OK);
    for (int32_t k = 0; k < (full() ? 60 : 12); k++) {
        struct plait_request *r[PARTS][2] = { { NULL } };
        if (fill(&d, rank, k, true) != 0)
            return 1;
        for (uint32_t i = 0; i < MANY; i++)
            m[i] = (struct random_message){ .from = (uint32_t)(random_next(&common) % nrank),
                                            .to = (uint32_t)(random_next(&common) % nrank),
                                            .count = random_next(&common) % MOST };
        for (uint32_t first = 0, n; first < MANY; first += n) {
            n = (uint32_t)(random_next(&common) % 15) + 1;
            n = n < MANY - first ? n : MANY - first;
            if (batch(*comm, rank, &d, second, m, first, n, &own, r) != 0)
                return 1;
            CHECK(plait_wait(&r[MANY][0]) == PLAIT_OK);
        }
        CHECK(plait_wait_all(&r[0][0], 2 * PARTS) == PLAIT_OK);
        CHECK(plait_stream_synchronize(second) == PLAIT_OK && plait_stream_synchronize(d.stream) == PLAIT_OK);
        for (uint32_t i = 0; i < MANY; i++)
            if (m[i].to == rank && check(&d, rank, i, m[i].count, value(m[i].from, i, k)) != 0)
                return 1;
    }
    CHECK(plait_stream_destroy(second) == PLAIT_OK && device.stream_destroy(cuda) == 0);
    CHECK(device_end(&d));
    return 0;
}

static void any_pattern_on_any_streams(void **state)
{
    device_run(1, 2, any_pattern, NULL);
    run_both(4, any_pattern);
}

/* ---- Forms ------------------------------------------------------------------------------------------------- */

/* Without a stream, one after the other; then requests, and persistent ones. */
static int alone(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t peer = !rank;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[4];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    CHECK(fill(&d, rank, 1, true) == 0);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK((i + rank) % 2 == 0 || recv(*comm, &d, i, MOST, peer, NULL) == PLAIT_OK);
        CHECK((i + rank) % 2 == 1 || send(*comm, &d, i, MOST, peer, NULL) == PLAIT_OK);
        if ((i + rank) % 2 == 1 && check(&d, rank, i, MOST, value(peer, i, 1)) != 0)
            return 1;
    }
    call.persistent = 1;
    for (uint32_t i = 0; i < 4; i++) {
        call.request = &r[i];
        call.stream = i < 2 ? NULL : d.stream;
        CHECK((i % 2 ? recv : send)(*comm, &d, i, 10 * i + 10 - i % 2 * 10, peer, &call) == PLAIT_OK);
    }
    for (int32_t k = 0; k < 10; k++) {
        if (fill(&d, rank, k, true) != 0)
            return 1;
        CHECK(plait_start(r[0]) == PLAIT_OK && plait_start(r[1]) == PLAIT_OK);
        CHECK(plait_wait_all(r, 2) == PLAIT_OK);
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_start(r[2]) == PLAIT_OK && plait_start(r[3]) == PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK);
        if (check(&d, rank, 1, 10, value(peer, 0, k)) != 0 || check(&d, rank, 3, 30, value(peer, 2, k)) != 0)
            return 1;
    }
    for (uint32_t i = 0; i < 4; i++)
        CHECK((i < 2 || plait_wait(&r[i]) == PLAIT_OK) && plait_request_free(&r[i]) == PLAIT_OK);
    CHECK(send(*comm, &d, 0, 1, rank, NULL) == PLAIT_ERR_ARG);
    call = (struct plait_call)PLAIT_CALL_DEFAULT;
    call.stream = d.stream;
    CHECK(send(*comm, &d, 0, 1, rank, &call) == PLAIT_ERR_ARG && strstr(plait_last_error(), "use a group") != NULL);
    CHECK(device_end(&d));
    return 0;
}

static void messages_alone_as_requests_and_persistent(void **state)
{
    run_both(2, alone);
}

static int replay(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm), next = (rank + 1) % nrank, before = (rank + nrank - 1) % nrank;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    void *graph, *exec;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_group_start() == PLAIT_OK);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(send(*comm, &d, i, 100, next, &call) == PLAIT_OK && recv(*comm, &d, i, 100, before, &call) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(plait_allreduce(*comm, part(d.out, 1), part(d.out, 5), 100, PLAIT_INT32, PLAIT_MIN, &call) == PLAIT_OK);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    for (int32_t k = 0; k < (full() ? 300 : 50); k++) {
        if (fill(&d, rank, k, false) != 0)
            return 1;
        CHECK(device.launch(exec, d.cuda) == 0);
        if (check(&d, rank, 2, 100, value(before, 2, k)) != 0 || check(&d, rank, 5, 100, value(0, 1, k)) != 0)
            return 1;
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(send(*comm, &d, 9, 9, next, &call) == PLAIT_OK && recv(*comm, &d, 9, 9, before, &call) == PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK);
        if (check(&d, rank, 9, 9, value(before, 9, k)) != 0)
            return 1;
    }
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    CHECK(device_end(&d));
    return 0;
}

/* On one host: no operation over hosts is in a graph */
static void messages_are_captured(void **state)
{
    device_run(1, 3, replay, NULL);
}

/* One thread holds all ranks, each with a stream. */
enum { HELD = 3 };

static int hold_all(struct plait_comm **unused, uint32_t rank, void *arg)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm[HELD];
    struct plait_unique_id id;
    struct device_rank d[HELD];

    CHECK(plait_unique_id_create(&id) == PLAIT_OK && plait_group_start() == PLAIT_OK);
    o.id = &id;
    o.nrank = HELD;
    for (o.rank = 0; o.rank < HELD; o.rank++)
        CHECK(plait_comm_create(&o, &comm[o.rank]) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_OK);
    for (uint32_t r = 0; r < HELD; r++)
        CHECK(device_begin(&d[r], ROOM) && fill(&d[r], r, 1, false) == 0);
    for (int32_t k = 0; k < 20; k++) {
        struct plait_request *pending[HELD] = { NULL };
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t r = 0; r < HELD; r++) {
            struct plait_call call = PLAIT_CALL_DEFAULT;
            call.stream = d[r].stream;
            CHECK(send(comm[r], &d[r], 1, 99, (r + 1) % HELD, &call) == PLAIT_OK);
            CHECK(recv(comm[r], &d[r], 1, 99, (r + HELD - 1) % HELD, &call) == PLAIT_OK);
            call.request = k % 2 ? &pending[r] : NULL;
            CHECK(plait_allreduce(comm[r], part(d[r].in, 2), part(d[r].out, 2), 99, PLAIT_INT32, PLAIT_SUM, &call) ==
                  PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK && plait_wait_all(pending, HELD) == PLAIT_OK);
        for (uint32_t r = 0; r < HELD; r++)
            if (check(&d[r], rank, 1, 99, value((r + HELD - 1) % HELD, 1, 1)) != 0 ||
                check(&d[r], rank, 2, 99, value(0, 2, 1) + value(1, 2, 1) + value(2, 2, 1)) != 0)
                return 1;
    }
    for (uint32_t r = 0; r < HELD; r++)
        CHECK(device_end(&d[r]) && plait_comm_destroy(comm[r]) == PLAIT_OK);
    return 0;
}

static void one_thread_holds_several_ranks(void **state)
{
    const struct ranks r = { .nprocess = 1, .nthread = 1, .body = hold_all, .no_comm = true };

    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Streams that go ------------------------------------------------------------------------------------------ */

/* Who compares addresses takes the new stream for the old one, and orders nothing. */
static int a_stream_in_the_place_of_another_comes_behind_it(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t peer = !rank;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    void *cuda[MANY];

    CHECK(device_begin(&d, ROOM));
    CHECK(fill(&d, rank, 1, true) == 0);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK(device.stream_create(&cuda[i], 1) == 0 && plait_stream_create_cuda(cuda[i], &call.stream) == PLAIT_OK);
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(send(*comm, &d, i, 50, peer, &call) == PLAIT_OK && recv(*comm, &d, i, 50, peer, &call) == PLAIT_OK);
        CHECK(plait_allreduce(*comm, part(d.in, MANY), part(d.out, MANY), 9, PLAIT_INT32, PLAIT_SUM, &call) ==
              PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_stream_destroy(call.stream) == PLAIT_OK);
    }
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(device.stream_synchronize(cuda[i]) == 0 && device.stream_destroy(cuda[i]) == 0);
    for (uint32_t i = 0; i < MANY; i++)
        if (check(&d, rank, i, 50, value(peer, i, 1)) != 0)
            return 1;
    CHECK(device_end(&d));
    return 0;
}

/* ---- Memory of another process ---------------------------------------------------------------------------------- */

/*
 * A driver cuts blocks of 2 MiB into small allocations and maps a block as a whole. Two allocations of one block, in which
 * nothing else is mapped by the other process.
 */
static int find_two(void *const *memory, unsigned n, void *out[2])
{
    enum { BLOCK = 21 }; /* bits */

    for (unsigned i = 0; i < n; i++) {
        unsigned same = 0;
        for (unsigned k = 0; k < n; k++)
            if ((uintptr_t)memory[k] >> BLOCK == (uintptr_t)memory[i] >> BLOCK && same++ < 2)
                out[same - 1] = memory[k];
        if (same == 4) /* these fill it */
            return 0;
    }
    return 1;
}

static int send_what_lies_beside_what_was_freed(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { NSMALL = 32, BYTES = 512 << 10, COUNT = 10 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    void *memory[NSMALL], *two[2] = { NULL };
    int32_t x[COUNT];
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    for (unsigned i = 0; i < NSMALL; i++)
        CHECK(plait_mem_alloc_as(PLAIT_MEMORY_DEVICE, BYTES, &memory[i]) == PLAIT_OK);
    const bool found = find_two(memory, NSMALL, two) == 0;
    CHECK(found || ask.standin_calls() == 0);
    for (int k = 0; k < 2 && found; k++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = 100 * k + i;
        if (rank == 0)
            CHECK(device_write(&d, two[k], x, sizeof x) &&
                  plait_send(*comm, two[k], COUNT, PLAIT_INT32, 1, &call) == PLAIT_OK);
        else
            CHECK(plait_recv(*comm, d.out, COUNT, PLAIT_INT32, 0, &call) == PLAIT_OK);
        CHECK(rank == 0 || device_read(&d, x, d.out, sizeof x));
        for (int i = 0; i < COUNT; i++)
            CHECK(x[i] == 100 * k + i);
        CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK);
        CHECK(plait_mem_free(two[k]) == PLAIT_OK);
        for (unsigned i = 0; i < NSMALL; i++)
            memory[i] = memory[i] == two[k] ? NULL : memory[i];
    }
    for (unsigned i = 0; i < NSMALL; i++)
        CHECK(memory[i] == NULL || plait_mem_free(memory[i]) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

/* On one host: over hosts no memory is mapped */
static void what_lies_beside_freed_memory_is_mapped(void **state)
{
    device_run(2, 1, send_what_lies_beside_what_was_freed, NULL);
}

/* ---- What does not fit ------------------------------------------------------------------------------------------ */

/*
 * Rank 0 sends, rank 1 receives: one of them memory of the host, so much that the send waits for its receiver. `used`:
 * both have used their device before.
 */
static int mix(struct plait_comm **comm, uint32_t rank, bool device_sends, bool used)
{
    int32_t host[1000] = { 0 };
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    if (used)
        CHECK(plait_allreduce(*comm, d.in, d.out, 4, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    void *data = (rank == 0) == device_sends ? d.in : (void *)host;
    enum plait_status status = rank == 0 ? plait_send(*comm, data, 1000, PLAIT_INT32, 1, NULL)
                                         : plait_recv(*comm, data, 1000, PLAIT_INT32, 0, NULL);
    if (status == PLAIT_OK && RANKS_ON_HOSTS && rank == 0) { /* it has gone; who leaves hears what became of it */
        status = plait_comm_destroy(*comm);
        *comm = NULL;
    }
    CHECK(status == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(),
                 device_sends
                     ? "rank 0 sends 1000 int32 of a GPU's memory, rank 1 receives 1000 int32 of the host's"
                     : "rank 0 sends 1000 int32 of the host's memory, rank 1 receives 1000 int32 of a GPU's") != NULL);
    CHECK(*comm == NULL || plait_comm_destroy(*comm) == PLAIT_ERR_MISMATCH);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static int mix_sent(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return mix(comm, rank, true, false);
}

static int mix_sent_later(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return mix(comm, rank, true, true);
}

static int mix_received(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return mix(comm, rank, false, false);
}

static int mix_counts(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    enum plait_status status = rank == 0 ? send(*comm, &d, 0, 7, 1, &call) : recv(*comm, &d, 0, 8, 0, &call);
    if (status == PLAIT_OK && RANKS_ON_HOSTS && rank == 0) {
        status = plait_comm_destroy(*comm);
        *comm = NULL;
    }
    CHECK(status == PLAIT_ERR_MISMATCH &&
          strstr(plait_last_error(), "rank 0 sends 7 int32, rank 1 receives 8") != NULL);
    CHECK(*comm == NULL || plait_comm_destroy(*comm) == PLAIT_ERR_MISMATCH);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static void a_message_between_a_device_and_the_host_is_named(void **state)
{
    device_run(1, 2, mix_sent, NULL);
    device_run(1, 2, mix_sent_later, NULL);
    device_run(1, 2, mix_received, NULL);
    device_run(1, 2, mix_counts, NULL);
}

/* ---- Ends ---------------------------------------------------------------------------------------------------- */

/* Rank 0 waits for messages that nobody sends, and for one whose sender's stream is held up. */
static _Atomic int posted;

static int break_off(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[3] = { NULL };
    struct device_rank d;
    int done;

    CHECK(device_begin(&d, ROOM));
    CHECK(rank == 0 || device.stream_call(d.cuda, wait_at_gate, NULL) == 0);
    if (rank == 0) {
        for (uint32_t i = 0; i < 3; i++) {
            call.request = &r[i];
            CHECK((i < 2 ? recv : send)(*comm, &d, i, 100, 1, &call) == PLAIT_OK);
        }
        CHECK(plait_test(&r[0], &done) == PLAIT_OK && !done);
        atomic_store(&posted, 1);
    } else {
        call.stream = d.stream;
        CHECK(send(*comm, &d, 0, 100, 0, &call) == PLAIT_OK); /* rank 0 has it, on its own queue */
        while (!atomic_load(&posted))
            usleep(100);
        CHECK(plait_comm_abort(*comm, "enough") == PLAIT_OK);
    }
    for (uint32_t i = 0; rank == 0 && i < 3; i++)
        CHECK(plait_wait(&r[i]) == PLAIT_ERR_FAILED && strstr(plait_last_error(), "enough") != NULL);
    while (plait_comm_status(*comm) == PLAIT_OK)
        usleep(100);
    if (rank == 0)
        atomic_store(&gate, 1);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

/* On one host: over hosts a call waits for its stream */
static void messages_end_with_a_comm_that_fails(void **state)
{
    atomic_store(&gate, 0);
    device_run(1, 2, break_off, NULL);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        test_on_one_host(messages_of_a_group_are_put_on_the_stream_together),
        cmocka_unit_test(messages_into_one_place_follow_each_other),
        cmocka_unit_test(a_ring_of_many_messages_before_collectives),
        cmocka_unit_test(all_send_to_all_and_to_themselves),
        cmocka_unit_test(any_pattern_on_any_streams),
        cmocka_unit_test(messages_alone_as_requests_and_persistent),
        test_on_one_host(messages_are_captured),
        cmocka_unit_test(one_thread_holds_several_ranks),
        test_on_device(a_stream_in_the_place_of_another_comes_behind_it, 1, 2),
        cmocka_unit_test(a_message_between_a_device_and_the_host_is_named),
        test_on_one_host(what_lies_beside_freed_memory_is_mapped),
        test_on_one_host(messages_end_with_a_comm_that_fails),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("device_messages", tests);
}
