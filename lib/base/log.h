/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines, "plait[HOST:PID] TIME warn: text", to the callback (without the time), a file or stderr (<plait/log.h>).
 * Never stdout.
 */
#ifndef PLAIT_LIB_BASE_LOG_H
#define PLAIT_LIB_BASE_LOG_H

#include <plait/log.h>

#include <stdbool.h>

/*
 * Lines above this level are dropped; the others are added to `file`, in which %h is the host, %p the process and %% a
 * %, or go to stderr when it is "". The file is opened with the first line. plait_config_load() calls it; before: warn,
 * "".
 */
void plait_log_setup(enum plait_log_level level, const char *file);

/* Are lines of this level shown? */
bool plait_log_wants(enum plait_log_level level);

/* One line; thread-safe, written with one write(2). Control characters become '?'; errno is kept. */
void plait_log(enum plait_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
