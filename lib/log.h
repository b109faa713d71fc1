/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines on stderr: "plait[HOST:PID] warn: text". Never stdout. */
#ifndef PLAIT_LIB_LOG_H
#define PLAIT_LIB_LOG_H

#include "config.h"

/* Lines above this level are dropped; plait_config_load() sets it from PLAIT_LOG. Before: warn. */
void plait_log_level(enum plait_log_level level);

/* One line; thread-safe, written with one write(2). Control characters become '?'; errno is kept. */
void plait_log(enum plait_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
