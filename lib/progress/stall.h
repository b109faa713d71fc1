/* SPDX-License-Identifier: BSD-3-Clause */
/* A wait that takes too long: whom it waits for, in words. First a warning, then the deadline's error. */
#ifndef PLAIT_LIB_PROGRESS_STALL_H
#define PLAIT_LIB_PROGRESS_STALL_H

#include "wait.h"

/* Of what is awaited, in seconds. */
double plait_deadline_of(const struct plait_comm *comm, const struct plait_wait *w);

/* Warn, or fail the comm, when it is time to. */
enum plait_status plait_look_at_clock(struct plait_comm *comm, struct plait_wait *w, double now);

#endif
