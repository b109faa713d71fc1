/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is different where ranks with devices are on several hosts: what is between them goes by pinned memory, in slices,
 * and the host takes part in it. With PLAIT_HOSTS=2 the second half of the ranks is on another host.
 */
#include "../child.h"
#include "../collective.h"
#include "../ranks.h"
#include "device.h"
#include "device_operate.h"
#include "unit_device.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 18, ROOM = COUNT * sizeof(int32_t) };

static int32_t value(uint32_t rank, int32_t k, int32_t i)
{
    return (int32_t)rank * 7 + k + i % 1000;
}

static void fill(const struct device_rank *d, uint32_t rank, int32_t k)
{
    int32_t *x = (int32_t *)(void *)d->host;

    for (int32_t i = 0; i < COUNT; i++)
        x[i] = value(rank, k, i);
}

/* ---- The way ------------------------------------------------------------------------------------------------ */

/* Does the network of this test take devices' memory itself? */
static bool is_direct(void)
{
    const char *folder = getenv("PLAIT_PLUGINS");
    const size_t n = strlen(folder);

    return n > 6 && strcmp(folder + n - 6, "direct") == 0;
}

static int a_comm_tells_how_memory_of_gpus_goes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_peer_info info;

    CHECK(plait_comm_peer(*comm, rank ^ 1u, &info) == PLAIT_OK && strcmp(info.gpu, "mapped") == 0);
    CHECK(plait_comm_peer(*comm, rank ^ 2u, &info) == PLAIT_OK);
    CHECK(strcmp(info.gpu, is_direct() ? "direct" : "pinned") == 0);
    return 0;
}

/* Longer than what goes by pinned memory whatever the network can do. */
static int every_collective(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct device_rank d;

    CHECK(device_begin(&d, 4 * ROOM));
    for (unsigned i = 0; i <= NCOLLECTIVE; i++)
        for (unsigned inplace = 0; inplace < 2; inplace++) {
            struct collective c = { .coll = i < NCOLLECTIVE ? collectives[i] : PLAIT_ALLREDUCE,
                                    .type = inplace ? PLAIT_INT32 : PLAIT_FLOAT32,
                                    .count = 30001,
                                    .mixed = i % 2 };
            const struct plait_geometry g = plait_geometry_of(c.coll, plait_comm_nrank(*comm), 0, rank, 1);
            c.root = g.rooted ? i % 2 : 0;
            c.inplace = inplace;
            if (device_operate(*comm, rank, &d, &c, false) != 0)
                return 1;
        }
    CHECK(device_end(&d));
    return 0;
}

static void every_collective_of_long_blocks(void **state)
{
    device_run(2, 1, every_collective, NULL);
    device_run(2, 2, every_collective, NULL);
    device_run(3, 1, every_collective, NULL);
}

/* ---- Slices ------------------------------------------------------------------------------------------------- */

/* Of a long vector a few slices are in pinned memory, not all of it; what there was once is used again. */
static int long_vectors(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct standin_left once, again;
    struct plait_comm_stats stats;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    call.slice = 64 << 10;
    for (int32_t k = 0; k < 6; k++) {
        call.algorithm = k % 3 == 1 ? "ring" : NULL;
        fill(&d, rank, k);
        CHECK(device_write(&d, d.in, d.host, ROOM));
        CHECK(plait_allreduce(*comm, d.in, k % 2 ? d.in : d.out, COUNT, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(device_read(&d, d.host, k % 2 ? d.in : d.out, ROOM));
        for (int32_t i = 0; i < COUNT; i++)
            CHECK(((int32_t *)(void *)d.host)[i] ==
                  (int32_t)nrank * value(0, k, i) + 7 * (int32_t)(nrank * (nrank - 1) / 2));
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        if (k == 2)
            ask.standin_left(&once);
    }
    ask.standin_left(&again);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    CHECK(once.pinned > 0 || is_direct() || ask.standin_calls() == 0); /* which a driver does not tell */
    CHECK(again.pinned <= 2 * once.pinned);
    plait_comm_stats(*comm, &stats);
    CHECK(stats.messages > 6 * (ROOM / call.slice));
    CHECK(is_direct() ? stats.bytes_staged < stats.bytes_sent : stats.bytes_staged > 0); /* not what is only copied */
    CHECK(device_end(&d));
    return 0;
}

static void long_vectors_go_in_slices(void **state)
{
    device_run(2, 1, long_vectors, NULL);
    device_run(2, 2, long_vectors, NULL);
    device_run(1, 3, long_vectors, NULL);
}

/* Both ways at once, longer than a window of slices. */
static int long_messages_go_in_slices(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, 6 * ROOM));
    call.stream = d.stream;
    for (int32_t k = 0; k < 3; k++) {
        for (int32_t part = 0; part < 6; part++) {
            fill(&d, rank, k + part);
            CHECK(device_write(&d, d.in + (size_t)part * ROOM, d.host, ROOM));
            CHECK(device.stream_synchronize(d.cuda) == 0);
        }
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_send(*comm, d.in, 6 * COUNT, PLAIT_INT32, !rank, &call) == PLAIT_OK);
        CHECK(plait_recv(*comm, d.out, 6 * COUNT, PLAIT_INT32, !rank, &call) == PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(device_read(&d, d.host, d.out, 6 * ROOM));
        for (int32_t i = 0; i < 6 * COUNT; i++)
            CHECK(((int32_t *)(void *)d.host)[i] == value(!rank, k + i / COUNT, i % COUNT));
    }
    CHECK(device_end(&d));
    return 0;
}

/* ---- Order -------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 20, PART = ROOM / 16 };

/* What has come is copied away by the stream; the next comes to the same place, and the host waits for nothing. */
static int broadcast(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROUNDS * PART));
    call.stream = d.stream;
    for (int32_t i = 0; i < ROUNDS * PART / 4; i++)
        ((int32_t *)(void *)d.host)[i] = rank == 0 ? i : -1;
    CHECK(device_write(&d, d.in, d.host, ROUNDS * PART));
    for (size_t k = 0; k < ROUNDS; k++) {
        char *part = d.in + k * PART;
        CHECK(plait_broadcast(*comm, rank == 0 ? part : NULL, rank == 0 ? part : d.out, PART / 4, PLAIT_INT32, 0,
                              &call) == PLAIT_OK);
        CHECK(rank == 0 || device_write(&d, part, d.out, PART));
    }
    CHECK(device_read(&d, d.host, d.in, ROUNDS * PART));
    for (int32_t i = 0; i < ROUNDS * PART / 4; i++)
        CHECK(((int32_t *)(void *)d.host)[i] == i);
    CHECK(device_end(&d));
    return 0;
}

static void what_comes_waits_for_what_is_before_it(void **state)
{
    setenv("PLAIT_STANDIN_DELAY", "1000", 1);
    device_run(2, 1, broadcast, NULL);
    device_run(3, 1, broadcast, NULL);
    setenv("PLAIT_STANDIN_DELAY", "0", 1);
}

/* ---- Graphs ------------------------------------------------------------------------------------------------- */

/* Refused by name; nothing has happened, neither to the graph nor to the comm. */
static int no_operation_is_in_a_graph(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const char why[] = "on several hosts, and the stream is captured";
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *again;
    struct device_rank d;
    void *graph;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    call.request = &again;
    call.persistent = 1;
    CHECK(plait_allreduce(*comm, d.in, d.out, 9, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    call.request = NULL;
    call.persistent = 0;
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_allreduce(*comm, d.in, d.out, 9, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_UNSUPPORTED);
    CHECK(strstr(plait_last_error(), "allreduce: ") != NULL && strstr(plait_last_error(), why) != NULL);
    CHECK(plait_send(*comm, d.in, 9, PLAIT_INT32, !rank, &call) == PLAIT_ERR_UNSUPPORTED);
    CHECK(strstr(plait_last_error(), "send: ") != NULL && strstr(plait_last_error(), why) != NULL);
    CHECK(plait_start(again) == PLAIT_ERR_UNSUPPORTED && strstr(plait_last_error(), why) != NULL);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.graph_destroy(graph) == 0);
    CHECK(plait_start(again) == PLAIT_OK && plait_wait(&again) == PLAIT_OK);
    CHECK(plait_request_free(&again) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, d.in, d.out, 9, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

/* ---- A stream that is held up ------------------------------------------------------------------------------- */

static struct shared {
    _Atomic int gate, calls;
} * shared;

static void wait_at_shared_gate(void *context)
{
    while (!atomic_load(&shared->gate))
        usleep(100);
}

enum held { ABORTED, LATE, KILLED };

static void *end_soon(void *arg)
{
    usleep(50000);
    if (arg == NULL)
        kill(getpid(), SIGKILL);
    plait_comm_abort(arg, "enough");
    return NULL;
}

/* The stream of the last rank, which is on the other host: all calls wait for it, until the comm fails. */
static int hold(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const enum held held = *(enum held *)arg;
    const bool last = rank + 1 == plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    pthread_t other;
    char who[32];

    CHECK(device_begin(&d, ROOM));
    ask.standin_careless(1);
    call.stream = d.stream;
    CHECK(plait_allreduce(*comm, d.in, d.out, 999, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    ranks_meet(); /* everyone is out of it */
    CHECK(!last || device.stream_call(d.cuda, wait_at_shared_gate, NULL) == 0);
    if (last && held != LATE)
        CHECK(pthread_create(&other, NULL, end_soon, held == KILLED ? NULL : *comm) == 0);
    enum plait_status status = plait_allreduce(*comm, d.in, d.out, 999, PLAIT_INT32, PLAIT_SUM, &call);
    while (status == PLAIT_OK) /* of the same host: its stream waits, not the call; the comm's next call says why */
        status = plait_comm_status(*comm) == PLAIT_OK
                     ? PLAIT_OK
                     : plait_allreduce(*comm, d.in, d.out, 999, PLAIT_INT32, PLAIT_SUM, &call);
    snprintf(who, sizeof who, "rank %u", plait_comm_nrank(*comm) - 1);
    CHECK(strstr(plait_last_error(), held == ABORTED ? "enough" : who) != NULL);
    CHECK(held != LATE || strstr(plait_last_error(), "waits for its own stream") != NULL);
    CHECK(held != KILLED || strstr(plait_last_error(), "died") != NULL);
    if (last && held != LATE)
        pthread_join(other, NULL);
    if (!last)
        CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK); /* nothing on it waits for the other host */
    if (last)
        atomic_store(&shared->gate, 1);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static void run_held(uint32_t nprocess, uint32_t nthread, enum held held, double deadline)
{
    struct ranks r = { .nprocess = nprocess,
                       .nthread = nthread,
                       .body = hold,
                       .arg = &held,
                       .processes = true,
                       .options.deadline = deadline };

    atomic_store(&shared->gate, 0);
    assert_int_equal(device_ranks_run(&r), held == KILLED ? nthread : 0);
}

static void a_stream_that_is_held_up_is_waited_for_until_an_abort(void **state)
{
    run_held(2, 1, ABORTED, 600);
    run_held(1, 3, ABORTED, 600);
    run_held(2, 2, ABORTED, 600);
}

static void a_stream_that_is_held_up_is_waited_for_until_the_deadline(void **state)
{
    run_held(2, 1, LATE, 3);
    run_held(1, 3, LATE, 3);
}

static void a_stream_that_is_held_up_is_waited_for_until_its_rank_dies(void **state)
{
    run_held(2, 1, KILLED, 600);
    run_held(3, 1, KILLED, 600);
}

/* The same of a message: nobody says that who waits for it does not receive it. */
static int hold_message(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    call.stream = d.stream;
    CHECK(rank == 0 || device.stream_call(d.cuda, wait_at_shared_gate, NULL) == 0);
    CHECK((rank == 0 ? plait_recv(*comm, d.out, 99, PLAIT_INT32, 1, &call)
                     : plait_send(*comm, d.in, 99, PLAIT_INT32, 0, &call)) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "rank 1 does not send message #1") != NULL ||
          strstr(plait_last_error(), "rank 1 waits for its own stream") != NULL);
    if (rank == 1) /* has its error: a stream that goes on would not be held up */
        atomic_store(&shared->gate, 1);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

static void a_message_from_a_stream_that_is_held_up_is_its_senders_fault(void **state)
{
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = hold_message, .processes = true, .options.deadline = 1 };

    atomic_store(&shared->gate, 0);
    assert_int_equal(device_ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_on_device(a_comm_tells_how_memory_of_gpus_goes, 2, 2),
        cmocka_unit_test(every_collective_of_long_blocks),
        cmocka_unit_test(long_vectors_go_in_slices),
        test_on_device_both(long_messages_go_in_slices, 2),
        cmocka_unit_test(what_comes_waits_for_what_is_before_it),
        test_on_device_both(no_operation_is_in_a_graph, 2),
        cmocka_unit_test(a_stream_that_is_held_up_is_waited_for_until_an_abort),
        cmocka_unit_test(a_stream_that_is_held_up_is_waited_for_until_the_deadline),
        cmocka_unit_test(a_stream_that_is_held_up_is_waited_for_until_its_rank_dies),
        cmocka_unit_test(a_message_from_a_stream_that_is_held_up_is_its_senders_fault),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL || !RANKS_ON_HOSTS)
        return 77;
    setenv("PLAIT_LOG_FILE", "/dev/null", 0);
    shared = shared_memory(sizeof *shared);
    return cmocka_run_group_tests_name("devices on several hosts", tests, NULL, NULL);
}
