/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of simulate.c and machine_file.c, in a build without jansson. */
#include "message.h"
#include "simulate.h"

bool machine_load(const char *name, struct plait_machine *out)
{
    (void)out;
    complain("--machine %s: this plait-plan was built without jansson, which reads machines", name);
    return false;
}

int simulate(const struct plait_machine *machine, const struct plait_shape *shape, const char *spec, size_t count,
             bool json)
{
    (void)machine, (void)shape, (void)spec, (void)count, (void)json;
    return 2;
}
