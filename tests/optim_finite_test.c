/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of the optimiser whose gradients come near the largest float32, and beyond. */
#include "unit.h"

#include <plait/optim.h>

#include <float.h>
#include <math.h>

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

/* Finite gradients that a factor makes infinite, or not. */
static void a_step_of_gradients_that_float32_does_not_hold_is_skipped(void **state)
{
    static const struct {
        enum plait_optim_method method;
        float gradient;
        double factor;
        int finite;
    } cases[] = {
        { PLAIT_OPTIM_SGD, 1e38F, 1e10, 0 },  { PLAIT_OPTIM_SGD, 1e38F, 1e-10, 1 },
        { PLAIT_OPTIM_SGD, 1e-38F, 1e38, 1 }, { PLAIT_OPTIM_SGD, 1, 1e300, 0 },
        { PLAIT_OPTIM_SGD, 1e38F, 1, 1 },     { PLAIT_OPTIM_SGD, INFINITY, 1, 0 },
        { PLAIT_OPTIM_LARS, 1e38F, 1e10, 0 }, { PLAIT_OPTIM_LARS, 1e30F, 1e-10, 1 },
        { PLAIT_OPTIM_LARS, NAN, 1, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            float weight = 1, slope = cases[i].gradient;
            struct plait_optim_part part = { .count = 1, .gradient = &slope, .type = PLAIT_FLOAT32, .master = &weight };
            struct plait_optim_result result;
            struct plait_optim *optim;
            o.parts = &part;
            o.npart = o.ntensor = 1;
            o.method = cases[i].method;
            o.nesterov = nesterov;
            o.decay = 0;
            s.factor = cases[i].factor;
            s.lr = 0.5;
            assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
            assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
            if (result.finite != cases[i].finite || !isfinite(weight) || !isfinite(*plait_optim_momentum(optim, 0)))
                fail_msg("case %zu: finite is %d, the weight %g", i, result.finite, (double)weight);
            assert_true(result.finite || (weight == 1 && *plait_optim_momentum(optim, 0) == 0));
            plait_optim_destroy(optim);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trust_that_float32_does_not_hold_spoils_no_weight),
        cmocka_unit_test(a_step_of_gradients_that_float32_does_not_hold_is_skipped),
    };
    return cmocka_run_group_tests_name("optim_finite", tests, NULL, NULL);
}
