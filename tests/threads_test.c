/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as threads, in few operations that reach every kind of access that ranks share: made for the thread sanitizer,
 * which is ten times slower. Buffers are made and freed for each operation, so that late readers are seen.
 */
#include "specs.h"
#include "unit_ranks.h"
#include "until.h"
#include "values.h"

#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct series {
    const struct specs *specs;
    const uint32_t *map;
    uint32_t nrank;
};

static char *get_memory(bool library, size_t bytes)
{
    void *p = NULL;

    if (!library)
        return malloc(bytes + 1);
    return plait_mem_alloc(bytes + 1, &p) == PLAIT_OK ? p : NULL;
}

static int sum(struct plait_comm *comm, uint32_t rank, uint32_t nrank, const char *spec, size_t count, bool library)
{
    const size_t bytes = count * sizeof(float);
    char *in = get_memory(library, bytes), *out = get_memory(library, bytes);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(in != NULL && out != NULL);
    call.algorithm = spec;
    call.slice = count > 4000 ? 8192 : 0; /* several slices in flight, on the same few windows */
    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, nrank, rank, count);
    CHECK(plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, nrank, count) == 0);
    if (library) {
        CHECK(plait_mem_free(in) == PLAIT_OK && plait_mem_free(out) == PLAIT_OK);
    } else {
        free(in);
        free(out);
    }
    return 0;
}

static int every_spec(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { 0, 1, 17, 997, 5003, 30011 };
    const struct series *s = arg;

    for (uint32_t i = 0; i < s->specs->n; i++) {
        const struct spec *spec = &s->specs->spec[i];
        char text[PLAIT_MAX_SPEC + 16];
        if (spec->shape.node != s->map)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(spec->text, " "), spec->text);
        for (uint32_t k = 0; k < 2; k++)
            if (sum(*comm, rank, s->nrank, text, counts[(i + 3 * k) % 6], (i + k) % 2) != 0)
                return 1;
    }
    return 0;
}

static void every_algorithm_between_threads(void **state)
{
    for (uint32_t n = 2; n <= 5; n++) {
        struct specs specs;
        specs_init(&specs, PLAIT_ALLREDUCE, n, false);
        for (unsigned map = 0; map < 3; map++) {
            struct series s = { &specs, specs.maps[map], n };
            struct ranks r = { .nprocess = 1,
                               .nthread = n,
                               .limit = 300,
                               .body = every_spec,
                               .arg = &s,
                               .options.node = specs.maps[map] };
            assert_int_equal(ranks_run(&r), 0);
        }
        specs_finish(&specs);
    }
}

/* Eager operations one after the other, no barrier between: slots are written again as soon as that is allowed. */
static int eager_operations_between_threads(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int64_t v[40], w[40];

    for (int64_t k = 0; k < 400; k++) {
        const size_t count = (size_t)k % 40 + 1;
        for (size_t i = 0; i < count; i++)
            v[i] = k + rank;
        CHECK(plait_allreduce(*comm, v, w, count, PLAIT_INT64, PLAIT_MAX, NULL) == PLAIT_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(w[i] == k + 3);
    }
    return 0;
}

/* Control blocks and staging are given back while other ranks may still look at them. */
static int comms_of_threads_come_and_go(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    for (uint32_t k = 0; k < 12; k++) {
        CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
        if (sum(*comm, rank, 3, "ring", 5003, k % 2) != 0)
            return 1;
        usleep(500 * ((rank + k) % 3));
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
        *comm = NULL;
    }
    return 0;
}

/* ---- Two threads in one comm --------------------------------------------------------------------------------- */

struct intrusion {
    struct plait_comm *comm;
    struct plait_request *persistent;
    const char *inside; /* the call that the first thread is in; NULL: nobody comes */
    unsigned refused, let_in;
};

static void expect_refusal(struct intrusion *x, const char *call, enum plait_status status)
{
    if (status == PLAIT_ERR_ARG && strstr(plait_last_error(), "is used by another thread, which is in") != NULL &&
        strstr(plait_last_error(), x->inside) != NULL) {
        x->refused++;
    } else {
        x->let_in++;
        fprintf(stderr, "%s inside %s: %d, %s\n", call, x->inside, (int)status, plait_last_error());
    }
}

static void *call_everything(void *arg)
{
    struct intrusion *x = arg;
    struct plait_comm *c = x->comm, *made = NULL;
    const size_t counts[2] = { 1, 1 };
    struct plait_request *r = NULL;
    struct plait_call later = PLAIT_CALL_DEFAULT;
    struct plait_peer_info peer;
    float in[2] = { 0 }, out[2];

    later.request = &r;
#define REFUSED(call) expect_refusal(x, #call, call)
    REFUSED(plait_allreduce(c, in, out, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL));
    REFUSED(plait_allreduce(c, in, out, 1, PLAIT_FLOAT32, PLAIT_SUM, &later));
    REFUSED(plait_reduce_scatter(c, in, out, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL));
    REFUSED(plait_allgather(c, in, out, 1, PLAIT_FLOAT32, NULL));
    REFUSED(plait_broadcast(c, in, out, 1, PLAIT_FLOAT32, 0, NULL));
    REFUSED(plait_reduce(c, in, out, 1, PLAIT_FLOAT32, PLAIT_SUM, 0, NULL));
    REFUSED(plait_gather(c, in, out, 1, PLAIT_FLOAT32, 0, NULL));
    REFUSED(plait_scatter(c, in, out, 1, PLAIT_FLOAT32, 0, NULL));
    REFUSED(plait_alltoall(c, in, out, 1, PLAIT_FLOAT32, NULL));
    REFUSED(plait_barrier(c, NULL));
    REFUSED(plait_reduce_scatterv(c, in, out, counts, NULL, PLAIT_FLOAT32, PLAIT_SUM, NULL));
    REFUSED(plait_allgatherv(c, in, out, counts, NULL, PLAIT_FLOAT32, NULL));
    REFUSED(plait_send(c, in, 1, PLAIT_FLOAT32, 1, NULL));
    REFUSED(plait_recv(c, out, 1, PLAIT_FLOAT32, 1, NULL));
    REFUSED(plait_start(x->persistent));
    REFUSED(plait_run_again(x->persistent));
    REFUSED(plait_comm_peer(c, 1, &peer));
    REFUSED(plait_comm_split(c, 0, 0, NULL, &made));
    REFUSED(plait_comm_suspend(c));
    REFUSED(plait_comm_finalize(c));
    REFUSED(plait_comm_destroy(c));
#undef REFUSED
    return NULL;
}

enum { NREFUSED = 21 };

/* The first thread adds up; while it does another one comes. */
static void add_and_be_disturbed(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    struct intrusion *x = context;
    pthread_t other;
    float *to = inout;

    if (x->inside != NULL && x->refused + x->let_in == 0 && pthread_create(&other, NULL, call_everything, x) == 0)
        pthread_join(other, NULL);
    for (size_t i = 0; i < count; i++)
        to[i] += ((const float *)in)[i];
}

static int a_second_thread_in_a_comm_is_refused_and_the_first_goes_on(struct plait_comm **comm, uint32_t rank,
                                                                      void *arg)
{
    enum { MOST = 300000 };
    static const size_t sizes[] = { 1, MOST };
    struct intrusion x = { .comm = *comm };
    const struct plait_user_op user = { sizeof user, add_and_be_disturbed, &x, 1 };
    float *in = malloc(MOST * sizeof *in), *out = malloc(MOST * sizeof *out);
    struct plait_call call = PLAIT_CALL_DEFAULT, persistent = PLAIT_CALL_DEFAULT;

    CHECK(in != NULL && out != NULL);
    call.user = persistent.user = &user;
    persistent.persistent = 1;
    persistent.request = &x.persistent;
    for (size_t i = 0; i < MOST; i++)
        in[i] = (float)(i % 100 + rank);
    for (unsigned k = 0; k < 4; k++) {
        const size_t n = sizes[k % 2];
        memset(out, 0, n * sizeof *out);
        CHECK(plait_allreduce(*comm, in, out, n, PLAIT_FLOAT32, PLAIT_USER, &persistent) == PLAIT_OK);
        x.refused = x.let_in = 0;
        x.inside = rank > 0 ? NULL : k < 2 ? "allreduce" : "plait_run_again";
        if (k < 2)
            CHECK(plait_allreduce(*comm, in, out, n, PLAIT_FLOAT32, PLAIT_USER, &call) == PLAIT_OK);
        else
            CHECK(plait_run_again(x.persistent) == PLAIT_OK);
        for (size_t i = 0; i < n; i++)
            CHECK(out[i] == (float)(2 * (i % 100) + 1));
        CHECK(rank > 0 || (x.refused == NREFUSED && x.let_in == 0));
        CHECK(plait_request_free(&x.persistent) == PLAIT_OK);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    }
    free(in);
    free(out);
    return 0;
}

static _Atomic int nidle[2];
static _Thread_local int turn;

static void count_idle(void)
{
    atomic_fetch_add(&nidle[turn], 1);
}

/*
 * The other rank comes when this has been called often, in a blocking call and in the wait for a request. The wait does
 * not sleep between the calls: another library may need thousands for one message.
 */
static int a_wait_calls_the_function_of_plait_idle_set(struct plait_comm **comm, uint32_t rank, void *arg)
{
    for (turn = 0; turn < 2; turn++) {
        struct plait_request *request = NULL;
        struct plait_call call = PLAIT_CALL_DEFAULT;
        struct plait_comm_stats before, after;
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        if (rank == 1) {
            CHECK(comes_true(atomic_load(&nidle[turn]) > 2000));
            CHECK(plait_barrier(*comm, NULL) == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK);
            continue;
        }
        call.request = turn == 1 ? &request : NULL;
        plait_comm_stats(*comm, &before);
        plait_idle_set(count_idle);
        CHECK(plait_barrier(*comm, &call) == PLAIT_OK && plait_wait(&request) == PLAIT_OK);
        plait_idle_set(NULL);
        plait_comm_stats(*comm, &after);
        CHECK(after.sleeps == before.sleeps);
        const int n = atomic_load(&nidle[turn]);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK && atomic_load(&nidle[turn]) == n);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_ranks(a_wait_calls_the_function_of_plait_idle_set, 1, 2),
        test_of_ranks(a_second_thread_in_a_comm_is_refused_and_the_first_goes_on, 1, 2),
        cmocka_unit_test(every_algorithm_between_threads),
        test_of_ranks(eager_operations_between_threads, 1, 4, .limit = 300),
        test_of_ranks(comms_of_threads_come_and_go, 1, 3, .limit = 300, .no_comm = true),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
