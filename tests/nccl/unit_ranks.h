/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of ranks as cmocka's tests, as in tests/unit_ranks.h: through NCCL's interface. */
#ifndef PLAIT_TESTS_NCCL_UNIT_RANKS_H
#define PLAIT_TESTS_NCCL_UNIT_RANKS_H

#include "../unit.h"
#include "ranks.h"

/* The body f succeeds on every rank: of so many processes and threads, with what else the run has (struct ranks). */
#define test_of_ranks(f, processes, threads, ...)                               \
    {                                                                           \
#f, ranks_succeed, NULL, NULL, &(struct ranks)                          \
        {                                                                       \
            .body = f, .nprocess = processes, .nthread = threads, ##__VA_ARGS__ \
        }                                                                       \
    }

static inline void ranks_succeed(void **state)
{
    assert_int_equal(ranks_run(*state), 0);
}

#endif
