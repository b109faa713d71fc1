/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of tests that run twice: their ranks share a host, or (PLAIT_HOSTS) take each other for other hosts'. A test that
 * has a meaning in one of the two only is not in the other's list.
 */
#ifndef PLAIT_TESTS_PLACES_H
#define PLAIT_TESTS_PLACES_H

#include "unit.h"

#include <stdlib.h>

enum place_of_test { ANYWHERE, ON_ONE_HOST, OVER_HOSTS };

#define test_on_one_host(f)                               \
    {                                                     \
#f, f, NULL, NULL, (void *)(uintptr_t)ON_ONE_HOST \
    }
#define test_over_hosts(f)                               \
    {                                                    \
#f, f, NULL, NULL, (void *)(uintptr_t)OVER_HOSTS \
    }

/* Those that belong here come first, in their order; how many. */
static inline size_t keep_tests_of_this_place(struct CMUnitTest *tests, size_t n)
{
    const uintptr_t here = getenv("PLAIT_HOSTS") != NULL ? OVER_HOSTS : ON_ONE_HOST;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        const struct CMUnitTest test = tests[i];
        const uintptr_t place = (uintptr_t)test.initial_state;
        if (place == ANYWHERE || place == here || place > OVER_HOSTS) /* above: the test's own state */
            tests[kept++] = test;
    }
    return kept;
}

#define run_tests_of_this_place(name, tests) \
    _cmocka_run_group_tests(name, tests, keep_tests_of_this_place(tests, sizeof tests / sizeof *(tests)), NULL, NULL)

#endif
