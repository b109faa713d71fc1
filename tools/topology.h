/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --topology and --export: the tree of a machine, and its file. */
#ifndef PLAIT_TOOLS_TOPOLOGY_H
#define PLAIT_TOOLS_TOPOLOGY_H

#include "machine_load.h"

/* Print the parts of the host that was described, and the machine. Returns false after a message. */
bool topology_print(const char *name, const struct machine_wish *wish);

/* Write the machine as JSON to this path; "-": to standard output. Returns false after a message. */
bool topology_export(const char *name, const struct machine_wish *wish, const char *path);

#endif
