/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of ranks with a GPU as cmocka's tests. */
#ifndef PLAIT_TESTS_NCCL_UNIT_GPU_H
#define PLAIT_TESTS_NCCL_UNIT_GPU_H

#include "../unit.h"
#include "gpu.h"

/* The body f succeeds on every rank, of so many processes and threads. */
#define test_on_gpu(f, processes, threads)                       \
    {                                                            \
#f, gpu_succeeds, NULL, NULL, &(struct ranks)            \
        {                                                        \
            .body = f, .nprocess = processes, .nthread = threads \
        }                                                        \
    }

/* As so many threads, and then as so many processes. */
#define test_on_gpu_both(f, nrank)                         \
    {                                                      \
#f, gpu_succeeds_both, NULL, NULL, &(struct ranks) \
        {                                                  \
            .body = f, .nprocess = nrank, .nthread = 1     \
        }                                                  \
    }

static inline void gpu_succeeds(void **state)
{
    const struct ranks *r = *state;

    assert_int_equal(gpu_run(r->nprocess, r->nthread, r->body), 0);
}

static inline void gpu_succeeds_both(void **state)
{
    const struct ranks *r = *state;

    assert_int_equal(gpu_run(1, r->nprocess, r->body), 0);
    assert_int_equal(gpu_run(r->nprocess, 1, r->body), 0);
}

#endif
