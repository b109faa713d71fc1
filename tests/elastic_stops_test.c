/* SPDX-License-Identifier: BSD-3-Clause */
/* Elastic averaging over messages: a server or a worker that is stopped, not dead, is named, and no wait lasts for ever. */
#include "elastic_model.h"
#include "pending.h"

#include <plait/log.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NWORKER 2
#define NSERVER 2
#define NRANK   (NWORKER + NSERVER)

struct scene {
    size_t count;
    double deadline;
    uint32_t victim; /* rank; it goes on when all others have ended. 0: there is none */
    int (*work)(struct scene *s, struct plait_elastic *e, uint32_t rank);
    /* What the processes show each other: */
    _Atomic int pid; /* of the victim, when it is where it is to be stopped */
    _Atomic uint32_t stage, ended, stalls;
    _Atomic uint32_t died[NSERVER], left[NSERVER];
    _Atomic uint64_t exchanges[NSERVER];
};

/* All workers come here. */
static void await_others(struct scene *s)
{
    const uint32_t round = atomic_fetch_add(&s->stage, 1) / NWORKER;

    while (atomic_load(&s->stage) < (round + 1) * NWORKER)
        usleep(200);
}

/* Stop the victim once it is there, and tell all. */
static bool stop(struct scene *s)
{
    while (atomic_load(&s->pid) == 0)
        usleep(100);
    return kill(atomic_load(&s->pid), SIGSTOP) == 0;
}

static bool says_server(const struct scene *s)
{
    char name[64];

    snprintf(name, sizeof name, "server %u (rank %u) does not answer", s->victim - NWORKER, s->victim);
    return strstr(plait_last_error(), name) != NULL;
}

static int join(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct scene *s = arg;
    struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;
    float *w = calloc(s->count, sizeof *w);
    struct plait_elastic *e;

    o.mode = PLAIT_ELASTIC_ASYNC;
    o.nserver = NSERVER;
    o.weights = w;
    o.count = s->count;
    CHECK(w != NULL && plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    const int failed = s->work(s, e, rank);
    plait_elastic_destroy(e);
    free(w);
    s->ended += rank != s->victim;
    while (failed == 0 && rank == 0 && s->victim > 0 && atomic_load(&s->ended) < NRANK - 1)
        usleep(200);
    CHECK(rank > 0 || s->victim == 0 || kill(atomic_load(&s->pid), SIGCONT) == 0);
    return failed;
}

/* Links that are slowed down carry weights as messages, as a network does. */
static void play(struct scene *s, const char *pace)
{
    setenv("PLAIT_FOR_TESTS", "1", 1);
    setenv("PLAIT_PACE", pace, 1);
    ranks = (struct ranks){ .nprocess = NRANK, .nthread = 1, .body = join, .arg = s, .processes = true };
    ranks.options = (struct plait_comm_options)PLAIT_COMM_OPTIONS_DEFAULT;
    ranks.options.deadline = s->deadline;
    ranks.options.warn = s->deadline / 4;
    assert_int_equal(ranks_run(&ranks), 0);
}

static struct scene *scene(struct scene s)
{
    static struct scene *shared;

    if (shared == NULL)
        shared = model_shared(sizeof *shared);
    assert_non_null(shared);
    memcpy(shared, &s, sizeof s);
    return shared;
}

static int serve(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    struct plait_elastic_counts counts;

    CHECK(plait_elastic_serve(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    s->died[rank - NWORKER] = counts.died;
    s->left[rank - NWORKER] = counts.left;
    s->exchanges[rank - NWORKER] = counts.exchanges;
    return 0;
}

/* ---- A server ---------------------------------------------------------------------------------------------- */

static void count_stalls(void *scene, enum plait_log_level level, const char *line)
{
    struct scene *s = scene;
    char name[32];

    snprintf(name, sizeof name, "rank %u does not send", s->victim - NWORKER);
    if (level == PLAIT_LOG_WARN && strstr(line, "servers, thread 0") != NULL && strstr(line, "no progress") != NULL)
        s->stalls += strstr(line, name) != NULL;
}

/* Of the victim nothing more is asked than that it ends, once all others have. */
static int await_the_end(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank == s->victim) {
        atomic_store(&s->pid, getpid());
        CHECK(plait_elastic_serve(e) != PLAIT_OK);
        return 0;
    }
    plait_log_callback(count_stalls, s);
    CHECK(plait_elastic_serve(e) == PLAIT_ERR_TIMEOUT && says_server(s));
    plait_log_callback(NULL, NULL);
    CHECK(s->stalls >= 1);
    return 0;
}

static int exchange_with_a_stopped_server(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER)
        return await_the_end(s, e, rank);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    await_others(s);
    CHECK(rank > 0 || stop(s));
    await_others(s);
    const enum plait_status status = plait_elastic_exchange(e);
    CHECK((status == PLAIT_ERR_TIMEOUT || status == PLAIT_ERR_FAILED) && says_server(s));
    return 0;
}

static int leave_a_stopped_server(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER)
        return await_the_end(s, e, rank);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    await_others(s);
    CHECK(rank > 0 || stop(s));
    await_others(s);
    return 0;
}

static void a_stopped_server_is_named_by_all(void **state)
{
    (void)state;
    for (uint32_t victim = NWORKER; victim < NRANK; victim++)
        play(scene((struct scene){
                 .count = 5000, .deadline = 1.6, .victim = victim, .work = exchange_with_a_stopped_server }),
             "10us,1GB/s");
}

static void servers_that_are_left_to_themselves_end_too(void **state)
{
    (void)state;
    for (uint32_t victim = NWORKER; victim < NRANK; victim++)
        play(scene((struct scene){ .count = 5000, .deadline = 1.6, .victim = victim, .work = leave_a_stopped_server }),
             "10us,1GB/s");
}

/* ---- Nobody ------------------------------------------------------------------------------------------------ */

static int come_rarely(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER)
        return serve(s, e, rank);
    for (unsigned i = 0; i < 2; i++) {
        usleep((useconds_t)(2.5e6 * s->deadline));
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    }
    return 0;
}

static void servers_that_nobody_asks_for_long_are_not_late(void **state)
{
    struct scene *s = scene((struct scene){ .count = 5000, .deadline = 0.5, .work = come_rarely });

    (void)state;
    play(s, "10us,1GB/s");
    assert_true(s->left[0] == NWORKER && s->exchanges[0] == 2 * NWORKER && s->exchanges[1] == 2 * NWORKER);
}

/* ---- A worker ---------------------------------------------------------------------------------------------- */

/* The victim stops when it has asked for an exchange, before all of its weights have gone. */
static int send_half(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    struct plait_elastic_counts counts;

    if (rank >= NWORKER)
        return serve(s, e, rank);
    if (rank == s->victim) {
        atomic_store(&s->pid, getpid());
        CHECK(plait_elastic_start(e) == PLAIT_OK && raise(SIGSTOP) == 0);
        CHECK(plait_elastic_finish(e) != PLAIT_OK);
        return 0;
    }
    do {
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
        plait_elastic_counts(e, &counts);
    } while (counts.workers == NWORKER);
    return 0;
}

static void a_worker_that_stops_while_it_sends_is_given_up(void **state)
{
    struct scene *s = scene((struct scene){ .count = 2 << 20, .deadline = 1.6, .victim = 1, .work = send_half });

    (void)state;
    setenv("PLAIT_CMA", "0", 1);
    play(s, "10us,100MB/s");
    unsetenv("PLAIT_CMA");
    assert_true(s->exchanges[0] > 0 && s->exchanges[0] == s->exchanges[1]);
    for (uint32_t i = 0; i < NSERVER; i++)
        assert_true(s->died[i] == 1 && s->left[i] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_server_is_named_by_all),
        cmocka_unit_test(servers_that_are_left_to_themselves_end_too),
        cmocka_unit_test(servers_that_nobody_asks_for_long_are_not_late),
        cmocka_unit_test(a_worker_that_stops_while_it_sends_is_given_up),
    };

    return cmocka_run_group_tests_name("elastic_stops", tests, NULL, NULL);
}
