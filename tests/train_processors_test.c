/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors are divided among those ranks that share them, once. */
#include "unit.h"

#include "../train/processors.h"

#include <string.h>

static struct seat seat(const char *machine, int first, int n)
{
    struct seat s = { .machine = "" };

    strcpy(s.machine, machine);
    for (int cpu = first; cpu < first + n; cpu++)
        CPU_SET(cpu, &s.set);
    return s;
}

static void ranks_that_are_not_bound_share_their_machine(void **state)
{
    const struct seat seats[] = { seat("a", 0, 16), seat("a", 0, 16), seat("a", 0, 16), seat("b", 0, 16) };

    assert_int_equal(processors_share(seats, 4, 0), 5);
    assert_int_equal(processors_share(seats, 4, 3), 16);
}

static void ranks_that_a_launcher_has_bound_are_not_divided_again(void **state)
{
    const struct seat cores[] = { seat("a", 0, 4), seat("a", 4, 4), seat("a", 8, 4), seat("a", 12, 4) };
    const struct seat sockets[] = { seat("a", 0, 8), seat("a", 8, 8), seat("a", 0, 8), seat("a", 8, 8) };

    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(processors_share(cores, 4, rank), 4);
        assert_int_equal(processors_share(sockets, 4, rank), 4);
    }
}

static void each_rank_has_a_processor(void **state)
{
    const struct seat seats[] = { seat("a", 0, 2), seat("a", 0, 2), seat("a", 0, 2) };

    assert_int_equal(processors_share(seats, 3, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_are_not_bound_share_their_machine),
        cmocka_unit_test(ranks_that_a_launcher_has_bound_are_not_divided_again),
        cmocka_unit_test(each_rank_has_a_processor),
    };
    return cmocka_run_group_tests_name("train_processors", tests, NULL, NULL);
}
