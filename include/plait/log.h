/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log messages of the library: warnings, and errors of comms.
 *
 * A line reads "plait[HOST:PID] 2026-01-31T23:59:59.123Z warn: comm 'NAME', OPERATION: rank R: text", as far as comm,
 * operation and rank are known; the time is UTC, and a callback's line has none. When a comm fails, its first line is
 * followed by the last operations of this rank and of the rank at fault.
 * PLAIT_LOG sets the levels shown (default: warn and error). Lines go to the callback if there is one; else they are
 * added to the file that PLAIT_LOG_FILE names; else, or if the file cannot be opened, they go to stderr. Nothing ever
 * goes to stdout.
 */
#ifndef PLAIT_LOG_H
#define PLAIT_LOG_H

#include <plait/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plait_log_level { PLAIT_LOG_ERROR, PLAIT_LOG_WARN, PLAIT_LOG_INFO, PLAIT_LOG_DEBUG };

/**
 * Send the log lines of this process to a callback instead of file and stderr.
 *
 * callback  gets each line that PLAIT_LOG lets through: `context`, its level, and the text without line end, valid
 *           during the call. NULL: back to file and stderr
 * context   passed to the callback; must live until the callback is replaced
 * Thread:  any. The callback runs in the thread that logs, which may be inside any call of the library, and in several
 *          threads at once. It may call the library except this function; lines logged in such a call go to file or
 *          stderr. When this function returns, the previous callback is in no call and gets no more lines.
 */
PLAIT_API void plait_log_callback(void (*callback)(void *context, enum plait_log_level level, const char *line),
                                  void *context);

/**
 * Write a line to the library's log, if PLAIT_LOG lets the level through. For code built on the library.
 *
 * text   without line end; control characters become '?'
 * Thread: any
 */
PLAIT_API void plait_log_write(enum plait_log_level level, const char *text);

#ifdef __cplusplus
}
#endif
#endif
