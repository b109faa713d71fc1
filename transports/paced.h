/* SPDX-License-Identifier: BSD-3-Clause */
/* Links that a test slows down (PLAIT_PACE). */
#ifndef PLAIT_TRANSPORTS_PACED_H
#define PLAIT_TRANSPORTS_PACED_H

#include "../lib/base/config.h"
#include "../lib/transport/transport.h"

extern const struct plait_transport plait_transport_paced;

/* Slow `inner` down; it then belongs to the new link. NULL: out of memory, and `inner` is disconnected. */
struct plait_link *plait_paced_link(struct plait_link *inner, const struct plait_pace *pace);

#endif
