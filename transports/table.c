/* SPDX-License-Identifier: BSD-3-Clause */
/* Every transport of this build, in order of preference. */
#include "../lib/transport.h"

extern const struct plait_transport plait_transport_shm;

const struct plait_transport *const plait_transports[] = {
    &plait_transport_shm,
    NULL,
};
