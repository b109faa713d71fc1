/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts for errors and the log: a comm's operation in progress, and the last operations of its ranks. */
#ifndef PLAIT_LIB_FAILURE_REPORT_H
#define PLAIT_LIB_FAILURE_REPORT_H

#include "base/log.h"
#include "comm/comm.h"

/* Operation `sequence` of a rank of the comm; false if its ring does not have it or its memory is gone. */
bool plait_comm_operation(const struct plait_comm *comm, uint32_t rank, uint64_t sequence, struct plait_operation *out);

/*
 * ", but waits in recv #3 from rank 2 (1000 float32)": the rank's newest message in a long wait. "": none, or the rank
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
