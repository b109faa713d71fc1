/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of simulate.c, in a build without jansson. */
#include "message.h"
#include "simulate.h"

int simulate(const struct plait_machine *machine, const struct plait_shape *shape, const char *spec, size_t count,
             const struct simulate_options *options)
{
    (void)machine, (void)shape, (void)spec, (void)count, (void)options;
    complain("simulate: this plait-plan was built without jansson; install libjansson-dev (Debian) and build again");
    return 2;
}
