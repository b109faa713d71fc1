/* SPDX-License-Identifier: BSD-3-Clause */
/* Stall detection: a wait that takes too long gives a warning, then the deadline's error; both name the culprit. */
#ifndef PLAIT_LIB_PROGRESS_STALL_H
#define PLAIT_LIB_PROGRESS_STALL_H

#include "wait.h"

/* Deadline of this wait, seconds. */
double plait_deadline_of(const struct plait_comm *comm, const struct plait_wait *w);

/* Warn, or fail the comm, when a limit has passed. */
enum plait_status plait_look_at_clock(struct plait_comm *comm, struct plait_wait *w, double now);

#endif
