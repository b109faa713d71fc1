/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in for GPUs as a newer build has it: the number of its interface is another. */
#include "plugin/device.h"

__attribute__((visibility("default"))) extern const uint32_t plait_device_plugin[];
const uint32_t plait_device_plugin[64] = { PLAIT_DEVICE_ABI + 1 };
