/* SPDX-License-Identifier: BSD-3-Clause */
/* Does the network leave out a faster device? */
#ifndef PLAIT_TRANSPORTS_SLOW_H
#define PLAIT_TRANSPORTS_SLOW_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Is a faster device, or an interface with an address, not in use? The text says why.
 *
 * sys    /sys, or a test's copy
 * route  the path of messages, as a network describes it ("tcp/eth0")
 */
bool plait_device_is_missed(const char *sys, const char *route, char *text, size_t room);

/* Warn if so, once per process. */
void plait_warn_of_device(const char *route);

#endif
