/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room failure: how a communicator fails, and how failures are reported.
 *
 * A failure starts on one rank, with a text that names the culprit. The others see it in that rank's control block.
 * remote/ keeps replicas of the control blocks of ranks on other hosts,
 * updated over the connections of the rendezvous: readers of a control block need not know on which host its rank is.
 *
 * The room promises: the first error of a communicator stays, and all ranks report the same one. Nothing that is read
 * from another rank's memory is trusted.
 *
 * It does not know what a wait is for. The room progress detects late and dead ranks.
 */
#ifndef PLAIT_LIB_FAILURE_FAILURE_H
#define PLAIT_LIB_FAILURE_FAILURE_H

#include "base/log.h"
#include "comm/comm.h"

/*
 * Has any rank failed? Called before a success is reported: an operation that failed on one rank should not succeed on
 * a later one, and a rank that failed and left may have changed the memory that this rank read.
 */
enum plait_status plait_probe_failures(struct plait_comm *comm);

/* Mark the comm as failed for all ranks, unless it has failed already. Any thread. culprit: rank + 1, or 0. */
void plait_announce_failure(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit);

#define PLAIT_NOBODY UINT32_MAX

/*
 * Fail the comm on this rank and, through its control block, on all others. The text becomes plait_last_error()
 * everywhere, after "OPERATION: rank R: " of this rank (no R for PLAIT_ERR_PEER: a fact). culprit: the guilty rank, or
 * PLAIT_NOBODY: the log shows that rank's last operations, too.
 */
enum plait_status plait_comm_blame(struct plait_comm *comm, enum plait_status status, uint32_t culprit,
                                   const char *format, ...) __attribute__((format(printf, 4, 5)));
#define plait_comm_fail(comm, status, ...) plait_comm_blame(comm, status, PLAIT_NOBODY, __VA_ARGS__)

/* Fail the comm with an error that only this rank has, and its plait_last_error(), unless it has failed already. */
static inline enum plait_status plait_comm_fail_too(struct plait_comm *comm, enum plait_status status)
{
    return status == PLAIT_OK || comm->failed != PLAIT_OK ? status
                                                          : plait_comm_fail(comm, status, "%s", plait_last_error());
}

/*
 * Announce that this rank aborts the comm, for `reason` (NULL: none given). revoked: operations that this rank has
 * completed fail on others, too.
 */
void plait_comm_announce_abort(struct plait_comm *comm, const char *reason, bool revoked);

/* Has the comm failed on this rank, or was it aborted from another thread? */
static inline bool plait_has_failed(const struct plait_comm *comm)
{
    return atomic_load_explicit(&comm->own->failed, memory_order_acquire) != PLAIT_OK;
}

/* ---- Texts for errors and the log ------------------------------------------------------------------------------- */

/* Operation `sequence` of a rank of the comm; false if its ring does not have it or its memory is gone. */
bool plait_comm_operation(const struct plait_comm *comm, uint32_t rank, uint64_t sequence, struct plait_operation *out);

/*
 * ", but waits in recv #3 from rank 2 (1000 float32)": a message in a long wait of the rank. "": none, or the rank
 * has not probed since `since` (clock), so it may do something else by now.
 */
void plait_comm_waits_in(const struct plait_comm *comm, uint32_t rank, double since, char *text, size_t room);

/* "comm 'NAME', OPERATION: rank R: ", OPERATION only while this rank is in one, R only if `own`; returns its length. */
size_t plait_comm_where(const struct plait_comm *comm, bool own, char *text, size_t room);

/* A log line with that prefix. */
void plait_comm_log(const struct plait_comm *comm, enum plait_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Log the failure of the comm, and the last operations of this rank and `culprit` (rank + 1; 0: none), once. */
void plait_comm_tell_failure(struct plait_comm *comm, const char *text, uint32_t culprit);

#endif
