/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --dump: the last operations of another process's ranks. */
#ifndef PLAIT_TOOLS_DUMP_H
#define PLAIT_TOOLS_DUMP_H

#include <stdbool.h>
#include <stdint.h>

/* Print the communicators of process `pid` with their `last` operations. Returns false after a message. */
bool dump_process(const char *pid, uint32_t last);

#endif
