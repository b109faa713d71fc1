/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in for GPUs of another build: the number of its interface is none that this one has. */
#include <stdint.h>

__attribute__((visibility("default"))) extern const uint32_t plait_device_plugin[];
const uint32_t plait_device_plugin[64] = { UINT32_MAX };
