/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that wait for a rank that will never come: while operations are on a device nobody on the host waits for
 * them, so a thread of this process looks whether their comms fail, or ranks die, and then gives the comm's own flags,
 * again and again, until the streams have passed. Their data is lost; the comm says why.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_WATCH_H
#define PLAIT_LIB_DEVICE_DEVICE_WATCH_H

#include "device_comm.h"

enum plait_status plait_device_watch(struct plait_device_comm *d);
void plait_device_unwatch(struct plait_device_comm *d);

#endif
