/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elastic averaging with several servers, of which one is stopped or dies: workers hear so with its name, and no wait
 * lasts for ever. One that is only slow, late or idle is not named.
 */
#include "child.h"
#include "elastic_model.h"
#include "pending.h"
#include "unit.h"

#include <plait/log.h>
#include <plait/memory.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NWORKER  2
#define COUNT    5000
#define DEADLINE 1.6

struct scene {
    enum plait_elastic_mode mode;
    uint32_t nserver;
    double deadline;
    uint32_t victim; /* rank; a stopped one goes on when all others have ended. 0: there is none */
    int signal;      /* that the victim gets */
    int (*work)(struct scene *s, struct plait_elastic *e, uint32_t rank);
    /* What the processes show each other: */
    _Atomic int pid; /* of the victim, when it is where it is to be stopped */
    _Atomic uint32_t stage, ended;
};

/* All workers come here. */
static void await_others(struct scene *s)
{
    const uint32_t round = atomic_fetch_add(&s->stage, 1) / NWORKER;

    while (atomic_load(&s->stage) < (round + 1) * NWORKER)
        usleep(200);
}

static bool is_stopped(int pid)
{
    char path[64], line[256] = "";

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    const bool read = f != NULL && fgets(line, sizeof line, f) != NULL;
    if (f != NULL)
        fclose(f);
    return read && strstr(line, ") T ") != NULL;
}

/* The victim gets its signal, as soon as it serves. One that is stopped runs a little longer on a busy machine. */
static bool strike(struct scene *s)
{
    while (atomic_load(&s->pid) == 0)
        usleep(100);
    if (kill(atomic_load(&s->pid), s->signal) != 0)
        return false;
    while (s->signal == SIGSTOP && !is_stopped(atomic_load(&s->pid)))
        usleep(100);
    return true;
}

/* The same, and then all workers go on. */
static bool strike_together(struct scene *s, uint32_t rank)
{
    await_others(s);
    const bool good = rank > 0 || strike(s);
    await_others(s);
    return good;
}

static bool says_victim(const struct scene *s)
{
    char name[64];

    snprintf(name, sizeof name, "server %u (rank %u)", s->victim - NWORKER, s->victim);
    return strstr(plait_last_error(), name) != NULL;
}

/* Servers that live are blamed for nothing. */
static bool says_another(const struct scene *s)
{
    char name[64];
    bool found = false;

    for (uint32_t i = 0; i < s->nserver; i++) {
        snprintf(name, sizeof name, "server %u (rank %u)", i, NWORKER + i);
        found |= NWORKER + i != s->victim && strstr(plait_last_error(), name) != NULL;
    }
    return found;
}

static int join(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct scene *s = arg;
    struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;
    float *own = calloc(COUNT, sizeof *own);
    void *library = NULL; /* read in place; those of worker 0 are messages */
    struct plait_elastic *e;

    CHECK(plait_mem_alloc(COUNT * sizeof(float), &library) == PLAIT_OK);
    o.mode = s->mode;
    o.nserver = s->nserver;
    o.weights = rank == 0 ? own : library;
    o.count = COUNT;
    CHECK(own != NULL && plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    const int failed = s->work(s, e, rank);
    plait_elastic_destroy(e);
    free(own);
    plait_mem_free(library);
    s->ended += rank != s->victim;
    while (failed == 0 && rank == 0 && s->victim > 0 && atomic_load(&s->ended) < NWORKER + s->nserver - 1)
        usleep(200);
    if (rank == 0 && s->signal == SIGSTOP)
        kill(atomic_load(&s->pid), SIGCONT);
    return failed;
}

static struct scene *play(struct scene s)
{
    static struct scene *shared;

    if (shared == NULL)
        shared = shared_memory(sizeof *shared);
    assert_non_null(shared);
    memcpy(shared, &s, sizeof s);
    ranks = (struct ranks){ .nprocess = NWORKER + s.nserver,
                            .nthread = 1,
                            .body = join,
                            .arg = shared,
                            .processes = true,
                            .limit = 120,
                            .options.deadline = s.deadline,
                            .options.warn = s.deadline / 4 };
    assert_int_equal(ranks_run(&ranks), s.signal == SIGKILL);
    return shared;
}

/* ---- One is missing ---------------------------------------------------------------------------------------- */

/* A victim that goes on finds all workers gone. */
static int lose_another(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    struct plait_elastic_counts counts;

    if (rank == s->victim)
        atomic_store(&s->pid, getpid());
    CHECK(plait_elastic_serve(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    CHECK(counts.workers == 0 && counts.left + counts.died == NWORKER);
    return 0;
}

static bool is_told(const struct scene *s, enum plait_status status)
{
    if (s->signal == SIGKILL)
        return status == PLAIT_ERR_PEER && says_victim(s);
    return (status == PLAIT_ERR_TIMEOUT || status == PLAIT_ERR_FAILED) && says_victim(s);
}

/* Worker 0 is the cause; the others are somewhere in their exchanges. */
static int exchange_all_the_time(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    enum plait_status status = PLAIT_OK;

    if (rank >= NWORKER)
        return lose_another(s, e, rank);
    for (uint32_t i = 0; status == PLAIT_OK; i++) {
        CHECK(rank > 0 || i != 20 || strike(s));
        status = plait_elastic_exchange(e);
    }
    CHECK(is_told(s, status));
    return 0;
}

/* While nobody asks for anything; then all workers do. */
static int exchange_then(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER)
        return lose_another(s, e, rank);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(strike_together(s, rank));
    CHECK(is_told(s, plait_elastic_exchange(e)));
    CHECK(s->signal != SIGKILL || !says_another(s));
    return 0;
}

/* Only worker 0 asks while the server is stopped. It gives up; the other one goes on when the server does. */
static int exchange_alone_then(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER)
        return lose_another(s, e, rank);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(strike_together(s, rank));
    if (rank == 0) {
        CHECK(is_told(s, plait_elastic_exchange(e)));
        CHECK(kill(atomic_load(&s->pid), SIGCONT) == 0);
    }
    await_others(s);
    for (uint32_t i = 0; rank > 0 && i < 5; i++)
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    return 0;
}

/* The first of the servers and the last. */
static void lose_each(enum plait_elastic_mode mode, uint32_t nserver, int number,
                      int (*work)(struct scene *, struct plait_elastic *, uint32_t))
{
    for (uint32_t victim = NWORKER; victim < NWORKER + nserver; victim += nserver - 1)
        play((struct scene){
            .mode = mode, .nserver = nserver, .deadline = DEADLINE, .victim = victim, .signal = number, .work = work });
}

static void a_server_that_is_killed_is_named_by_all(void **state)
{
    for (uint32_t nserver = 2; nserver <= 3; nserver++)
        lose_each(PLAIT_ELASTIC_ASYNC, nserver, SIGKILL, exchange_all_the_time);
    lose_each(PLAIT_ELASTIC_HOGWILD, 2, SIGKILL, exchange_all_the_time);
}

static void a_server_that_dies_while_nobody_asks_is_named_by_who_asks_next(void **state)
{
    lose_each(PLAIT_ELASTIC_ASYNC, 3, SIGKILL, exchange_then);
}

static void a_server_that_is_stopped_is_named_to_workers(void **state)
{
    lose_each(PLAIT_ELASTIC_ASYNC, 3, SIGSTOP, exchange_all_the_time);
    lose_each(PLAIT_ELASTIC_HOGWILD, 2, SIGSTOP, exchange_then);
}

static void a_worker_that_gives_up_on_a_stopped_server_ends_nobody_else(void **state)
{
    lose_each(PLAIT_ELASTIC_ASYNC, 2, SIGSTOP, exchange_alone_then);
}

/* ---- None is ----------------------------------------------------------------------------------------------- */

static int serve(struct plait_elastic *e, uint32_t rank)
{
    struct plait_elastic_counts counts;

    CHECK(plait_elastic_serve(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    CHECK(counts.left == NWORKER && counts.died == 0);
    return 0;
}

static int come_rarely(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER)
        return serve(e, rank);
    for (unsigned i = 0; i < 2; i++) {
        usleep((useconds_t)(1.5e6 * s->deadline));
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    }
    return 0;
}

static void servers_that_nobody_asks_for_long_are_not_missing(void **state)
{
    play((struct scene){ .mode = PLAIT_ELASTIC_ASYNC, .nserver = 3, .deadline = DEADLINE, .work = come_rarely });
}

/* All servers but one come when that one has waited for longer than the deadline, and workers for a little. */
static int come_late(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank < NWORKER)
        return come_rarely(s, e, rank);
    if (rank != NWORKER + 1)
        usleep((useconds_t)(1.7e6 * s->deadline));
    return serve(e, rank);
}

static void servers_that_come_late_are_not_missing(void **state)
{
    play((struct scene){ .mode = PLAIT_ELASTIC_ASYNC, .nserver = 3, .deadline = 4, .work = come_late });
}

/* One is stopped again and again, altogether for longer than the deadline, but never for that long at once. */
static int stop_for_a_while(struct scene *s, struct plait_elastic *e, uint32_t rank)
{
    if (rank >= NWORKER) {
        if (rank == NWORKER + 1)
            atomic_store(&s->pid, getpid());
        return serve(e, rank);
    }
    while (atomic_load(&s->pid) == 0)
        usleep(100);
    for (uint32_t i = 0; rank == 0 && i < 20; i++) {
        CHECK(kill(atomic_load(&s->pid), SIGSTOP) == 0);
        usleep(200000);
        CHECK(kill(atomic_load(&s->pid), SIGCONT) == 0);
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    }
    s->stage += rank == 0;
    while (rank > 0 && atomic_load(&s->stage) == 0)
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    return 0;
}

static void a_server_that_is_only_slow_is_not_missing(void **state)
{
    play((struct scene){ .mode = PLAIT_ELASTIC_ASYNC, .nserver = 2, .deadline = 2, .work = stop_for_a_while });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_is_killed_is_named_by_all),
        cmocka_unit_test(a_server_that_dies_while_nobody_asks_is_named_by_who_asks_next),
        cmocka_unit_test(a_server_that_is_stopped_is_named_to_workers),
        cmocka_unit_test(a_worker_that_gives_up_on_a_stopped_server_ends_nobody_else),
        cmocka_unit_test(servers_that_nobody_asks_for_long_are_not_missing),
        cmocka_unit_test(servers_that_come_late_are_not_missing),
        cmocka_unit_test(a_server_that_is_only_slow_is_not_missing),
    };

    return cmocka_run_group_tests_name("elastic_stops", tests, NULL, NULL);
}
