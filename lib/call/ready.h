/* SPDX-License-Identifier: BSD-3-Clause */
/* What every rank prepares by itself before all go on together: it is there on all of them, or none goes on. */
#ifndef PLAIT_LIB_CALL_READY_H
#define PLAIT_LIB_CALL_READY_H

#include <plait/comm.h>

/*
 * Collective. status: how far this rank has come, with its text in plait_last_error(). PLAIT_OK: all are ready. Else a
 * rank that failed returns its own error, and the others PLAIT_ERR_MISMATCH with its number and its text, behind
 * `call`; the comm stays usable. It allocates nothing itself; a rank that lacks the memory for a small collective fails
 * the comm.
 */
enum plait_status plait_all_ready(struct plait_comm *comm, const char *call, enum plait_status status);

#endif
