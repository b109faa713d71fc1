/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of ranks as cmocka's tests. */
#ifndef PLAIT_TESTS_UNIT_RANKS_H
#define PLAIT_TESTS_UNIT_RANKS_H

#include "ranks.h"
#include "unit.h"

/* The body f succeeds on every rank: of so many processes and threads, with what else the run has (struct ranks). */
#define test_of_ranks(f, processes, threads, ...)                               \
    {                                                                           \
#f, ranks_succeed, NULL, NULL, &(struct ranks)                          \
        {                                                                       \
            .body = f, .nprocess = processes, .nthread = threads, ##__VA_ARGS__ \
        }                                                                       \
    }

/* As so many processes, and then as so many threads of one. */
#define test_of_both(f, nrank, ...)                                   \
    {                                                                 \
#f, ranks_succeed_both, NULL, NULL, &(struct ranks)           \
        {                                                             \
            .body = f, .nprocess = nrank, .nthread = 1, ##__VA_ARGS__ \
        }                                                             \
    }

static inline void ranks_succeed(void **state)
{
    assert_int_equal(ranks_run(*state), 0);
}

static inline void ranks_succeed_both(void **state)
{
    assert_int_equal(ranks_run_both(*state), 0);
}

#endif
