/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_run.h"

#include "../unit.h"

#include <stdlib.h>
#include <unistd.h>

_Atomic int gate;

unsigned device_ranks_run(const struct ranks *r)
{
    char world[] = "/tmp/plait-device-test-XXXXXX"; /* where the processes' stand-ins meet */
    const int fd = mkstemp(world);

    assert_true(fd >= 0);
    close(fd);
    setenv("PLAIT_STANDIN_WORLD", world, 1);
    const unsigned failed = ranks_run(r);
    unsetenv("PLAIT_STANDIN_WORLD");
    unlink(world);
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
