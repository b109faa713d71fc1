/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --dump: what the ranks of another process did last. */
#ifndef PLAIT_TOOLS_DUMP_H
#define PLAIT_TOOLS_DUMP_H

#include <stdbool.h>
#include <stdint.h>

/* Print the comms of process `pid` with their `last` operations; false: stderr says why not. */
bool dump_process(const char *pid, uint32_t last);

#endif
