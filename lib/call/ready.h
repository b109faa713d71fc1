/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement after a step that each rank does by itself: all ranks are ready, or none goes on. */
#ifndef PLAIT_LIB_CALL_READY_H
#define PLAIT_LIB_CALL_READY_H

#include <plait/comm.h>

/*
 * Collective. status: this rank's result so far, with its text in plait_last_error(). Returns PLAIT_OK if all are
 * ready. Else a rank that failed returns its own error, and the others PLAIT_ERR_MISMATCH with `call` and the number
 * and text of the lowest that failed; the comm stays usable. Allocates nothing itself; a rank that lacks the memory
 * for a small collective fails the comm.
 */
enum plait_status plait_all_ready(struct plait_comm *comm, const char *call, enum plait_status status);

#endif
