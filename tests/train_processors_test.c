/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors are divided among those ranks that share them, once. */
#include "unit.h"

#include "../train/processors.h"

#include <string.h>

static struct bound bound(const char *machine, int first, int n)
{
    struct bound s = { .machine = "" };

    strcpy(s.machine, machine);
    for (int cpu = first; cpu < first + n; cpu++)
        CPU_SET(cpu, &s.set);
    return s;
}

static void ranks_that_are_not_bound_share_their_machine(void **state)
{
    const struct bound seats[] = { bound("a", 0, 16), bound("a", 0, 16), bound("a", 0, 16), bound("b", 0, 16) };

    assert_int_equal(processors_seat(seats, 4, 0).processors, 5);
    assert_int_equal(processors_seat(seats, 4, 3).processors, 16);
}

static void ranks_that_a_launcher_has_bound_are_not_divided_again(void **state)
{
    const struct bound cores[] = { bound("a", 0, 4), bound("a", 4, 4), bound("a", 8, 4), bound("a", 12, 4) };
    const struct bound sockets[] = { bound("a", 0, 8), bound("a", 8, 8), bound("a", 0, 8), bound("a", 8, 8) };

    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(processors_seat(cores, 4, rank).processors, 4);
        assert_int_equal(processors_seat(sockets, 4, rank).processors, 4);
    }
}

static void each_rank_has_a_processor(void **state)
{
    const struct bound seats[] = { bound("a", 0, 2), bound("a", 0, 2), bound("a", 0, 2) };

    assert_int_equal(processors_seat(seats, 3, 1).processors, 1);
}

static void ranks_of_a_machine_are_numbered(void **state)
{
    const struct bound ranks[] = { bound("a", 0, 2), bound("b", 0, 2), bound("a", 2, 2), bound("b", 0, 2) };

    assert_int_equal(processors_seat(ranks, 4, 0).local, 0);
    assert_int_equal(processors_seat(ranks, 4, 1).local, 0);
    assert_int_equal(processors_seat(ranks, 4, 2).local, 1);
    assert_int_equal(processors_seat(ranks, 4, 3).local, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_are_not_bound_share_their_machine),
        cmocka_unit_test(ranks_that_a_launcher_has_bound_are_not_divided_again),
        cmocka_unit_test(each_rank_has_a_processor),
        cmocka_unit_test(ranks_of_a_machine_are_numbered),
    };
    return cmocka_run_group_tests_name("train_processors", tests, NULL, NULL);
}
