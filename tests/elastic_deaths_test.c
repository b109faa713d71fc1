/* SPDX-License-Identifier: BSD-3-Clause */
/* Elastic averaging when workers leave, come late, stop or die, or a server does: who is told what, and no hang. */
#include "child.h"
#include "elastic_model.h"
#include "pending.h"
#include "random.h"
#include "tier.h"
#include "unit.h"

#include "../lib/elastic/elastic.h"

#include <plait/memory.h>
#include <plait/message.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 20000
#define MOST  8

/* What the processes of a test show each other. */
struct board {
    _Atomic uint32_t stage;
    _Atomic int pid;
    _Atomic uint32_t created;         /* ranks that have the object */
    _Atomic uint32_t served;          /* servers that came to the end */
    _Atomic uint64_t exchanges[MOST]; /* each had applied */
    _Atomic uint32_t died[MOST], left[MOST];
    _Atomic double pull[MOST]; /* of the last one */
};

static struct board *fresh_board(void)
{
    static struct board *b;

    if (b == NULL)
        b = shared_memory(sizeof *b);
    assert_non_null(b);
    memset(b, 0, sizeof *b);
    return b;
}

static void await_stage(struct board *b, uint32_t stage)
{
    while (atomic_load(&b->stage) < stage)
        usleep(200);
}

struct plan {
    enum plait_elastic_mode mode;
    uint32_t nworker, nserver;
    bool library;
    uint32_t victim;                                                           /* rank */
    int (*work)(const struct plan *p, struct plait_elastic *e, uint32_t rank); /* a worker's, in join() */
    uint32_t after;                                                            /* microseconds, since */
    bool from_the_first; /* it began; else since all have the object */
    struct board *board;
};

static struct plait_elastic_options options_of(const struct plan *p, float *w)
{
    struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;

    o.mode = p->mode;
    o.nserver = p->nserver;
    o.weights = w;
    o.count = COUNT;
    return o;
}

static int serve(const struct plan *p, struct plait_elastic *e, uint32_t rank)
{
    struct plait_elastic_counts counts;
    const uint32_t s = rank - p->nworker;

    CHECK(plait_elastic_serve(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    CHECK(counts.workers == 0 && counts.left + counts.died == p->nworker);
    p->board->exchanges[s] = counts.exchanges;
    p->board->died[s] = counts.died;
    p->board->pull[s] = counts.pull;
    p->board->left[s] = counts.left;
    p->board->served++;
    CHECK(plait_elastic_destroy(e) == PLAIT_OK); /* although its comm may have lost a rank */
    return 0;
}

/* Zeroed weights, in memory that is read in place or, on even ranks, in memory that is not. */
static float *new_weights(uint32_t rank)
{
    void *w = NULL;

    if (rank % 2 == 0)
        return calloc(COUNT, sizeof(float));
    return plait_mem_alloc(COUNT * sizeof(float), &w) == PLAIT_OK ? w : NULL;
}

static void free_weights(uint32_t rank, float *w)
{
    if (rank % 2 == 0)
        free(w);
    else
        plait_mem_free(w);
}

/* A rank of an object whose workers do p->work. A server that is the victim dies when all workers have begun. */
static int join(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plan *p = arg;
    float *w = new_weights(rank);
    const struct plait_elastic_options o = options_of(p, w);
    struct plait_elastic *e;

    CHECK(w != NULL && plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= p->nworker && rank == p->victim) {
        await_stage(p->board, p->nworker);
        raise(SIGKILL);
    }
    const int failed = rank >= p->nworker ? serve(p, e, rank) : p->work(p, e, rank);
    free_weights(rank, w);
    return failed;
}

/* ---- Leaving early, coming late ---------------------------------------------------------------------------- */

/* Exchange until this many workers are left; then the pull is theirs. */
static int exchange_until(struct plait_elastic *e, uint32_t workers, uint32_t rank)
{
    struct plait_elastic_counts counts;

    do {
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
        plait_elastic_counts(e, &counts);
    } while (counts.workers > workers);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    CHECK(counts.workers == workers && fabs(counts.pull - 0.9 / workers) < 1e-12);
    return 0;
}

static int come_and_go(const struct plan *p, struct plait_elastic *e, uint32_t rank)
{
    await_stage(p->board, rank);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(exchange_until(e, p->nworker - rank, rank) == 0);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    p->board->stage++;
    return 0;
}

static void workers_finish_early_and_come_late(void **state)
{
    static const enum plait_elastic_mode modes[] = { PLAIT_ELASTIC_ASYNC, PLAIT_ELASTIC_HOGWILD };

    for (unsigned i = 0; i < 2; i++) {
        struct plan p = { .mode = modes[i], .nworker = 3, .nserver = 2, .work = come_and_go, .board = fresh_board() };
        run(5, 1, join, &p);
        assert_true(p.board->left[0] == 3 && p.board->left[1] == 3);
    }
}

/* ---- Stopping ---------------------------------------------------------------------------------------------- */

static int stop_another(const struct plan *p, struct plait_elastic *e, uint32_t rank)
{
    if (rank == 1)
        atomic_store(&p->board->pid, getpid());
    for (uint32_t round = 0; rank == 0 && round < 20; round++) {
        while (atomic_load(&p->board->pid) == 0)
            usleep(100);
        CHECK(kill(atomic_load(&p->board->pid), SIGSTOP) == 0);
        for (uint32_t i = 0; i < 10; i++)
            CHECK(plait_elastic_exchange(e) == PLAIT_OK);
        CHECK(kill(atomic_load(&p->board->pid), SIGCONT) == 0);
        usleep(300);
    }
    p->board->stage += rank == 0;
    while (atomic_load(&p->board->stage) == 0)
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    return 0;
}

static void a_stopped_worker_keeps_nobody_waiting(void **state)
{
    struct plan p = {
        .mode = PLAIT_ELASTIC_ASYNC, .nworker = 2, .nserver = 1, .work = stop_another, .board = fresh_board()
    };

    ranks = (struct ranks){ .nprocess = 3, .nthread = 1, .body = join, .arg = &p, .processes = true };
    assert_int_equal(ranks_run(&ranks), 0);
}

/* ---- Giving up --------------------------------------------------------------------------------------------- */

/* Worker 0 comes when worker 1 has waited for its turn in vain, and uses the memory of its weights for other things. */
static int give_up(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plan *p = arg;
    void *room = NULL;

    CHECK(plait_mem_alloc(COUNT * sizeof(float), &room) == PLAIT_OK);
    float *w = room;
    for (size_t i = 0; i < COUNT; i++)
        w[i] = (float)(1 + rank);
    struct plait_elastic_options o = options_of(p, w);
    struct plait_elastic *e;
    o.beta = 0;
    o.rho = o.lr = 1;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= p->nworker)
        return serve(p, e, rank);
    if (rank == 1) {
        CHECK(plait_elastic_exchange(e) == PLAIT_ERR_TIMEOUT && says("server 0 (rank 2)"));
        CHECK(plait_elastic_destroy(e) == PLAIT_ERR_TIMEOUT);
        for (size_t i = 0; i < COUNT; i++)
            w[i] = 1e30F;
        p->board->stage++;
        await_stage(p->board, 2); /* its memory is there as long as others may read it */
        return 0;
    }
    await_stage(p->board, 1);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    struct plait_elastic_counts counts;
    plait_elastic_counts(e, &counts);
    CHECK(counts.workers == 1);
    CHECK(plait_elastic_centre(e, w) == PLAIT_OK);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(w[i] == 1);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    p->board->stage++;
    return 0;
}

static void what_a_worker_that_gave_up_had_sent_is_not_applied(void **state)
{
    struct plan p = { .mode = PLAIT_ELASTIC_ORIGINAL, .nworker = 2, .nserver = 1, .board = fresh_board() };

    ranks = (struct ranks){
        .nprocess = 3, .nthread = 1, .body = give_up, .arg = &p, .processes = true, .options.deadline = 3
    };
    assert_int_equal(ranks_run(&ranks), 0);
    assert_true(p.board->exchanges[0] == 2 && p.board->died[0] == 1 && p.board->left[0] == 1);
}

/* ---- Dying ------------------------------------------------------------------------------------------------- */

static int lose_one(const struct plan *p, struct plait_elastic *e, uint32_t rank)
{
    if (p->victim < p->nworker) {
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
        if (rank == p->victim)
            raise(SIGKILL);
        CHECK(exchange_until(e, p->nworker - 1, rank) == 0);
        p->board->stage++;
        await_stage(p->board, p->nworker - 1); /* or the pull would be that of fewer */
        plait_elastic_destroy(e);
        return 0;
    }
    p->board->stage++;
    const enum plait_status status = plait_elastic_exchange(e);
    CHECK(status == PLAIT_ERR_PEER && says("server 1 (rank 3)") && says("died") && !says("server 0"));
    CHECK(plait_elastic_exchange(e) == PLAIT_ERR_FAILED && says("failed earlier") && says("server 1 (rank 3)"));
    CHECK(plait_elastic_destroy(e) == PLAIT_ERR_PEER && says("server 1 (rank 3)"));
    return 0;
}

static void a_dead_worker_is_counted_and_a_dead_server_named(void **state)
{
    for (uint32_t victim = 1; victim < 4; victim += 2) { /* a worker; a server */
        struct plan p = { .mode = PLAIT_ELASTIC_ASYNC,
                          .nworker = 2,
                          .nserver = 2,
                          .victim = victim,
                          .work = lose_one,
                          .board = fresh_board() };
        ranks = (struct ranks){ .nprocess = 4, .nthread = 1, .body = join, .arg = &p, .processes = true };
        assert_int_equal(ranks_run(&ranks), 1);
        assert_int_equal(p.board->served, victim == 1 ? 2 : 1);
        if (victim == 1)
            assert_true(p.board->died[0] == 1 && p.board->died[1] == 1 && p.board->left[0] == 1);
    }
}

/* The comm of all ranks fails, as it does where a worker has died on another host. */
static int lose_the_comm(const struct plan *p, struct plait_elastic *e, uint32_t rank)
{
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    if (rank == 1)
        CHECK(plait_comm_abort(e->comm, "a rank of it is dead") == PLAIT_OK);
    p->board->stage += rank == 1;
    await_stage(p->board, 1);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    return 0;
}

static void a_rank_of_the_comm_that_died_is_no_error_of_destroy(void **state)
{
    struct plan p = {
        .mode = PLAIT_ELASTIC_ASYNC, .nworker = 2, .nserver = 1, .work = lose_the_comm, .board = fresh_board()
    };

    run(3, 1, join, &p);
    assert_true(p.board->left[0] == 2 && p.board->died[0] == 0);
}

/* In ask(), what is needed for the second server is memory that cannot be read. The first has what it got by then. */
static void die_of_it(int number)
{
    usleep(200000);
    kill(getpid(), SIGKILL);
}

static bool die_between_two_servers(struct plait_elastic *e)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || signal(SIGSEGV, die_of_it) == SIG_ERR)
        return false;
    memcpy(p + page - sizeof *e->ends, e->ends, sizeof *e->ends);
    e->ends = (void *)(p + page - sizeof *e->ends);
    return mprotect(p + page, page, PROT_NONE) == 0;
}

/* A worker that dies when it has sent its weights to only one server. Another one lives. */
static int die_half_way(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plan *p = arg;
    float *w = calloc(COUNT, sizeof *w);
    const struct plait_elastic_options o = options_of(p, w);
    struct plait_elastic *e;

    CHECK(w != NULL && plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank == 0) {
        /* what has been bound for the first server's note lies in the old place: it is not heard any more */
        CHECK(die_between_two_servers(e));
        CHECK(plait_elastic_start(e) != PLAIT_OK);
    }
    while (rank == 1 && !(e->ends[0].heard.workers == 1 && e->ends[1].heard.workers == 1))
        CHECK(plait_elastic_centre(e, w) == PLAIT_OK);
    const int failed = rank == 1 ? plait_elastic_destroy(e) != PLAIT_OK : serve(p, e, rank);
    free(w);
    return failed;
}

/* exchanges: each server's */
static void die_between_servers(enum plait_elastic_mode mode, uint32_t nserver, const uint64_t *exchanges)
{
    struct plan p = { .mode = mode, .nworker = 2, .nserver = nserver, .board = fresh_board() };

    ranks = (struct ranks){ .nprocess = 2 + nserver, .nthread = 1, .body = die_half_way, .arg = &p, .processes = true };
    assert_int_equal(ranks_run(&ranks), 1);
    for (uint32_t s = 0; s < nserver; s++) {
        assert_int_equal(p.board->exchanges[s], exchanges[s]);
        assert_true(p.board->pull[s] == (exchanges[s] > 0 ? 0.45 : 0));
        assert_true(p.board->died[s] == 1 && p.board->left[s] == 1);
    }
}

static void what_was_sent_to_one_server_is_applied_by_that_one(void **state)
{
    static const uint64_t first[] = { 1, 0, 0 };

    die_between_servers(PLAIT_ELASTIC_ASYNC, 2, first);
    die_between_servers(PLAIT_ELASTIC_HOGWILD, 3, first);
}

/* ---- Dying at any moment ----------------------------------------------------------------------------------- */

static void *kill_later(void *arg)
{
    const struct plan *p = arg;

    while (!p->from_the_first && atomic_load(&p->board->created) < p->nworker + p->nserver)
        usleep(20);
    usleep(p->after);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* The victim goes on until it dies; the others, in the sync modes, until they are told. */
static int meet_death(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plan *p = arg;
    const bool served = p->nserver > 0;
    struct plait_elastic *e;
    pthread_t killer;
    void *room = NULL;
    char name[64];

    if (rank == p->victim)
        CHECK(pthread_create(&killer, NULL, kill_later, arg) == 0);
    if (p->library)
        CHECK(plait_mem_alloc(COUNT * sizeof(float), &room) == PLAIT_OK);
    float *w = p->library ? room : calloc(COUNT, sizeof *w);
    const struct plait_elastic_options o = options_of(p, w);
    enum plait_status status = plait_elastic_create(*comm, &o, &e);
    if (status != PLAIT_OK) { /* it died during creation, of which all know something */
        CHECK(status == PLAIT_ERR_PEER || status == PLAIT_ERR_FAILED);
        plait_comm_destroy(*comm);
        *comm = NULL;
        return 0;
    }
    p->board->created++;
    if (rank >= p->nworker) {
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
        struct plait_elastic_counts counts;
        plait_elastic_counts(e, &counts);
        while (rank == p->victim)
            pause();
        p->board->exchanges[rank - p->nworker] = counts.exchanges;
        p->board->served++;
        plait_elastic_destroy(e);
        return 0;
    }
    for (uint32_t step = 0; status == PLAIT_OK && (!served || rank == p->victim || step < 60); step++) {
        status = plait_elastic_start(e);
        usleep(20);
        if (status == PLAIT_OK)
            status = plait_elastic_finish(e);
    }
    snprintf(name, sizeof name, served ? "(rank %u)" : "rank %u (process ", p->victim);
    if (status != PLAIT_OK && p->board->created == p->nworker + p->nserver)
        CHECK(says(name) && (!served || p->victim >= p->nworker));
    plait_elastic_destroy(e);
    return 0;
}

/* Did all have the object when the victim died? */
static bool kill_somebody(uint64_t seed)
{
    struct plan p = { .mode = (enum plait_elastic_mode)(seed % PLAIT_NELASTIC), .board = fresh_board() };
    uint64_t random = seed;

    p.nworker = 2 + (uint32_t)(random_next(&random) % 2);
    p.nserver = p.mode >= PLAIT_ELASTIC_SYNC1 ? 0 : 1 + (uint32_t)(random_next(&random) % 2);
    p.library = random_next(&random) % 2 == 0;
    p.victim = (uint32_t)(random_next(&random) % (p.nworker + p.nserver));
    p.from_the_first = random_next(&random) % 4 == 0;
    p.after = (uint32_t)(random_next(&random) % (p.from_the_first ? 40000 : 3000));
    printf("seed %llu: %s, %u workers, %u servers, rank %u dies %u us after %s\n", (unsigned long long)seed,
           plait_elastic_name(p.mode), p.nworker, p.nserver, p.victim, p.after,
           p.from_the_first ? "its start" : "all have begun");
    ranks = (struct ranks){
        .nprocess = p.nworker + p.nserver, .nthread = 1, .limit = 120, .body = meet_death, .arg = &p, .processes = true
    };
    assert_int_equal(ranks_run(&ranks), 1);
    const uint64_t n = p.board->exchanges[0], m = p.board->exchanges[1];
    if (p.board->served == 2) /* a dead worker's last exchange: by each that has received its part */
        assert_true(n == m || n == m + 1 || m == n + 1);
    return p.board->created == p.nworker + p.nserver;
}

static void a_rank_dies_at_any_moment_in_any_mode(void **state)
{
    const uint64_t n = full() ? 100 : light() ? 7 : 14;

    uint64_t late = 0;
    for (uint64_t seed = 1; seed <= n; seed++)
        late += kill_somebody(seed);
    printf("%llu of %llu died when all had begun\n", (unsigned long long)late, (unsigned long long)n);
    assert_true(late * 2 >= n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_finish_early_and_come_late),
        cmocka_unit_test(a_stopped_worker_keeps_nobody_waiting),
        cmocka_unit_test(what_a_worker_that_gave_up_had_sent_is_not_applied),
        cmocka_unit_test(a_dead_worker_is_counted_and_a_dead_server_named),
        cmocka_unit_test(a_rank_of_the_comm_that_died_is_no_error_of_destroy),
        cmocka_unit_test(what_was_sent_to_one_server_is_applied_by_that_one),
        cmocka_unit_test(a_rank_dies_at_any_moment_in_any_mode),
    };

    return cmocka_run_group_tests_name("elastic_deaths", tests, NULL, NULL);
}
