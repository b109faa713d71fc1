/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU's device of a build without oneDNN: none. */
#include "device.h"

#include "program.h"

static struct device *none(const struct device_options *options)
{
    (void)options;
    give_up(1, "this program was built without oneDNN, and computes on GPUs only: --device cuda");
}

const struct device_kind device_cpu = { .name = "cpu", .host = true, .create = none };

bool device_cpu_has_bf16(void)
{
    return false;
}

bool device_cpu_bf16_fast(void)
{
    return false;
}
