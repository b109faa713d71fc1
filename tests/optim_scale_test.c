/* SPDX-License-Identifier: BSD-3-Clause */
/* An optimiser with a loss scale makes the steps, and the scales, of a caller that updates the scale by itself. */
#include "random.h"
#include "unit.h"

#include <plait/optim.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 300, STEPS = 80 };

struct side {
    float weights[N], gradients[N];
    struct plait_loss_scale scale;
    struct plait_optim *optim;
};

static void side_make(struct side *s, enum plait_optim_method method, struct plait_loss_scale scale, bool scales)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_part part = {
        .count = N, .gradient = s->gradients, .type = PLAIT_FLOAT32, .master = s->weights
    };

    memset(s, 0, sizeof *s);
    s->scale = scale;
    for (size_t i = 0; i < N; i++)
        s->weights[i] = (float)(i % 7) - 3;
    o.parts = &part;
    o.npart = o.ntensor = 1;
    o.method = method;
    o.scale = scales ? &s->scale : NULL;
    assert_int_equal(plait_optim_create(&o, &s->optim), PLAIT_OK);
}

/* As a pass leaves them: times the scale. */
static void draw_gradients(struct side *s, uint64_t *random, bool bad)
{
    for (size_t i = 0; i < N; i++)
        s->gradients[i] = (float)(((double)(random_next(random) % 2001) / 1000 - 1) * s->scale.scale);
    if (bad)
        s->gradients[random_next(random) % N] = random_next(random) % 2 == 0 ? INFINITY : NAN;
}

static const struct plait_loss_scale scales[] = {
    PLAIT_LOSS_SCALE_DYNAMIC,
    PLAIT_LOSS_SCALE_STATIC(128),
    PLAIT_LOSS_SCALE_STATIC(1000.7),
    { 1024, 3, 0.3, 256, 16384, 3, 0, 0 }, /* meets both limits */
    { 1024, 2, 0.5, 1, 1048576, 1, 0, 0 },
    { 64, 1, 0.5, 1e-3, 64, 5, 2, 7 },
};

static void scales_and_weights_are_those_of_explicit_updates(void **unused)
{
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (unsigned trial = 0; trial < 6; trial++) {
            const enum plait_optim_method method = trial % 2 ? PLAIT_OPTIM_SGD : PLAIT_OPTIM_LARS;
            uint64_t random = 1 + trial, same = 100 + trial, often = 1 + trial / 2 * 6;
            static struct side own, given;
            unsigned skipped = 0;
            side_make(&own, method, scales[k], false);
            side_make(&given, method, scales[k], true);
            for (unsigned i = 0; i < STEPS; i++) {
                const bool bad = random_next(&random) % often == 1;
                uint64_t before = same;
                struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
                struct plait_optim_result mine, theirs;
                draw_gradients(&own, &same, bad);
                draw_gradients(&given, &before, bad);
                s.lr = 0.05;
                s.factor = 0.25;
                assert_int_equal(plait_optim_step(given.optim, &s, i % 3 != 0 ? &theirs : NULL), PLAIT_OK);
                s.factor = 0.25 / own.scale.scale;
                assert_int_equal(plait_optim_step(own.optim, &s, &mine), PLAIT_OK);
                assert_int_equal(plait_loss_scale_update(&own.scale, mine.finite), PLAIT_OK);
                skipped += bad;
                assert_int_equal(mine.finite, !bad);
                assert_true(i % 3 == 0 || (theirs.finite == mine.finite && (bad || theirs.norm == mine.norm)));
                assert_memory_equal(&given.scale, &own.scale, sizeof own.scale);
                assert_memory_equal(given.weights, own.weights, sizeof own.weights);
            }
            assert_int_equal(own.scale.skipped, scales[k].skipped + skipped);
            plait_optim_destroy(own.optim);
            plait_optim_destroy(given.optim);
        }
}

/* The caller's writes between steps count, wrong ones too. */
static void a_wrong_scale_is_named_and_nothing_is_changed(void **unused)
{
    static struct side x, before;
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
    struct plait_optim_part part = { .count = N, .gradient = x.gradients, .type = PLAIT_FLOAT32, .master = x.weights };
    struct plait_loss_scale wrong = PLAIT_LOSS_SCALE_DYNAMIC;
    struct plait_optim *none = NULL;
    uint64_t random = 5;

    o.parts = &part;
    o.npart = o.ntensor = 1;
    o.scale = &wrong;
    wrong.least = 0;
    assert_int_equal(plait_optim_create(&o, &none), PLAIT_ERR_ARG);
    assert_string_equal(plait_last_error(), "plait_optim_create: scale: least is 0; it must be above 0");
    side_make(&x, PLAIT_OPTIM_LARS, (struct plait_loss_scale)PLAIT_LOSS_SCALE_DYNAMIC, true);
    draw_gradients(&x, &random, false);
    x.scale.scale = 1e9;
    before = x;
    assert_int_equal(plait_optim_step(x.optim, &s, NULL), PLAIT_ERR_ARG);
    assert_string_equal(plait_last_error(),
                        "plait_optim_step: options.scale: scale is 1e+09; it must be from least to most");
    assert_memory_equal(&x, &before, sizeof x);
    x.scale.scale = 4;
    assert_int_equal(plait_optim_step(x.optim, &s, NULL), PLAIT_OK);
    assert_int_equal(x.scale.good, 1);
    plait_optim_destroy(x.optim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_and_weights_are_those_of_explicit_updates),
        cmocka_unit_test(a_wrong_scale_is_named_and_nothing_is_changed),
    };

    return cmocka_run_group_tests_name("optim_scale", tests, NULL, NULL);
}
