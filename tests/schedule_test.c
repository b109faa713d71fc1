/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss scales grow and back off; schedules have their values; what is wrong is named. */
#include "unit.h"

#include <plait/optim.h>

#include <math.h>
#include <string.h>

/* ---- Loss scales ------------------------------------------------------------------------------------------ */

static void a_dynamic_loss_scale_grows_and_backs_off_within_its_limits(void **unused)
{
    struct plait_loss_scale s = PLAIT_LOSS_SCALE_DYNAMIC, fixed = PLAIT_LOSS_SCALE_STATIC(128);

    for (int i = 0; i < 1999; i++)
        assert_int_equal(plait_loss_scale_update(&s, 1), PLAIT_OK);
    assert_true(s.scale == 65536);
    assert_int_equal(plait_loss_scale_update(&s, 1), PLAIT_OK);
    assert_true(s.scale == 131072 && s.good == 0);
    for (int i = 0; i < 1999; i++)
        plait_loss_scale_update(&s, 1);
    assert_int_equal(plait_loss_scale_update(&s, 0), PLAIT_OK); /* begins to count anew */
    assert_true(s.scale == 65536 && s.good == 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(plait_loss_scale_update(&s, 0), PLAIT_OK);
    assert_true(s.scale == 1);
    for (int i = 0; i < 2000 * 40; i++)
        assert_int_equal(plait_loss_scale_update(&s, 1), PLAIT_OK);
    assert_true(s.scale == 16777216 && s.skipped == 41);
    for (int i = 0; i < 10; i++)
        assert_int_equal(plait_loss_scale_update(&fixed, i % 2), PLAIT_OK);
    assert_true(fixed.scale == 128 && fixed.skipped == 5);
}

static void a_wrong_loss_scale_is_named(void **unused)
{
    struct plait_loss_scale s = PLAIT_LOSS_SCALE_DYNAMIC, kept;

    assert_int_equal(plait_loss_scale_update(NULL, 1), PLAIT_ERR_ARG);
    s.backoff = 1.5;
    kept = s;
    assert_int_equal(plait_loss_scale_update(&s, 0), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "backoff is 1.5"));
    assert_memory_equal(&s, &kept, sizeof s);
    s.backoff = 0.5;
    s.growth = NAN;
    assert_int_equal(plait_loss_scale_update(&s, 0), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "growth is"));
}

/* ---- Schedules -------------------------------------------------------------------------------------------- */

static void assert_value(const struct plait_schedule *s, double step, double want)
{
    const double got = plait_schedule_at(s, step);

    if (!(fabs(got - want) <= 1e-14 * fabs(want)))
        fail_msg("at step %g: %.17g instead of %.17g (%s)", step, got, want, plait_last_error());
}

static void schedules_have_their_values_at_the_corners(void **unused)
{
    static const double at[] = { 30, 60, 80 };
    struct plait_schedule s = PLAIT_SCHEDULE_DEFAULT;

    assert_value(&s, 0, 0.1);
    assert_value(&s, 1e9, 0.1);
    s = (struct plait_schedule){ sizeof s, 13, 540, 0, PLAIT_DECAY_POLYNOMIAL, 780, 2.2, 0.0025, NULL, 0, 0.1 };
    assert_value(&s, 0, 0);
    assert_value(&s, 270, 6.5);
    assert_value(&s, 540, 13);
    assert_value(&s, 540 + 390, 13 * ((1 - 0.0025) * pow(0.5, 2.2) + 0.0025));
    assert_value(&s, 540 + 780, 0.0325);
    assert_value(&s, 5000, 0.0325);
    s.start = 0.1;
    assert_value(&s, 0, 1.3);
    s.rule = PLAIT_DECAY_COSINE;
    assert_value(&s, 540, 13);
    assert_value(&s, 540 + 390, 13 * ((1 - 0.0025) / 2 + 0.0025));
    assert_value(&s, 540 + 780, 0.0325);
    assert_value(&s, INFINITY, 0.0325);
    s = (struct plait_schedule){ sizeof s, 8, 5, 0.5, PLAIT_DECAY_STEPS, 1, 2, 0, at, 3, 0.5 };
    assert_value(&s, 0, 4);
    assert_value(&s, 5, 8);
    assert_value(&s, 29.5, 8);
    assert_value(&s, 30, 4);
    assert_value(&s, 60, 2);
    assert_value(&s, 1000, 1);
}

static void a_wrong_schedule_is_named(void **unused)
{
    static const double back[] = { 5, 5 };
    struct plait_schedule s = PLAIT_SCHEDULE_DEFAULT;

    assert_true(isnan(plait_schedule_at(NULL, 0)));
    assert_true(isnan(plait_schedule_at(&s, -1)));
    assert_non_null(strstr(plait_last_error(), "step is -1"));
    s.steps = 0;
    assert_true(isnan(plait_schedule_at(&s, 0)));
    assert_non_null(strstr(plait_last_error(), "steps is 0"));
    s.steps = 1;
    s.milestones = back;
    s.nmilestone = 2;
    assert_true(isnan(plait_schedule_at(&s, 0)));
    assert_non_null(strstr(plait_last_error(), "milestone"));
    s.size = 1;
    assert_true(isnan(plait_schedule_at(&s, 0)));
    assert_non_null(strstr(plait_last_error(), "PLAIT_SCHEDULE_DEFAULT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dynamic_loss_scale_grows_and_backs_off_within_its_limits),
        cmocka_unit_test(a_wrong_loss_scale_is_named),
        cmocka_unit_test(schedules_have_their_values_at_the_corners),
        cmocka_unit_test(a_wrong_schedule_is_named),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
