/* SPDX-License-Identifier: BSD-3-Clause */
/* Elastic averaging: wrong use is named and changes nothing; what is set later. */
#include "child.h"
#include "elastic_model.h"
#include "pending.h"
#include "unit_ranks.h"

#include <plait/coll.h>
#include <plait/elastic.h>
#include <plait/group.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 3001 /* of weights: no multiple of anything */

struct kind {
    enum plait_elastic_mode mode;
    uint32_t nworker, nserver;
};

static struct plait_elastic_options options_of(const struct kind *k, float *weights)
{
    struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;

    o.mode = k->mode;
    o.nserver = k->nserver;
    o.weights = weights;
    o.count = COUNT;
    return o;
}

static int misuse(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float *w = calloc(COUNT, sizeof(float)), *g = calloc(COUNT, sizeof(float));
    const struct kind sync = { .mode = PLAIT_ELASTIC_SYNC2 };
    const struct plait_elastic_options good = options_of(&sync, w);
    struct plait_elastic_options o = good;
    struct plait_elastic *e = NULL;

    CHECK(w != NULL && g != NULL);
#define WRONG(field, value, text)                                                               \
    do {                                                                                        \
        o = good;                                                                               \
        o.field = value;                                                                        \
        CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_ARG && e == NULL && says(text)); \
    } while (0)
    WRONG(size, 3, "start from PLAIT_ELASTIC_OPTIONS_DEFAULT");
    WRONG(mode, (enum plait_elastic_mode)77, "mode is 77");
    WRONG(weights, NULL, "weights is NULL");
    WRONG(count, 0, "count is 0");
    WRONG(period, 0, "period is 0");
    WRONG(beta, -1, "beta is -1");
    WRONG(beta, 0, "0 if rho is above 0");
    WRONG(rho, 1, "0 if rho is above 0");
    WRONG(rho, (double)NAN, "rho is nan");
    WRONG(lr, -1, "lr is -1");
    WRONG(momentum, 1, "momentum is 1");
    WRONG(payload, PLAIT_INT32, "payload is ");
    WRONG(nserver, 1, "has no servers");
    WRONG(threads, 2, "only hogwild");
#undef WRONG
    o = good;
    o.beta = 0;
    o.rho = 50;
    o.lr = 0.1;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_ARG && e == NULL && says("the pull, at most 1"));
    o = good;
    o.algorithm = "nonsense";
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_CONFIG && e == NULL && says("no algorithm 'nonsense'"));
    o = good;
    o.mode = PLAIT_ELASTIC_ASYNC;
    o.nserver = 2;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_ARG && says("a server and a worker"));
    o = good;
    o.mode = PLAIT_ELASTIC_SYNC1;
    o.algorithm = "ring";
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_ARG && says("algorithm is 'ring', but mode sync1"));
    o.mode = PLAIT_ELASTIC_ASYNC;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_ARG && says("algorithm is 'ring', but mode async"));
    o.algorithm = NULL;
    o.mode = PLAIT_ELASTIC_ORIGINAL;
    o.reproducible = 1;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_ARG && says("reproducible is 1"));
    CHECK(plait_elastic_create(*comm, NULL, &e) == PLAIT_ERR_ARG &&
          plait_elastic_create(NULL, &good, &e) == PLAIT_ERR_ARG);
    CHECK(plait_elastic_create(*comm, &good, &e) == PLAIT_OK);
    CHECK(plait_elastic_finish(e) == PLAIT_ERR_ARG && says("no exchange"));
    CHECK(plait_elastic_step(e, g) == PLAIT_ERR_ARG && says("lr is 0"));
    CHECK(plait_elastic_set_lr(e, 0) == PLAIT_ERR_ARG && says("above 0"));
    CHECK(plait_elastic_serve(e) == PLAIT_ERR_ARG && says("is a worker"));
    CHECK(plait_elastic_centre(e, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_elastic_start(e) == PLAIT_OK);
    CHECK(plait_elastic_start(e) == PLAIT_ERR_ARG && says("under way"));
    CHECK(plait_elastic_centre(e, g) == PLAIT_ERR_ARG && says("under way"));
    CHECK(plait_elastic_finish(e) == PLAIT_OK);
    CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK && plait_elastic_destroy(NULL) == PLAIT_OK);
    CHECK(plait_elastic_exchange(NULL) == PLAIT_ERR_ARG);
    CHECK(plait_elastic_find("sync3") == PLAIT_ELASTIC_SYNC3 && plait_elastic_find("?") == -1);
    free(w);
    free(g);
    return 0;
}

/* Every call in a group; afterwards the object is as it was. rank 1 of the modes with servers serves. */
static int call_in_a_group(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = calloc(COUNT, sizeof(float)), *g = calloc(COUNT, sizeof(float));
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic_counts counts;
    struct plait_elastic *e, *other = NULL;

    CHECK(w != NULL && g != NULL);
    o.lr = 0.5;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
#define REFUSED(call) CHECK((call) == PLAIT_ERR_ARG && says("a group is open"))
    CHECK(plait_group_start() == PLAIT_OK);
    REFUSED(plait_elastic_create(*comm, &o, &other));
    REFUSED(plait_elastic_start(e));
    REFUSED(plait_elastic_finish(e));
    REFUSED(plait_elastic_exchange(e));
    REFUSED(plait_elastic_step(e, g));
    REFUSED(plait_elastic_set_lr(e, 0.25));
    REFUSED(plait_elastic_serve(e));
    REFUSED(plait_elastic_centre(e, g));
    REFUSED(plait_elastic_destroy(e));
    CHECK(plait_group_end() == PLAIT_OK);
#undef REFUSED
    if (rank >= k->nworker)
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
    else
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    CHECK(counts.exchanges == 1);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free(w);
    free(g);
    return 0;
}

static void a_group_takes_no_call_and_changes_nothing(void **state)
{
    struct kind sync = { .mode = PLAIT_ELASTIC_SYNC3, .nworker = 2 };
    struct kind served = { .mode = PLAIT_ELASTIC_ASYNC, .nworker = 1, .nserver = 1 };

    run_both(2, call_in_a_group, &sync);
    run_both(2, call_in_a_group, &served);
}

/* When all have left, each server still has its part of the centre: which lies where its weights do. */
static int read_on_a_server(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = calloc(COUNT, sizeof(float)), *centre = calloc(COUNT, sizeof(float));
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic *e;

    CHECK(w != NULL && centre != NULL);
    for (size_t i = 0; i < COUNT; i++)
        w[i] = (float)i;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank < k->nworker) {
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    } else {
        const size_t share = (COUNT / 2 + 15) / 16 * 16, start = (rank - k->nworker) * share;
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
        CHECK(plait_elastic_centre(e, NULL) == PLAIT_ERR_ARG && says("out is NULL"));
        CHECK(plait_elastic_centre(e, centre) == PLAIT_OK);
        for (size_t i = 1; i < COUNT; i++)
            CHECK(centre[i] == (i - start < share ? (float)i : 0));
    }
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free(w);
    free(centre);
    return 0;
}

static void a_server_can_read_its_centre_in_the_end(void **state)
{
    struct kind k = { .mode = PLAIT_ELASTIC_ASYNC, .nworker = 2, .nserver = 2 };

    run_both(4, read_on_a_server, &k);
}

/* Weights 1e6 from the centre, further than float16 goes: all stays finite, and the worker comes nearer. */
static int be_far_away(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = calloc(COUNT, sizeof(float));
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic *e;

    CHECK(w != NULL);
    o.payload = PLAIT_FLOAT16;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    for (size_t i = 0; i < COUNT; i++)
        w[i] = 1e6F;
    if (rank >= k->nworker)
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
    else
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    for (size_t i = 0; i < COUNT && rank < k->nworker; i++)
        CHECK(isfinite(w[i]) && w[i] < 1e6F);
    if (k->nserver == 0) {
        CHECK(plait_elastic_centre(e, w) == PLAIT_OK);
        CHECK(isfinite(w[0]) && w[0] > 0);
    }
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free(w);
    return 0;
}

static void differences_beyond_float16_stay_finite(void **state)
{
    struct kind sync = { .mode = PLAIT_ELASTIC_SYNC2, .nworker = 3 };
    struct kind served = { .mode = PLAIT_ELASTIC_ASYNC, .nworker = 2, .nserver = 1 };

    run_both(3, be_far_away, &sync);
    run_both(3, be_far_away, &served);
}

/* Without options.momentum `async-momentum` steps with 0.9. */
static int step_twice(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = calloc(COUNT, sizeof(float)), *g = calloc(COUNT, sizeof(float));
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic *e;

    CHECK(w != NULL && g != NULL);
    o.lr = 1;
    g[7] = 1;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= k->nworker)
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
    else
        CHECK(plait_elastic_step(e, g) == PLAIT_OK && plait_elastic_step(e, g) == PLAIT_OK && w[7] == -1 + (-0.9F - 1));
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free(w);
    free(g);
    return 0;
}

static void async_momentum_has_nine_tenths_by_default(void **state)
{
    struct kind k = { .mode = PLAIT_ELASTIC_ASYNC_MOMENTUM, .nworker = 1, .nserver = 1 };

    run_both(2, step_twice, &k);
}

/* Worker 0 exchanges 3 times, worker 1 twice, worker 0 again: each knows how many of the other's came between. */
static int take_turns(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = calloc(COUNT, sizeof(float));
    const struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic_counts counts;
    struct plait_comm *workers;
    struct plait_elastic *e;

    CHECK(w != NULL && plait_comm_split(*comm, rank < 2 ? 0 : PLAIT_NO_COLOR, 0, NULL, &workers) == PLAIT_OK);
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= k->nworker) {
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
        plait_elastic_counts(e, &counts);
        CHECK(counts.exchanges == 6 && counts.behind == 5 && counts.behind_max == 3);
    } else {
        static const uint32_t calls[] = { 3, 2, 1 };
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t n = 0; n < calls[i] && i % 2 == rank; n++)
                CHECK(plait_elastic_exchange(e) == PLAIT_OK);
            CHECK(plait_barrier(workers, NULL) == PLAIT_OK);
        }
        plait_elastic_counts(e, &counts);
        CHECK(counts.behind == (rank == 0 ? 2 : 3) && counts.behind_max == counts.behind);
        CHECK(plait_comm_destroy(workers) == PLAIT_OK);
    }
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free(w);
    return 0;
}

static void staleness_is_what_others_did_in_between(void **state)
{
    struct kind k = { .mode = PLAIT_ELASTIC_ASYNC, .nworker = 2, .nserver = 1 };

    run_both(3, take_turns, &k);
}

/* ---- Overlap ----------------------------------------------------------------------------------------------- */

struct watch { /* of a server: what it has applied, where the worker sees it without a call */
    struct plait_elastic *e;
    _Atomic uint64_t *applied;
};

static void *watch(void *arg)
{
    const struct watch *w = arg;
    struct plait_elastic_counts counts = { .exchanges = 0 };

    for (; counts.exchanges == 0; usleep(1000))
        plait_elastic_counts(w->e, &counts);
    *w->applied = counts.exchanges;
    return NULL;
}

static int only_start(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind k = { .mode = PLAIT_ELASTIC_ASYNC, .nworker = 1, .nserver = 1 };
    struct watch w = { .applied = arg };
    const size_t count = (size_t)1 << 20;
    float *weights = calloc(count, sizeof(float));
    struct plait_elastic_options o = options_of(&k, weights);
    pthread_t thread;

    CHECK(weights != NULL);
    o.count = count;
    CHECK(plait_elastic_create(*comm, &o, &w.e) == PLAIT_OK);
    if (rank == 1) {
        CHECK(pthread_create(&thread, NULL, watch, &w) == 0);
        CHECK(plait_elastic_serve(w.e) == PLAIT_OK && pthread_join(thread, NULL) == 0);
    } else {
        CHECK(plait_elastic_start(w.e) == PLAIT_OK);
        while (atomic_load(w.applied) == 0)
            usleep(1000);
        CHECK(plait_elastic_finish(w.e) == PLAIT_OK);
    }
    CHECK(plait_elastic_destroy(w.e) == PLAIT_OK);
    free(weights);
    return 0;
}

static void a_started_exchange_of_messages_goes_on_by_itself(void **state)
{
    void *applied = shared_memory(sizeof(_Atomic uint64_t));
    const char *pace = getenv("PLAIT_PACE");

    assert_non_null(applied);
    setenv("PLAIT_FOR_TESTS", "1", 1);
    if (pace == NULL)
        setenv("PLAIT_PACE", "20us,1GB/s", 1);
    ranks = (struct ranks){ .nprocess = 2, .nthread = 1, .body = only_start, .arg = applied, .processes = true };
    const unsigned failed = ranks_run(&ranks);
    if (pace == NULL)
        unsetenv("PLAIT_PACE");
    assert_int_equal(failed, 0);
}

/* Ranks that differ: every one is told the option, both ranks and values; and their comm goes on. */
static int differ(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float w[4] = { 0 };
    struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;
    struct plait_elastic *e = NULL;

    o.weights = w;
    o.count = 4;
    o.period = rank == 1 ? 3 : 1;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_MISMATCH &&
          says("rank 0 has \"period 1\" where rank 1 has \"period 3\""));
    o.period = rank == 1 ? 0 : 1;
    CHECK(plait_elastic_create(*comm, &o, &e) == (rank == 1 ? PLAIT_ERR_ARG : PLAIT_ERR_MISMATCH));
    CHECK(says(rank == 1 ? "period is 0" : "rank 1 failed"));
    o.period = 1;
    o.mode = rank == 1 ? PLAIT_ELASTIC_SYNC2 : PLAIT_ELASTIC_SYNC3;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_MISMATCH &&
          says("rank 0 has \"mode sync3\" where rank 1 has \"mode sync2\""));
    o.mode = PLAIT_ELASTIC_SYNC2;
    o.payload = rank == 1 ? PLAIT_BFLOAT16 : PLAIT_FLOAT32;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_MISMATCH &&
          says("rank 0 has \"payload float32\" where rank 1 has \"payload bfloat16\""));
    o.payload = PLAIT_FLOAT32;
    o.algorithm = rank == 1 ? "ring" : NULL;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_ERR_MISMATCH &&
          says("rank 0 has \"algorithm chosen by the library\" where rank 1 has \"algorithm ring\""));
    o.algorithm = NULL;
    o.beta = 0;
    o.rho = 1;
    o.lr = 0.5;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    CHECK(plait_elastic_set_lr(e, 0.25 * (1 + rank)) == PLAIT_ERR_MISMATCH &&
          says("rank 0 has \"lr 0.25\" where rank 1 has \"lr 0.5\""));
    CHECK(plait_elastic_set_lr(e, rank == 1 ? -1 : 0.25) == (rank == 1 ? PLAIT_ERR_ARG : PLAIT_ERR_MISMATCH));
    CHECK(says(rank == 1 ? "lr is -1" : "rank 1 failed: plait_elastic_set_lr: lr is -1"));
    CHECK(plait_elastic_set_lr(e, 0) == PLAIT_ERR_ARG && says("lr is 0"));
    CHECK(plait_elastic_set_lr(e, 1.5) == PLAIT_ERR_ARG && says("lr rho at most 1"));
    CHECK(plait_elastic_set_lr(e, 0.25) == PLAIT_OK && plait_elastic_exchange(e) == PLAIT_OK);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    return 0;
}

static void wrong_use_is_named_and_changes_nothing(void **state)
{
    run(2, 1, misuse, NULL);
    run_both(2, differ, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_takes_no_call_and_changes_nothing),
        cmocka_unit_test(a_server_can_read_its_centre_in_the_end),
        cmocka_unit_test(async_momentum_has_nine_tenths_by_default),
        cmocka_unit_test(staleness_is_what_others_did_in_between),
        cmocka_unit_test(a_started_exchange_of_messages_goes_on_by_itself),
        cmocka_unit_test(differences_beyond_float16_stay_finite),
        cmocka_unit_test(wrong_use_is_named_and_changes_nothing),
    };

    return cmocka_run_group_tests_name("elastic_use", tests, NULL, NULL);
}
