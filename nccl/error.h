/* SPDX-License-Identifier: BSD-3-Clause */
/* Results and error texts. */
#ifndef PLAIT_NCCL_ERROR_H
#define PLAIT_NCCL_ERROR_H

#include "comm.h"

#include <plait/log.h>

/* Record the cause, for the comm if there is one, and log it once. Returns `result`. */
ncclResult_t nccl_fail(ncclResult_t result, struct ncclComm *comm, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__ /* as in lib/base/status.h */
#define nccl_fail(result, ...) (nccl_fail(result, __VA_ARGS__), (result))
#endif

/* Convert the library's status of `call`; its error text becomes the comm's. */
ncclResult_t nccl_result(enum plait_status status, struct ncclComm *comm, const char *call);
ncclResult_t nccl_result_of(enum plait_status status); /* without a text */

/* Refuse an unsupported function: one line in the log, once for each name. */
ncclResult_t nccl_refuse(const char *call, const char *why);

void nccl_log(enum plait_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
