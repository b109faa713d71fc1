/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that is pending in a comm: requests, then messages. */
#ifndef PLAIT_LIB_CALL_DRIVE_H
#define PLAIT_LIB_CALL_DRIVE_H

#include "comm/comm.h"

extern const struct plait_drive plait_drive;

#endif
