/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of training against closed formulas, and the choice of the fastest algorithm. */
#include <plait/forecast.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS      1000000000ull /* picoseconds */
#define NTENSOR 4
#define NRANK   4

static const struct plait_tensor tensors[NTENSOR] = { { "d", 250000, PLAIT_FLOAT32 },
                                                      { "c", 16, PLAIT_FLOAT32 },
                                                      { "b", 500000, PLAIT_FLOAT32 },
                                                      { "a", 1000000, PLAIT_FLOAT32 } };
static const uint64_t ready[NTENSOR] = { 10 * MS, 11 * MS, 14 * MS, 20 * MS };

static struct plait_machine star(uint64_t bandwidth, uint64_t latency)
{
    struct plait_machine m = { .name = "star", .nlevel = 1, .cache = (size_t)1 << 40 };

    m.level[0] = (struct plait_level){
        .name = "cluster", .children = NRANK, .links = 1, .bandwidth = bandwidth, .latency = latency
    };
    return m;
}

static struct plait_forecast *forecast_of(const struct plait_machine *m, uint32_t nrank, const char *algorithm)
{
    const char *const names[] = { algorithm, NULL };
    const struct plait_forecast_options o = { .machine = m,
                                              .shape = { .coll = PLAIT_ALLREDUCE, .nrank = nrank, .inplace = true },
                                              .algorithms = algorithm != NULL ? names : NULL };
    struct plait_forecast *f;

    if (plait_forecast_create(&o, &f) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
    return f;
}

static struct plait_training training(size_t threshold)
{
    return (struct plait_training){ .tensors = tensors,
                                    .ready = ready,
                                    .ntensor = NTENSOR,
                                    .compute = 20 * MS,
                                    .layout = { .rule = PLAIT_LAYOUT_THRESHOLD, .threshold = threshold },
                                    .payload = PLAIT_NDTYPE };
}

static struct plait_step_time step_of(const struct plait_machine *m, uint32_t nrank, size_t threshold,
                                      struct plait_training_bucket *buckets)
{
    const struct plait_training t = training(threshold);
    struct plait_forecast *f = forecast_of(m, nrank, NULL);
    struct plait_step_time s;

    if (plait_forecast_step(f, &t, buckets, &s) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
    plait_forecast_destroy(f);
    return s;
}

static void one_rank_only_computes(void **state)
{
    const struct plait_machine m = star(1000000000, 5000);
    const struct plait_step_time s = step_of(&m, 1, 0, NULL);

    (void)state;
    assert_int_equal(s.time, 20 * MS);
    assert_int_equal(s.compute, 20 * MS);
    assert_int_equal(s.exposed, 0);
    assert_int_equal(s.communication, 0);
}

/* The fastest link that a machine may have moves these bytes in 2 us. */
static void a_very_fast_network_exposes_nothing(void **state)
{
    const struct plait_machine m = star((uint64_t)1 << 44, 0);
    const struct plait_step_time s = step_of(&m, NRANK, 0, NULL);

    (void)state;
    assert_true(s.communication > 0 && s.exposed < MS / 1000);
}

/* 7 MB over a ring of 4: 3/2 of the bytes. */
static void one_bucket_is_exposed_for_its_whole_time(void **state)
{
    const struct plait_machine m = star(1000000000, 5000);
    struct plait_training_bucket b[NTENSOR];
    const struct plait_step_time s = step_of(&m, NRANK, SIZE_MAX, b);

    (void)state;
    assert_int_equal(s.nbucket, 1);
    assert_int_equal(s.exposed, s.communication);
    assert_int_equal(s.time, 20 * MS + s.communication);
    assert_true(s.communication > 3 * s.bytes / 2 * 1000 && s.communication < 3 * s.bytes / 2 * 1000 + MS);
    assert_true(b[0].ready == 20 * MS && b[0].begin == 20 * MS && b[0].end == s.time && b[0].ntensor == NTENSOR);
}

static void buckets_wait_for_gradients_and_for_each_other(void **state)
{
    const struct plait_machine m = star(1000000000, 5000);
    struct plait_training_bucket b[NTENSOR];
    const struct plait_step_time s = step_of(&m, NRANK, 0, b);
    uint64_t sum = 0;

    (void)state;
    assert_int_equal(s.nbucket, NTENSOR);
    for (uint32_t k = 0; k < NTENSOR; k++) {
        const uint64_t before = k > 0 ? b[k - 1].end : 0;
        assert_int_equal(b[k].ready, ready[k]);
        assert_int_equal(b[k].begin, before > ready[k] ? before : ready[k]);
        sum += b[k].end - b[k].begin;
    }
    assert_true(b[1].begin > b[1].ready); /* behind the first */
    assert_int_equal(s.communication, sum);
    assert_int_equal(s.time, b[NTENSOR - 1].end);
}

static uint64_t time_with(struct plait_forecast *f, const uint32_t *cuts, uint32_t ncut)
{
    struct plait_training t = training(0);
    struct plait_step_time s;

    t.layout = (struct plait_layout){ .rule = PLAIT_LAYOUT_CUTS, .cuts = cuts, .ncut = ncut };
    assert_int_equal(plait_forecast_step(f, &t, NULL, &s), PLAIT_OK);
    assert_int_equal(s.nbucket, ncut + 1);
    return s.time;
}

/* Of all cuts; times between the simulated sizes are only near those of the simulation. */
static void found_cuts_are_as_good_as_the_best(void **state)
{
    const struct plait_machine m = star(1000000000, 5000000);
    struct plait_forecast *f = forecast_of(&m, NRANK, NULL);
    const struct plait_training t = training(0);
    uint32_t cuts[NTENSOR], ncut;
    uint64_t best = UINT64_MAX;

    (void)state;
    assert_int_equal(plait_forecast_cuts(f, &t, cuts, &ncut), PLAIT_OK);
    assert_true(ncut > 0 && ncut < NTENSOR - 1);
    const uint64_t found = time_with(f, cuts, ncut);
    for (uint32_t mask = 0; mask < 1u << (NTENSOR - 1); mask++) {
        ncut = 0;
        for (uint32_t i = 1; i < NTENSOR; i++)
            if (mask >> (i - 1) & 1)
                cuts[ncut++] = i;
        const uint64_t time = time_with(f, cuts, ncut);
        best = time < best ? time : best;
    }
    assert_true(found >= best && found < best + best / 200);
    plait_forecast_destroy(f);
}

static void cuts_of_too_many_tensors_and_of_nothing_are_refused(void **state)
{
    enum { MANY = 4097 };
    static struct plait_tensor many[MANY];
    static uint64_t at[MANY];
    static uint32_t cuts[MANY], ncut = 7;
    const struct plait_machine m = star(1000000000, 5000000);
    struct plait_forecast *f = forecast_of(&m, NRANK, NULL);
    struct plait_training t = training(0);

    (void)state;
    assert_int_equal(plait_forecast_cuts(f, &t, NULL, &ncut), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "plait_forecast_cuts: cuts is NULL"));
    assert_int_equal(plait_forecast_cuts(f, NULL, cuts, &ncut), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "plait_forecast_cuts: training is NULL"));
    for (int i = 0; i < MANY; i++)
        many[i] = (struct plait_tensor){ "x", 16, PLAIT_FLOAT32 };
    t.tensors = many;
    t.ready = at;
    t.ntensor = MANY;
    assert_int_equal(plait_forecast_cuts(f, &t, cuts, &ncut), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "ntensor is 4097; cuts are found for at most 4096 tensors"));
    assert_int_equal(ncut, 7);
    plait_forecast_destroy(f);
}

static void twice_the_rates_halve_the_step(void **state)
{
    struct plait_training t = training(0);
    uint64_t half[NTENSOR];
    const struct plait_machine slow = star(1000000000, 0), fast = star(2000000000, 0);
    const struct plait_step_time once = step_of(&slow, NRANK, 0, NULL);
    struct plait_forecast *f = forecast_of(&fast, NRANK, NULL);
    struct plait_step_time twice;

    (void)state;
    for (uint32_t i = 0; i < NTENSOR; i++)
        half[i] = ready[i] / 2;
    t.ready = half;
    t.compute /= 2;
    assert_int_equal(plait_forecast_step(f, &t, NULL, &twice), PLAIT_OK);
    assert_true(2 * twice.time <= once.time + 1000 && 2 * twice.time + 1000 >= once.time);
    plait_forecast_destroy(f);
}

static void a_slow_rank_computes_slowly(void **state)
{
    struct plait_machine m = star(1000000000, 5000);
    const struct plait_step_time usual = step_of(&m, NRANK, 0, NULL);
    struct plait_training_bucket b[NTENSOR];

    (void)state;
    m.nslow = 1;
    m.slow[0] = (struct plait_slow){ .rank = true, .child = 2, .percent = 50 };
    const struct plait_step_time s = step_of(&m, NRANK, 0, b);
    assert_int_equal(s.compute, 40 * MS);
    assert_true(s.time > usual.time);
    assert_int_equal(step_of(&m, 2, 0, NULL).compute, 20 * MS); /* it is not among these ranks */
    for (uint32_t k = 0; k < NTENSOR; k++) {
        assert_int_equal(b[k].ready, 2 * ready[k]);
        assert_true(b[k].begin >= b[k].ready);
    }
}

static void the_fastest_is_the_fastest(void **state)
{
    const struct plait_machine m = star(1000000000, 5000);
    struct plait_forecast *f = forecast_of(&m, NRANK, NULL);
    struct plait_prediction best, p;
    const char *name = NULL;

    (void)state;
    assert_int_equal(plait_forecast_fastest(f, PLAIT_FLOAT32, 1000, &name, &best), PLAIT_OK);
    bool seen = false;
    for (uint32_t k = 0; plait_forecast_algorithm(f, k) != NULL; k++) {
        assert_int_equal(plait_forecast_time(f, k, PLAIT_FLOAT32, 1000, &p), PLAIT_OK);
        assert_true(p.time >= best.time);
        seen |= p.time == best.time && strcmp(name, plait_forecast_algorithm(f, k)) == 0;
    }
    assert_true(seen);
    plait_forecast_destroy(f);
}

static void hierarchies_are_candidates_where_the_machine_has_levels(void **state)
{
    struct plait_machine m = star(1000000000, 5000);

    (void)state;
    m.level[0].children = 2;
    m.level[0].links = 0;
    m.level[1] = (struct plait_level){ .name = "host", .children = 2, .bandwidth = 1000000000, .latency = 500 };
    for (m.nlevel = 1; m.nlevel <= 2; m.nlevel++) {
        struct plait_forecast *f = forecast_of(&m, 2 * m.nlevel, NULL);
        bool there = false;
        const char *name;
        for (uint32_t k = 0; (name = plait_forecast_algorithm(f, k)) != NULL; k++)
            there |= strcmp(name, "hierarchy") == 0;
        assert_int_equal(there, m.nlevel == 2);
        plait_forecast_destroy(f);
    }
}

static void what_is_too_large_to_simulate_is_no_candidate(void **state)
{
    struct plait_machine m = star(1000000000, 5000);
    const char *const names[] = { "one-shot", "binomial", "one-shot", NULL };
    struct plait_forecast_options o = { .machine = &m,
                                        .shape = { .coll = PLAIT_ALLREDUCE, .nrank = 4096 },
                                        .algorithms = names };
    struct plait_forecast *f;
    struct plait_prediction p;
    const char *name = NULL;

    (void)state;
    m.level[0].children = 4096;
    assert_int_equal(plait_forecast_create(&o, &f), PLAIT_OK);
    assert_int_equal(plait_forecast_fastest(f, PLAIT_FLOAT32, 1, &name, &p), PLAIT_OK);
    assert_string_equal(name, "binomial");
    plait_forecast_destroy(f);
    o.algorithms = names + 2;
    assert_int_equal(plait_forecast_create(&o, &f), PLAIT_OK);
    assert_int_equal(plait_forecast_fastest(f, PLAIT_FLOAT32, 1, &name, &p), PLAIT_ERR_UNSUPPORTED);
    plait_forecast_destroy(f);
}

static void ready_times_are_flops_by_rate(void **state)
{
    static const uint64_t forward[3] = { 10, 20, 30 }, backward[3] = { 10, 40, 60 };
    uint64_t at[3];

    (void)state;
    assert_int_equal(plait_training_ready(forward, backward, 3, 1000, at), PLAIT_OK);
    assert_true(at[2] == 120 * MS && at[1] == 160 * MS && at[0] == 170 * MS);
    assert_int_equal(plait_training_ready(forward, backward, 3, 0, at), PLAIT_ERR_ARG);
    const uint64_t most[1] = { UINT64_MAX };
    assert_int_equal(plait_training_ready(most, most, 1, 1, at), PLAIT_ERR_ARG);
}

static void mistakes_are_named(void **state)
{
    const struct plait_machine m = star(1000000000, 5000);
    const char *const rong[] = { "rong", NULL };
    struct plait_forecast_options o = { .machine = &m, .shape = { .coll = PLAIT_ALLREDUCE, .nrank = NRANK } };
    struct plait_forecast *f = forecast_of(&m, NRANK, "ring");
    struct plait_training t = training(0);
    struct plait_prediction p;
    struct plait_step_time s;

    (void)state;
    t.compute = 19 * MS;
    assert_int_equal(plait_forecast_step(f, &t, NULL, &s), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "tensor 3 is ready at 20000000000 ps"));
    t.ntensor = 0;
    assert_int_equal(plait_forecast_step(f, &t, NULL, &s), PLAIT_ERR_ARG);
    assert_int_equal(plait_forecast_time(f, 1, PLAIT_FLOAT32, 1, &p), PLAIT_ERR_ARG);
    plait_forecast_destroy(f);
    o.algorithms = rong;
    assert_int_equal(plait_forecast_create(&o, &f), PLAIT_ERR_CONFIG);
    o.algorithms = NULL;
    o.machine = NULL;
    assert_int_equal(plait_forecast_create(&o, &f), PLAIT_ERR_ARG);
    plait_forecast_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_only_computes),
        cmocka_unit_test(a_very_fast_network_exposes_nothing),
        cmocka_unit_test(one_bucket_is_exposed_for_its_whole_time),
        cmocka_unit_test(buckets_wait_for_gradients_and_for_each_other),
        cmocka_unit_test(found_cuts_are_as_good_as_the_best),
        cmocka_unit_test(cuts_of_too_many_tensors_and_of_nothing_are_refused),
        cmocka_unit_test(twice_the_rates_halve_the_step),
        cmocka_unit_test(a_slow_rank_computes_slowly),
        cmocka_unit_test(the_fastest_is_the_fastest),
        cmocka_unit_test(hierarchies_are_candidates_where_the_machine_has_levels),
        cmocka_unit_test(what_is_too_large_to_simulate_is_no_candidate),
        cmocka_unit_test(ready_times_are_flops_by_rate),
        cmocka_unit_test(mistakes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
