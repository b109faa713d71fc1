/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room failure: how a communicator fails, and what is said of it.
 *
 * It fails on one rank, with a text that names the culprit, and through that rank's control block on all others.
 * report.c writes errors, warnings and the log; dump.c lets plait-info read the same from outside; slow.c has the
 * warnings of slow paths. remote/ carries the control blocks of ranks on other hosts, as updates over the connections
 * by which the ranks met: whoever looks at a rank need not know on which host it is.
 *
 * The room promises: the first error of a communicator stays, and all ranks report the same one. Nothing that is read
 * from another rank's memory is trusted.
 *
 * It does not know what is waited for. Finding out that a rank is late or dead is in the room progress.
 */
#ifndef PLAIT_LIB_FAILURE_FAILURE_H
#define PLAIT_LIB_FAILURE_FAILURE_H

#include "comm/comm.h"

/*
 * Has any rank failed? Asked before a success is reported: an operation that failed on one rank should not succeed
 * on a later one, and a rank that failed and left may since have changed the memory that this rank read.
 */
enum plait_status plait_look_for_failures(struct plait_comm *comm);

/* Mark the comm as failed for all ranks, unless it is already. Any thread. culprit: rank + 1, or 0. */
void plait_announce_failure(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit);

/*
 * Fail the comm on this rank and, through its control block, on all others. The text becomes
 * plait_last_error() everywhere; "OPERATION: " of the operation in progress is put before it.
 */
enum plait_status plait_comm_fail(struct plait_comm *comm, enum plait_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same where another rank is the cause: the log shows its last operations, too. */
enum plait_status plait_comm_blame(struct plait_comm *comm, enum plait_status status, uint32_t culprit,
                                   const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * This rank has aborted it, for `reason` (NULL: none given). Revoked: operations that it has completed end on others,
 * too.
 */
void plait_comm_announce_abort(struct plait_comm *comm, const char *reason, bool revoked);

/* On this rank, or by plait_comm_abort() from another thread. */
static inline bool plait_has_failed(const struct plait_comm *comm)
{
    return atomic_load_explicit(&comm->own->failed, memory_order_acquire) != PLAIT_OK;
}

#endif
