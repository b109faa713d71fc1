/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing how to write, with costs that the test makes up. */
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Run n operations; returns how many used each way. */
static void operate(struct plait_trial *t, const double cost[PLAIT_NWAY], uint32_t n, uint32_t used[PLAIT_NWAY])
{
    for (uint32_t i = 0; i < n; i++) {
        bool timed;
        const unsigned way = plait_trial_start(t, &timed);
        assert_true(way < PLAIT_NWAY);
        used[way]++;
        if (timed)
            plait_trial_report(t, cost[way]);
    }
}

static void the_cheapest_way_is_found_in_the_first_ten_operations(void **state)
{
    (void)state;
    for (unsigned best = 0; best < PLAIT_NWAY; best++) {
        double cost[PLAIT_NWAY] = { 4, 4, 4, 4 };
        struct plait_trial t = { 0 };
        uint32_t used[PLAIT_NWAY] = { 0 };
        cost[best] = 1;
        operate(&t, cost, PLAIT_TRIAL_PLACES + 1, used);
        assert_int_equal(t.way, best);
    }
}

static void trying_costs_few_operations(void **state)
{
    const double cost[PLAIT_NWAY] = { 1, 4, 4, 4 };
    struct plait_trial t = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    (void)state;
    operate(&t, cost, 100 * PLAIT_TRIAL_PERIOD, used);
    assert_int_equal(used[1] + used[2] + used[3], 100 * (PLAIT_NWAY - 1) * 2);
}

static void a_machine_that_changes_is_followed(void **state)
{
    const double near[PLAIT_NWAY] = { 1, 5, 1, 5 }, far[PLAIT_NWAY] = { 7, 1, 7, 1 };
    struct plait_trial t = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    (void)state;
    operate(&t, near, PLAIT_TRIAL_PERIOD, used);
    assert_int_equal(t.way & PLAIT_SHARED_PAST, 0);
    operate(&t, far, PLAIT_TRIAL_PERIOD, used);
    assert_int_equal(t.way & PLAIT_SHARED_PAST, PLAIT_SHARED_PAST);
    operate(&t, near, PLAIT_TRIAL_PERIOD, used);
    assert_int_equal(t.way & PLAIT_SHARED_PAST, 0);
}

static void a_small_gain_changes_nothing(void **state)
{
    const double cost[PLAIT_NWAY] = { 1, 0.95, 0.95, 0.95 };
    struct plait_trial t = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    (void)state;
    operate(&t, cost, 10 * PLAIT_TRIAL_PERIOD, used);
    assert_int_equal(t.way, 0);
}

static void the_first_operation_does_not_count(void **state)
{
    struct plait_trial t = { 0 };
    bool timed = true;

    (void)state;
    assert_int_equal(plait_trial_start(&t, &timed), 0);
    assert_false(timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_way_is_found_in_the_first_ten_operations),
        cmocka_unit_test(trying_costs_few_operations),
        cmocka_unit_test(a_machine_that_changes_is_followed),
        cmocka_unit_test(a_small_gain_changes_nothing),
        cmocka_unit_test(the_first_operation_does_not_count),
    };

    return cmocka_run_group_tests_name("trial", tests, NULL, NULL);
}
