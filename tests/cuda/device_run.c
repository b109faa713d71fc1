/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_run.h"

#include "../kept.h"
#include "../unit.h"

#include <unistd.h>

_Atomic int gate;

unsigned device_ranks_run(const struct ranks *r)
{
    assert_true(kept_world_begin());
    const unsigned failed = ranks_run(r);
    kept_world_end();
    return failed;
}

void device_run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **comm, uint32_t rank, void *arg),
                void *arg)
{
    const struct ranks r = { .nprocess = nprocess, .nthread = nthread, .body = body, .arg = arg };

    assert_int_equal(device_ranks_run(&r), 0);
}

void wait_at_gate(void *context)
{
    while (!gate)
        usleep(100);
}
