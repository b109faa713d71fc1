/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watch releases streams that wait for a rank that will never come. While operations are on a device, no thread on
 * the host waits for them. So one thread of this process checks every millisecond whether a comm has failed or a rank
 * has died. Then it gives the comm's own flags, again and again, until the streams have passed. The data of those
 * operations is lost; the comm reports the error.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_WATCH_H
#define PLAIT_LIB_DEVICE_DEVICE_WATCH_H

#include "device_comm.h"

enum plait_status plait_device_watch(struct plait_device_comm *d);
void plait_device_unwatch(struct plait_device_comm *d);

#endif
