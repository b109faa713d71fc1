/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of ranks on the stand-in's devices as cmocka's tests. */
#ifndef PLAIT_TESTS_UNIT_DEVICE_H
#define PLAIT_TESTS_UNIT_DEVICE_H

#include "../unit.h"
#include "device_run.h"

/* The body f succeeds on every rank, of so many processes and threads. */
#define test_on_device(f, processes, threads)                    \
    {                                                            \
#f, device_succeeds, NULL, NULL, &(struct ranks)         \
        {                                                        \
            .body = f, .nprocess = processes, .nthread = threads \
        }                                                        \
    }

/* As so many threads, and then as so many processes. */
#define test_on_device_both(f, nrank)                         \
    {                                                         \
#f, device_succeeds_both, NULL, NULL, &(struct ranks) \
        {                                                     \
            .body = f, .nprocess = nrank, .nthread = 1        \
        }                                                     \
    }

static inline void device_succeeds(void **state)
{
    const struct ranks *r = *state;

    device_run(r->nprocess, r->nthread, r->body, NULL);
}

static inline void device_succeeds_both(void **state)
{
    const struct ranks *r = *state;

    device_run(1, r->nprocess, r->body, NULL);
    device_run(r->nprocess, 1, r->body, NULL);
}

#endif
