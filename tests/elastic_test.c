/* SPDX-License-Identifier: BSD-3-Clause */
/* Elastic averaging: the bits of the equations, nothing lost or doubled, minima that are found. */
#include "child.h"
#include "elastic_model.h"
#include "pending.h"
#include "random.h"
#include "tier.h"
#include "unit.h"

#include "../lib/elastic/elastic.h"

#include <plait/memory.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 3001 /* of weights: no multiple of anything */

/* A way to exchange, as a row of a test. */
struct kind {
    enum plait_elastic_mode mode;
    enum plait_dtype payload;
    uint32_t nworker, nserver;
    bool library, apart; /* weights in library memory; start and finish instead of exchange */
    const char *algorithm;
    bool any_order; /* not reproducible */
};

static struct plait_elastic_options options_of(const struct kind *k, float *weights)
{
    struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;

    o.mode = k->mode;
    o.payload = k->payload;
    o.nserver = k->nserver;
    o.algorithm = k->algorithm;
    o.weights = weights;
    o.count = COUNT;
    o.reproducible = k->mode >= PLAIT_ELASTIC_SYNC1 && !k->any_order;
    return o;
}

static float *new_weights(bool library)
{
    void *p = NULL;

    if (!library)
        return calloc(COUNT, sizeof(float));
    return plait_mem_alloc(COUNT * sizeof(float), &p) == PLAIT_OK ? p : NULL;
}

static void free_weights(bool library, float *w)
{
    if (library)
        plait_mem_free(w);
    else
        free(w);
}

static enum plait_status exchange(const struct kind *k, struct plait_elastic *e)
{
    if (!k->apart)
        return plait_elastic_exchange(e);
    const enum plait_status status = plait_elastic_start(e);
    return status == PLAIT_OK ? plait_elastic_finish(e) : status;
}

/* ---- Bits -------------------------------------------------------------------------------------------------- */

/* A gradient that everybody can work out: of the weights as they were before the exchange. */
static void gradient_of(const float *w, uint32_t rank, float *g)
{
    for (size_t i = 0; i < COUNT; i++)
        g[i] = w[i] * 0.75F - (float)((i + rank) % 13) * 0.1F;
}

static int serve(struct plait_elastic *e, uint32_t rank)
{
    CHECK(plait_elastic_serve(e) == PLAIT_OK);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    return 0;
}

/* Every rank runs the model of all beside the object. */
static int follow_the_model(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = new_weights(k->library), *g = malloc(COUNT * sizeof *g), *centre = malloc(COUNT * sizeof *centre);
    struct plait_elastic_options o = options_of(k, w);
    struct plait_comm *workers;
    struct plait_elastic *e;
    struct model m;

    CHECK(plait_comm_split(*comm, rank < k->nworker ? 0 : PLAIT_NO_COLOR, 0, NULL, &workers) == PLAIT_OK);
    o.momentum = 0.5;
    o.lr = 0.125;
    CHECK(w != NULL && g != NULL && centre != NULL && model_make(&m, k->mode, k->payload, k->nworker, COUNT));
    if (rank < k->nworker)
        memcpy(w, m.w[rank], COUNT * sizeof *w);
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= k->nworker) {
        model_free(&m);
        free_weights(k->library, w);
        free(g);
        free(centre);
        return serve(e, rank);
    }
    for (uint32_t step = 0; step < 6; step++) {
        for (uint32_t r = 0; r < k->nworker; r++)
            gradient_of(m.w[r], r, m.g[r]);
        gradient_of(w, rank, g);
        model_step(&m, (float)(0.9 / k->nworker), 0.5F, 0.125F);
        CHECK(exchange(k, e) == PLAIT_OK);
        CHECK(plait_elastic_step(e, g) == PLAIT_OK);
        CHECK(memcmp(w, m.w[rank], COUNT * sizeof *w) == 0);
        if (k->mode == PLAIT_ELASTIC_ORIGINAL && k->nworker > 1)
            continue; /* what a reader finds depends on who came meanwhile */
        CHECK(plait_elastic_centre(e, centre) == PLAIT_OK);
        CHECK(memcmp(centre, m.centre, COUNT * sizeof *centre) == 0);
    }
    CHECK(plait_barrier(workers, NULL) == PLAIT_OK); /* the pull is another one when a worker has left */
    CHECK(plait_elastic_destroy(e) == PLAIT_OK && plait_comm_destroy(workers) == PLAIT_OK);
    model_free(&m);
    free_weights(k->library, w);
    free(g);
    free(centre);
    return 0;
}

static const enum plait_dtype payloads[] = { PLAIT_FLOAT32, PLAIT_FLOAT16, PLAIT_BFLOAT16 };

/* The bits do not depend on whether links carry messages: all are computed where they do not. */
static bool is_short(void)
{
    return light() || (!full() && getenv("PLAIT_PACE") != NULL);
}

/* Every mode whose bits are promised: sync with every number of workers, servers with one, original with all. */
static void the_bits_are_those_of_the_equations(void **state)
{
    for (int mode = 0; mode < PLAIT_NELASTIC; mode++)
        for (uint32_t i = 0; i < 6; i++) {
            const bool sync = mode >= PLAIT_ELASTIC_SYNC1, several = sync || mode == PLAIT_ELASTIC_ORIGINAL;
            if (is_short() && (i + (uint32_t)mode) % 2 == 1)
                continue;
            struct kind k = { .mode = (enum plait_elastic_mode)mode,
                              .payload = payloads[i % 3],
                              .nworker = several ? 1 + i % 5 : 1,
                              .nserver = sync ? 0 : 1 + i % 3,
                              .library = i % 2 == 0,
                              .apart = i % 4 < 2 };
            run(k.nworker + k.nserver, 1, follow_the_model, &k);
            if (i % 4 == 3)
                run(1, k.nworker + k.nserver, follow_the_model, &k);
        }
}

/* Many more slices than are in flight: their sums lie in the places of those that are done. */
static void the_bits_are_the_same_with_many_slices(void **state)
{
    setenv("PLAIT_SLICE", "400", 1);
    for (uint32_t i = 0; i < 12; i += is_short() ? 5 : 1) {
        struct kind k = { .mode = i % 2 ? PLAIT_ELASTIC_SYNC3 : PLAIT_ELASTIC_SYNC2,
                          .payload = payloads[i / 2 % 3],
                          .nworker = 1 + i % 5,
                          .library = i % 3 > 0 };
        run_both(k.nworker, follow_the_model, &k);
    }
    unsetenv("PLAIT_SLICE");
}

/* The model has one order of summing: so these depend on no algorithm. */
static void reproducible_bits_depend_on_no_algorithm(void **state)
{
    static const char *const algorithms[] = { "one-shot", "two-shot", "binomial", "halving-doubling" };

    for (uint32_t i = 0; i < 8; i++) {
        struct kind k = { .mode = i % 2 ? PLAIT_ELASTIC_SYNC3 : PLAIT_ELASTIC_SYNC2,
                          .payload = payloads[i % 3],
                          .nworker = 4,
                          .algorithm = algorithms[i / 2],
                          .library = true };
        run(4, 1, follow_the_model, &k);
    }
}

/* Steps from the same start, twice; all ranks' centres are compared with rank 0's. */
static int repeat(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = new_weights(k->library), *then = calloc(COUNT, sizeof *then), *g = calloc(COUNT, sizeof *g);
    float *centre = calloc(COUNT, sizeof *centre);
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic *e;

    CHECK(w != NULL && then != NULL && g != NULL && centre != NULL);
    o.lr = 0.125;
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint64_t seed = 7 + rank;
        for (size_t i = 0; i < COUNT; i++)
            w[i] = (float)(int64_t)random_next(&seed) * 1e-19F;
        CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
        for (uint32_t step = 0; step < 5; step++) {
            gradient_of(w, rank, g);
            CHECK(exchange(k, e) == PLAIT_OK && plait_elastic_step(e, g) == PLAIT_OK);
        }
        CHECK(plait_elastic_centre(e, centre) == PLAIT_OK);
        CHECK(turn == 0 || memcmp(then, w, COUNT * sizeof *w) == 0);
        memcpy(then, w, COUNT * sizeof *w);
        memcpy(g, centre, COUNT * sizeof *g);
        CHECK(plait_broadcast(*comm, g, g, COUNT, PLAIT_FLOAT32, 0, NULL) == PLAIT_OK);
        CHECK(memcmp(g, centre, COUNT * sizeof *g) == 0);
        CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    }
    free_weights(k->library, w);
    free(then);
    free(g);
    free(centre);
    return 0;
}

/* Without options.reproducible, too: in the order that the chosen algorithm has, whatever it is. */
static void all_ranks_and_runs_have_the_same_bits(void **state)
{
    for (int mode = PLAIT_ELASTIC_SYNC1; mode < PLAIT_NELASTIC; mode++)
        for (uint32_t i = 0; i < 4; i++) {
            struct kind k = { .mode = (enum plait_elastic_mode)mode,
                              .payload = payloads[i % 3],
                              .nworker = 3 + i % 2,
                              .library = i % 2 == 0,
                              .apart = i < 2,
                              .any_order = true };
            run_both(k.nworker, repeat, &k);
        }
}

/* ---- Nothing lost, nothing doubled ------------------------------------------------------------------------- */

#define MOST 8

struct totals {           /* of a run, where all processes see them */
    double workers[MOST]; /* sum of its weights at the end */
    double added[MOST], first[MOST];
    double centre;
    struct plait_elastic_counts server[MOST];
};

struct conserved {
    struct kind kind;
    struct totals *totals;
};

static double sum_of(const float *x)
{
    double sum = 0;

    for (size_t i = 0; i < COUNT; i++)
        sum += x[i];
    return sum;
}

/* A pull of 1 swaps weights and centre, of 1/4 and whole numbers stays exact for a few steps: sums are exact. */
static int keep_the_sum(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct conserved *c = arg;
    const struct kind *k = &c->kind;
    const bool sync = k->nserver == 0;
    float *w = new_weights(k->library), *centre = malloc(COUNT * sizeof *centre);
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic *e;
    struct plait_comm *workers;
    uint64_t seed = 99 + rank;

    CHECK(w != NULL && centre != NULL);
    o.beta = 0;
    o.rho = 1;
    o.lr = sync ? 0.25 : 1;
    o.momentum = k->mode == PLAIT_ELASTIC_ASYNC_MOMENTUM ? 0.5 : 0;
    CHECK(plait_comm_split(*comm, rank < k->nworker ? 0 : PLAIT_NO_COLOR, 0, NULL, &workers) == PLAIT_OK);
    for (size_t i = 0; i < COUNT; i++)
        w[i] = (float)(random_next(&seed) % 64);
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= k->nworker) {
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
        plait_elastic_counts(e, &c->totals->server[rank - k->nworker]);
        CHECK(plait_elastic_destroy(e) == PLAIT_OK);
        free_weights(k->library, w);
        free(centre);
        return 0;
    }
    c->totals->first[rank] = sum_of(w);
    for (uint32_t step = 0; step < (sync ? 4 : 20); step++) {
        CHECK(exchange(k, e) == PLAIT_OK);
        for (size_t i = 0; i < COUNT && step % 4 == 0; i += 7) {
            w[i] += 1;
            c->totals->added[rank] += 1;
        }
    }
    CHECK(plait_barrier(workers, NULL) == PLAIT_OK);
    CHECK(plait_elastic_centre(e, centre) == PLAIT_OK);
    c->totals->workers[rank] = sum_of(w);
    if (rank == 0)
        c->totals->centre = sum_of(centre);
    CHECK(plait_barrier(workers, NULL) == PLAIT_OK);
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    CHECK(plait_comm_destroy(workers) == PLAIT_OK);
    free_weights(k->library, w);
    free(centre);
    return 0;
}

static struct totals *shared_totals(void)
{
    static struct totals *t;

    if (t == NULL)
        t = shared_memory(sizeof *t);
    assert_non_null(t);
    memset(t, 0, sizeof *t);
    return t;
}

static void what_workers_give_up_the_centre_gains(void **state)
{
    for (int mode = 0; mode < PLAIT_NELASTIC; mode++)
        for (uint32_t i = full() ? 0 : (uint32_t)mode % 3; i < 6; i += full() ? 1 : 3) {
            const bool sync = mode >= PLAIT_ELASTIC_SYNC1;
            struct conserved c = { { .mode = (enum plait_elastic_mode)mode,
                                     .payload = sync ? PLAIT_FLOAT32 : payloads[i % 3],
                                     .nworker = 4,
                                     .nserver = sync ? 0 : 1 + i % 2,
                                     .library = i % 2 == 0,
                                     .apart = i < 3 },
                                   shared_totals() };
            if (!is_short()) {
                run(1, 4 + c.kind.nserver, keep_the_sum, &c);
                memset(c.totals, 0, sizeof *c.totals);
            }
            run(4 + c.kind.nserver, 1, keep_the_sum, &c);
            double before = c.totals->first[0], after = c.totals->centre; /* the centre begins as rank 0's weights */
            for (uint32_t r = 0; r < 4; r++) {
                before += c.totals->first[r] + c.totals->added[r];
                after += c.totals->workers[r];
            }
            double lost = 0;
            for (uint32_t s = 0; s < c.kind.nserver; s++) {
                const struct plait_elastic_counts *n = &c.totals->server[s];
                assert_true(n->left == 4 && n->died == 0 && n->workers == 0 && n->exchanges == 80);
                lost += n->forces - n->movement;
            }
            if (mode == PLAIT_ELASTIC_HOGWILD)
                printf("hogwild, %u servers: %g lost of %g\n", c.kind.nserver, lost, before);
            assert_true(before - after == (mode == PLAIT_ELASTIC_HOGWILD ? lost : 0));
        }
}

/*
 * The centre begins at 0, weights are 64 before each exchange, and the pull is 1/2: all is exact, so what is lost are
 * forces, no rounding. Other programs may keep the threads from each other; so more than once.
 */
static int collide(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { WIDE = 1 << 20 };
    struct conserved *c = arg;
    const struct kind *k = &c->kind;
    struct plait_elastic_options o = options_of(k, NULL);
    struct plait_elastic *e;
    float *w = calloc(WIDE, sizeof *w);

    CHECK(w != NULL);
    o.weights = w;
    o.count = WIDE;
    o.threads = k->nworker;
    o.beta = 0;
    o.rho = 1;
    o.lr = 0.5;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    for (uint32_t step = 0; rank < k->nworker && step < 5; step++) {
        for (size_t i = 0; i < WIDE; i++)
            w[i] = 64;
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    }
    if (rank >= k->nworker) {
        double sum = 0;
        CHECK(plait_elastic_serve(e) == PLAIT_OK && plait_elastic_centre(e, w) == PLAIT_OK);
        plait_elastic_counts(e, &c->totals->server[0]);
        for (size_t i = 0; i < WIDE; i++)
            sum += w[i];
        CHECK(c->totals->server[0].movement == sum);
    }
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free(w);
    return 0;
}

static void what_hogwild_loses_is_reported_as_lost(void **state)
{
    struct conserved c = { { .mode = PLAIT_ELASTIC_HOGWILD, .payload = PLAIT_FLOAT32, .nworker = 4, .nserver = 1 },
                           shared_totals() };
    double lost = 0;

    for (uint32_t i = 0; i < 20 && lost == 0; i++) {
        run(5, 1, collide, &c);
        lost = c.totals->server[0].forces - c.totals->server[0].movement;
        assert_int_equal(c.totals->server[0].exchanges, 20);
    }
    printf("hogwild, 4 threads: %g lost of %g%s\n", lost, c.totals->server[0].forces,
           lost != 0 ? "" : ": no two threads met in 20 runs");
}

/* ---- Minima ------------------------------------------------------------------------------------------------ */

/* 1/2 k (w - b)^2 of every weight; the k differ between ranks, the minimum b does not. */
static int descend(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = new_weights(k->library), *g = malloc(COUNT * sizeof *g), *centre = malloc(COUNT * sizeof *centre);
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic *e;
    uint32_t step = 0;
    float error = 1;

    CHECK(w != NULL && g != NULL && centre != NULL);
    o.lr = 0.1;
    o.period = 2;
    for (size_t i = 0; i < COUNT; i++)
        w[i] = (float)(i % 17) - 8 + (float)rank;
    CHECK(plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank < k->nworker) {
        for (; error > 1e-4F; step++) {
            CHECK(step < 3000);
            CHECK(plait_elastic_start(e) == PLAIT_OK);
            for (size_t i = 0; i < COUNT; i++)
                g[i] = (0.5F + 0.25F * (float)rank) * (w[i] - (float)(i % 29) * 0.5F);
            CHECK(plait_elastic_finish(e) == PLAIT_OK && plait_elastic_step(e, g) == PLAIT_OK);
            if (step % 10 != 9)
                continue;
            CHECK(plait_elastic_centre(e, centre) == PLAIT_OK);
            error = 0;
            for (size_t i = 0; i < COUNT; i++)
                error = fmaxf(error, fabsf(centre[i] - (float)(i % 29) * 0.5F));
        }
        if (rank == 0)
            printf("%s: %u steps until the centre is within 1e-4 of the minimum\n", plait_elastic_name(k->mode), step);
    } else {
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
    }
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    free_weights(k->library, w);
    free(g);
    free(centre);
    return 0;
}

static void every_mode_finds_the_minimum_of_a_convex_problem(void **state)
{
    for (int mode = 0; mode < PLAIT_NELASTIC; mode += is_short() ? 2 : 1) {
        const bool sync = mode >= PLAIT_ELASTIC_SYNC1;
        struct kind k = { .mode = (enum plait_elastic_mode)mode,
                          .payload = PLAIT_FLOAT32,
                          .nworker = 3,
                          .nserver = sync ? 0 : 2,
                          .library = true };
        run(k.nworker + k.nserver, 1, descend, &k);
    }
}

/* ---- Costs ------------------------------------------------------------------------------------------------- */

static int count_copies(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    float *w = new_weights(true);
    struct plait_elastic_options o = options_of(k, w);
    struct plait_elastic_counts counts;
    struct plait_elastic *e;

    CHECK(w != NULL && plait_elastic_create(*comm, &o, &e) == PLAIT_OK);
    if (rank >= k->nworker)
        CHECK(plait_elastic_serve(e) == PLAIT_OK);
    for (uint32_t step = 0; rank < k->nworker && step < 3; step++)
        CHECK(plait_elastic_exchange(e) == PLAIT_OK);
    plait_elastic_counts(e, &counts);
    CHECK(RANKS_ON_HOSTS || counts.staged == 0);
    CHECK(rank < k->nworker ? counts.slots == 0 : counts.slots == e->own.count * sizeof(float) * k->nworker);
    /* In turns each exchange is two updates behind, but for the first ones. */
    CHECK(rank < k->nworker || k->mode != PLAIT_ELASTIC_ORIGINAL || counts.behind == 0 + 1 + 2 + 2 * 3 * 2);
    /* A worker of the same host sends only control messages, and receives only those. Others send weights, too. */
    for (uint32_t s = 0; rank < k->nworker && s < k->nserver && !RANKS_ON_HOSTS; s++) {
        const struct plait_pair_end *end = &e->ends[s];
        const size_t control = 3 * sizeof(struct plait_elastic_message), weights = 3 * end->part.count * sizeof(float);
        struct plait_comm_stats stats;
        plait_comm_stats(end->comm, &stats);
        if (getenv("PLAIT_PACE") != NULL)
            CHECK(end->slot != NULL && stats.messages == 6 && stats.bytes_sent == control + weights);
        else
            CHECK(end->slot == NULL && stats.messages == 3 && stats.bytes_sent == control &&
                  stats.bytes_copied <= control);
    }
    CHECK(plait_elastic_destroy(e) == PLAIT_OK);
    plait_mem_free(w);
    return 0;
}

static void weights_in_library_memory_are_not_staged(void **state)
{
    for (int mode = 0; mode < PLAIT_NELASTIC; mode++)
        for (uint32_t i = is_short() ? (uint32_t)mode % 3 : 0; i < 3 && mode != PLAIT_ELASTIC_SYNC1;
             i += is_short() ? 3 : 1) {
            const bool sync = mode >= PLAIT_ELASTIC_SYNC2;
            struct kind k = {
                .mode = (enum plait_elastic_mode)mode, .payload = payloads[i], .nworker = 3, .nserver = sync ? 0 : 2
            };
            run(k.nworker + k.nserver, 1, count_copies, &k);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_the_equations),
        cmocka_unit_test(the_bits_are_the_same_with_many_slices),
        cmocka_unit_test(reproducible_bits_depend_on_no_algorithm),
        cmocka_unit_test(all_ranks_and_runs_have_the_same_bits),
        cmocka_unit_test(what_workers_give_up_the_centre_gains),
        cmocka_unit_test(what_hogwild_loses_is_reported_as_lost),
        cmocka_unit_test(every_mode_finds_the_minimum_of_a_convex_problem),
        cmocka_unit_test(weights_in_library_memory_are_not_staged),
    };

    return cmocka_run_group_tests_name("elastic", tests, NULL, NULL);
}
