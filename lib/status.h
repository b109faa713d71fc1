/* SPDX-License-Identifier: BSD-3-Clause */
/* Recording the exact cause of an error, once, where it is decided. */
#ifndef PLAIT_LIB_STATUS_H
#define PLAIT_LIB_STATUS_H

#include <plait/status.h>

/* Record the text for plait_last_error() of this thread and return `status`, for `return fail(...)`. */
enum plait_status plait_fail(enum plait_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ /* it sees one file at a time, and would think that an error may be returned as success */
#define plait_fail(status, ...) (plait_fail(status, __VA_ARGS__), (status))
#endif

#endif
