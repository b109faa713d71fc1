/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of the optimiser that come near the largest float32, and beyond. */
#include "random.h"
#include "unit.h"

#include <plait/optim.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* It was infinity, and infinity times the other gradients, which are 0, made all weights NaN. */
static void a_trust_that_float32_does_not_hold_spoils_no_weight(void **state)
{
    enum { N = 1000 };
    static float weights[N], gradients[N];
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
    struct plait_optim_part part = { .count = N, .gradient = gradients, .type = PLAIT_FLOAT32, .master = weights };
    struct plait_optim_result result;
    struct plait_optim *optim;

    for (size_t i = 0; i < N; i++)
        weights[i] = 1;
    gradients[5] = 1e-40F;
    part.flags = PLAIT_OPTIM_NO_DECAY;
    o.parts = &part;
    o.npart = o.ntensor = 1;
    o.method = PLAIT_OPTIM_LARS;
    s.lr = 10;
    assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
    assert_true(result.finite);
    for (size_t i = 0; i < N; i++)
        assert_true(i == 5 ? isfinite(weights[i]) && weights[i] < 1 : weights[i] == 1);
    s.lr = 1e39;
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_ERR_ARG);
    plait_optim_destroy(optim);
}

/* One weight each, of 1: finite gradients that a factor or a rate makes infinite. */
static void a_step_that_float32_does_not_hold_is_skipped(void **state)
{
    static const struct {
        enum plait_optim_method method;
        int lr_in_momentum;
        float weight, gradient;
        double factor, lr;
        int finite;
    } cases[] = {
        { PLAIT_OPTIM_SGD, 1, 1, 1e38F, 1e10, 1, 0 },     { PLAIT_OPTIM_SGD, 1, 1, 1e38F, 1, 1e10, 0 },
        { PLAIT_OPTIM_SGD, 0, 1, 1e38F, 1e10, 1e-20, 0 }, { PLAIT_OPTIM_SGD, 0, 1, 1e38F, 1, 1e10, 0 },
        { PLAIT_OPTIM_SGD, 1, 1, 1e38F, 1e10, 1e-20, 1 }, { PLAIT_OPTIM_SGD, 0, 1, 1e38F, 1e-10, 1e10, 1 },
        { PLAIT_OPTIM_SGD, 1, 1, 1e-38F, 1e38, 1, 1 },    { PLAIT_OPTIM_SGD, 1, 1, 1, 1e300, 1, 0 },
        { PLAIT_OPTIM_SGD, 1, 1, FLT_MAX, 1, 1, 0 },      { PLAIT_OPTIM_SGD, 1, 1, 1e38F, 1, 1, 1 },
        { PLAIT_OPTIM_LARS, 1, 1e38F, 1, 1, 1e10, 0 },    { PLAIT_OPTIM_LARS, 0, 1e38F, 1, 1, 1e10, 0 },
        { PLAIT_OPTIM_LARS, 1, 1e30F, 1e30F, 1, 1e5, 1 }, { PLAIT_OPTIM_LARS, 1, 0, 1e38F, 1e10, 1, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            float weight = cases[i].weight, slope = cases[i].gradient;
            struct plait_optim_part part = { .count = 1, .gradient = &slope, .type = PLAIT_FLOAT32, .master = &weight };
            struct plait_optim_result result;
            struct plait_optim *optim;
            o.parts = &part;
            o.npart = o.ntensor = 1;
            o.method = cases[i].method;
            o.lr_in_momentum = cases[i].lr_in_momentum;
            o.nesterov = nesterov;
            o.decay = 0;
            s.factor = cases[i].factor;
            s.lr = cases[i].lr;
            assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
            assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
            if (result.finite != cases[i].finite || !isfinite(weight) || !isfinite(*plait_optim_momentum(optim, 0)))
                fail_msg("case %zu: finite is %d, the weight %g", i, result.finite, (double)weight);
            assert_true(result.finite || (weight == cases[i].weight && *plait_optim_momentum(optim, 0) == 0));
            plait_optim_destroy(optim);
        }
}

/* Where |g| is next to nothing and norm_decay does not hold it, trust times decay is more than any weight can take. */
static void a_decay_that_trust_makes_infinite_skips_the_step(void **state)
{
    for (unsigned flags = 0; flags <= PLAIT_OPTIM_NO_DECAY; flags += PLAIT_OPTIM_NO_DECAY)
        for (int in_norm = 0; in_norm < 2; in_norm++) {
            struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            float weight = 1, slope = 1e-44F;
            struct plait_optim_part part = {
                .count = 1, .gradient = &slope, .type = PLAIT_FLOAT32, .master = &weight, .flags = flags
            };
            struct plait_optim_result result;
            struct plait_optim *optim;
            o.parts = &part;
            o.npart = o.ntensor = 1;
            o.decay = 0.5;
            o.norm_decay = in_norm ? -1 : 0;
            s.lr = 100;
            assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
            assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
            assert_int_equal(result.finite, flags != 0 || in_norm);
            assert_true(isfinite(weight) && (weight == 1) == !result.finite);
            plait_optim_destroy(optim);
        }
}

/* What decay, a weight and the momentum that is there add to the gradient: each makes a weight infinite. */
static void a_step_that_decay_or_what_is_there_makes_too_large_is_skipped(void **state)
{
    static const struct {
        enum plait_optim_method method;
        unsigned flags;
        float weight, gradient;
        double decay, step_decay, lr;
        unsigned good; /* steps before the one that is skipped */
    } cases[] = {
        { PLAIT_OPTIM_SGD, 0, 1e20F, 1, 1e20, 1, 1, 0 },
        { PLAIT_OPTIM_SGD, 0, 1e20F, 1, 1, 1e20, 1, 0 },
        { PLAIT_OPTIM_LARS, PLAIT_OPTIM_NO_TRUST, 1e20F, 1, 1e20, 1, 1, 0 },
        { PLAIT_OPTIM_SGD, 0, 1, 1, 1e-4, 1, 1e30, 1 },
        { PLAIT_OPTIM_SGD, 0, -3e38F, 1.5e38F, 0, 1, 1, 0 },
        { PLAIT_OPTIM_SGD, 0, 0, 1e38F, 0, 1, 1, 2 },
        { PLAIT_OPTIM_SGD, 0, -3.4e38F, 1e30F, 0, 1, 1, 100 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            float weight = cases[i].weight, slope = cases[i].gradient;
            struct plait_optim_part part = {
                .count = 1, .gradient = &slope, .type = PLAIT_FLOAT32, .master = &weight, .flags = cases[i].flags
            };
            struct plait_optim_result result = { 1, 0 };
            struct plait_optim *optim;
            o.parts = &part;
            o.npart = o.ntensor = 1;
            o.method = cases[i].method;
            o.nesterov = nesterov;
            o.decay = cases[i].decay;
            s.decay = cases[i].step_decay;
            s.lr = cases[i].lr;
            assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
            for (unsigned step = 0; step < 100 && result.finite; step++) {
                const float before = weight;
                assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
                if (!isfinite(weight) || result.finite != (weight != before || cases[i].good == 100))
                    fail_msg("case %zu, step %u: finite is %d, the weight %g", i, step, result.finite, (double)weight);
                assert_false(!nesterov && result.finite != (step < cases[i].good));
            }
            plait_optim_destroy(optim);
        }
}

/* A number of any exponent that float32 has, more often at its ends. */
static float extreme(uint64_t *seed)
{
    const uint64_t r = random_next(seed);
    const uint32_t far = r >> 48 & 3, exponent = far == 0   ? 254 - (r >> 40 & 3)
                                                 : far == 1 ? 127 - 8 + (r >> 40 & 15)
                                                            : (r >> 40 & 255) % 255;
    const uint32_t bits = (uint32_t)(r & 0x807fffff) | exponent << 23;
    float v;

    memcpy(&v, &bits, sizeof v);
    return (r >> 52 & 7) == 0 ? 0 : v;
}

static double size(uint64_t *seed, double most)
{
    const double x = fabs((double)extreme(seed));

    return x < most ? x : most;
}

static void whatever_is_asked_for_a_finite_step_leaves_finite_weights(void **state)
{
    enum { N = 3, TRIALS = 40000, STEPS = 6 };
    uint64_t seed = 5, nfinite = 0, nskipped = 0;

    for (unsigned trial = 0; trial < TRIALS; trial++) {
        struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
        struct plait_optim_result result;
        struct plait_optim *optim;
        struct plait_optim_part parts[N];
        float weights[N][2], slopes[N][2];
        const uint64_t bits = random_next(&seed);
        const bool calm = (bits >> 8 & 1) != 0; /* numbers as of a real model, but for the weights */
        for (unsigned k = 0; k < N; k++) {
            parts[k] = (struct plait_optim_part){ .tensor = k,
                                                  .count = 2,
                                                  .gradient = slopes[k],
                                                  .type = PLAIT_FLOAT32,
                                                  .master = weights[k],
                                                  .flags = (unsigned)(bits >> (2 * k + 16)) & 3 };
            weights[k][0] = extreme(&seed);
            weights[k][1] = extreme(&seed);
        }
        o.parts = parts;
        o.npart = o.ntensor = N;
        o.method = bits & 1 ? PLAIT_OPTIM_LARS : PLAIT_OPTIM_SGD;
        o.nesterov = bits >> 1 & 1;
        o.lr_in_momentum = bits >> 2 & 1;
        o.momentum = bits >> 3 & 1 ? 0.999999999 : (double)(bits >> 32 & 1023) / 1024;
        o.decay = calm ? 1e-3 : bits >> 4 & 1 ? size(&seed, FLT_MAX) : 0;
        o.norm_decay = bits >> 5 & 1 ? -1 : size(&seed, FLT_MAX);
        o.eps = bits >> 6 & 1 ? 0 : size(&seed, FLT_MAX);
        o.eta = 1e-3;
        assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
        for (unsigned i = 0; i < STEPS; i++) {
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            for (unsigned k = 0; k < 2 * N; k++)
                slopes[k / 2][k % 2] = extreme(&seed);
            s.lr = calm ? 0.1 : size(&seed, FLT_MAX);
            s.factor = size(&seed, bits >> 7 & 1 ? 1e-30 : FLT_MAX) + 1e-44;
            s.decay = calm ? 1 : size(&seed, FLT_MAX);
            assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
            result.finite ? nfinite++ : nskipped++;
            for (uint32_t k = 0; k < N; k++)
                for (unsigned e = 0; e < 2; e++)
                    if (!isfinite(weights[k][e]) || !isfinite(plait_optim_momentum(optim, k)[e]))
                        fail_msg("trial %u, step %u: finite is %d, tensor %u has weight %g and momentum %g", trial, i,
                                 result.finite, k, (double)weights[k][e], (double)plait_optim_momentum(optim, k)[e]);
        }
        plait_optim_destroy(optim);
    }
    assert_true(nfinite > TRIALS / 10 && nskipped > TRIALS / 10);
}

/* Momentum that is restored counts from the next step on. */
static void momentum_that_the_caller_writes_is_seen(void **state)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
    float weight = 1, slope = 1;
    struct plait_optim_part part = { .count = 1, .gradient = &slope, .type = PLAIT_FLOAT32, .master = &weight };
    struct plait_optim_result result;
    struct plait_optim *optim;

    o.parts = &part;
    o.npart = o.ntensor = 1;
    o.method = PLAIT_OPTIM_SGD;
    s.lr = 1;
    assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
    assert_true(result.finite);
    *plait_optim_momentum(optim, 0) = FLT_MAX;
    weight = -3e38F;
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
    assert_false(result.finite);
    assert_true(weight == -3e38F && *plait_optim_momentum(optim, 0) == FLT_MAX);
    *plait_optim_momentum(optim, 0) = 1;
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
    assert_true(result.finite);
    plait_optim_destroy(optim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trust_that_float32_does_not_hold_spoils_no_weight),
        cmocka_unit_test(a_step_that_float32_does_not_hold_is_skipped),
        cmocka_unit_test(a_decay_that_trust_makes_infinite_skips_the_step),
        cmocka_unit_test(a_step_that_decay_or_what_is_there_makes_too_large_is_skipped),
        cmocka_unit_test(whatever_is_asked_for_a_finite_step_leaves_finite_weights),
        cmocka_unit_test(momentum_that_the_caller_writes_is_seen),
    };
    return cmocka_run_group_tests_name("optim_finite", tests, NULL, NULL);
}
