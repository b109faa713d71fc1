/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing how to write, with costs that the test makes up. */
#include "unit.h"

#include "comm/autotune.h"

#include <string.h>

#define SMALL 65536
#define LARGE ((size_t)64 << 20)

/* Run n operations of one rank, or of several whose costs are equal; counts how many used each way. */
static void operate(struct plait_autotunes *all, size_t bytes, const double cost[PLAIT_NWAY], uint32_t n,
                    uint32_t used[PLAIT_NWAY])
{
    struct plait_autotune *t = plait_autotune_of(all, bytes);

    for (uint32_t i = 0; i < n; i++) {
        const bool wanted = t->wanted;
        bool timed;
        const unsigned way = plait_autotune_start(all, bytes, &timed);
        assert_true(way < PLAIT_NWAY);
        used[way]++;
        if (timed)
            plait_autotune_report(all, bytes, cost[way]);
        if (wanted)
            plait_autotune_again(all, bytes);
    }
}

static const double near[PLAIT_NWAY] = { 1, 5, 1, 5 }, far[PLAIT_NWAY] = { 7, 1, 7, 1 };

static void the_cheapest_way_is_found_in_the_first_ten_operations(void **state)
{
    for (unsigned best = 0; best < PLAIT_NWAY; best++) {
        double cost[PLAIT_NWAY] = { 4, 4, 4, 4 };
        struct plait_autotunes all = { 0 };
        uint32_t used[PLAIT_NWAY] = { 0 };
        cost[best] = 1;
        operate(&all, SMALL, cost, PLAIT_AUTOTUNE_PLACES + 1, used);
        assert_int_equal(plait_autotune_of(&all, SMALL)->way, best);
    }
}

static void trying_costs_few_operations(void **state)
{
    const double cost[PLAIT_NWAY] = { 1, 4, 4, 4 };

    for (size_t bytes = SMALL; bytes <= LARGE; bytes *= LARGE / SMALL) {
        struct plait_autotunes all = { 0 };
        uint32_t used[PLAIT_NWAY] = { 0 };
        operate(&all, bytes, cost, 100 * PLAIT_AUTOTUNE_PERIOD, used);
        assert_int_equal(used[1] + used[2] + used[3], 101 * (PLAIT_NWAY - 1) * 2);
    }
}

static void where_results_alone_are_tried_nothing_is_shared_past_the_caches(void **state)
{
    const double cost[PLAIT_NWAY] = { 4, 1, 2, 1 }; /* what is shared would make more of a difference */

    for (size_t bytes = SMALL; bytes <= LARGE; bytes *= LARGE / SMALL) {
        struct plait_autotunes all = { .results_alone = true };
        uint32_t used[PLAIT_NWAY] = { 0 };
        operate(&all, bytes, cost, PLAIT_AUTOTUNE_PERIOD, used);
        assert_int_equal(used[PLAIT_SHARED_PAST] + used[PLAIT_SHARED_PAST | PLAIT_RESULT_PAST], 0);
        assert_int_equal(used[0], PLAIT_AUTOTUNE_LENT + 2 * 2); /* the first, and twice in each of two rounds */
        operate(&all, bytes, (double[]){ 1, 1, 4, 1 }, PLAIT_AUTOTUNE_PERIOD + PLAIT_AUTOTUNE_PLACES, used);
        assert_int_equal(plait_autotune_of(&all, bytes)->way, 0);
    }
}

static void a_machine_that_changes_is_followed(void **state)
{
    struct plait_autotunes all = { 0 };
    const struct plait_autotune *t = plait_autotune_of(&all, SMALL);
    uint32_t used[PLAIT_NWAY] = { 0 };

    operate(&all, SMALL, near, PLAIT_AUTOTUNE_PERIOD, used);
    assert_int_equal(t->way & PLAIT_SHARED_PAST, 0);
    operate(&all, SMALL, far, PLAIT_AUTOTUNE_PERIOD, used);
    assert_int_equal(t->way & PLAIT_SHARED_PAST, PLAIT_SHARED_PAST);
    operate(&all, SMALL, near, PLAIT_AUTOTUNE_PERIOD, used);
    assert_int_equal(t->way & PLAIT_SHARED_PAST, 0);
}

static void large_operations_follow_within_a_dozen(void **state)
{
    struct plait_autotunes all = { 0 };
    const struct plait_autotune *t = plait_autotune_of(&all, LARGE);
    uint32_t used[PLAIT_NWAY] = { 0 };

    operate(&all, LARGE, near, 40, used);
    assert_int_equal(t->way & PLAIT_SHARED_PAST, 0);
    operate(&all, LARGE, far, 3 + PLAIT_AUTOTUNE_PLACES, used);
    assert_int_equal(t->way & PLAIT_SHARED_PAST, PLAIT_SHARED_PAST);
}

/* What a size cannot help costs no more than the periodic rounds and as many again. */
static void costs_that_vary_by_themselves_cause_few_rounds(void **state)
{
    struct plait_autotunes all = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };
    const unsigned n = 100;

    for (unsigned i = 0; i < n * PLAIT_AUTOTUNE_PERIOD / 4; i++) {
        const double c = i % 2 ? 1 : 2, cost[PLAIT_NWAY] = { c, 4 * c, 4 * c, 4 * c };
        operate(&all, LARGE, cost, 4, used);
    }
    assert_true(used[1] + used[2] + used[3] <= (2 * n + 4) * (PLAIT_NWAY - 1) * 2);
}

static void one_size_tells_the_others_how_cores_share_caches(void **state)
{
    struct plait_autotunes all = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    operate(&all, LARGE, near, 20, used);
    operate(&all, SMALL, far, 2 * PLAIT_AUTOTUNE_EARLY, used);
    assert_int_equal(plait_autotune_of(&all, LARGE)->way & PLAIT_SHARED_PAST, PLAIT_SHARED_PAST);
    memset(used, 0, sizeof used);
    operate(&all, LARGE, far, 10, used); /* and it was right: no round */
    assert_int_equal(used[0] + used[2], 0);
}

static void a_new_size_starts_from_what_is_known(void **state)
{
    struct plait_autotunes all = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    operate(&all, SMALL, far, 10, used);
    memset(used, 0, sizeof used);
    operate(&all, LARGE, far, PLAIT_AUTOTUNE_EARLY, used);
    assert_int_equal(used[0] + used[2], 1);
    operate(&all, LARGE, near, PLAIT_AUTOTUNE_PLACES, used);
    assert_int_equal(plait_autotune_of(&all, LARGE)->way & PLAIT_SHARED_PAST, 0);
}

/* The first size came before the machine changed: the second would have kept its finding for 32 operations. */
static void a_new_size_sees_that_the_machine_has_changed(void **state)
{
    struct plait_autotunes all = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    operate(&all, SMALL, near, 10, used);
    operate(&all, LARGE, far, 6, used);
    assert_int_equal(plait_autotune_of(&all, LARGE)->way & PLAIT_SHARED_PAST, PLAIT_SHARED_PAST);
    assert_int_equal(plait_autotune_of(&all, SMALL)->way & PLAIT_SHARED_PAST, PLAIT_SHARED_PAST);
}

static void a_small_gain_changes_nothing(void **state)
{
    const double cost[PLAIT_NWAY] = { 1, 0.95, 0.95, 0.95 };
    struct plait_autotunes all = { 0 };
    uint32_t used[PLAIT_NWAY] = { 0 };

    operate(&all, SMALL, cost, 10 * PLAIT_AUTOTUNE_PERIOD, used);
    assert_int_equal(plait_autotune_of(&all, SMALL)->way, 0);
}

static void the_first_operation_does_not_count(void **state)
{
    struct plait_autotunes all = { 0 };
    bool timed = true;

    assert_int_equal(plait_autotune_start(&all, LARGE, &timed), 0);
    assert_false(timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_way_is_found_in_the_first_ten_operations),
        cmocka_unit_test(trying_costs_few_operations),
        cmocka_unit_test(where_results_alone_are_tried_nothing_is_shared_past_the_caches),
        cmocka_unit_test(a_machine_that_changes_is_followed),
        cmocka_unit_test(large_operations_follow_within_a_dozen),
        cmocka_unit_test(costs_that_vary_by_themselves_cause_few_rounds),
        cmocka_unit_test(one_size_tells_the_others_how_cores_share_caches),
        cmocka_unit_test(a_new_size_starts_from_what_is_known),
        cmocka_unit_test(a_new_size_sees_that_the_machine_has_changed),
        cmocka_unit_test(a_small_gain_changes_nothing),
        cmocka_unit_test(the_first_operation_does_not_count),
    };

    return cmocka_run_group_tests_name("trial", tests, NULL, NULL);
}
