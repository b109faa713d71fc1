/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines, "plait[HOST:PID] TIME warn: text". They go to the callback (without the time), a file or stderr, never to
 * stdout; see <plait/log.h>.
 */
#ifndef PLAIT_LIB_BASE_LOG_H
#define PLAIT_LIB_BASE_LOG_H

#include <plait/log.h>

#include <stdbool.h>

/*
 * Drop lines above this level and append the others to `file` ("": stderr). In the name, %h is the host, %p the pid, %%
 * a %. The first line opens the file. plait_config_load() calls this function; until then the level is warn, to stderr.
 */
void plait_log_setup(enum plait_log_level level, const char *file);

/* Are lines of this level logged? */
bool plait_log_wants(enum plait_log_level level);

/* Log one line, with one system call. Thread-safe. Control characters become '?'. Leaves errno unchanged. */
void plait_log(enum plait_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
