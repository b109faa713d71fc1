/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --topology: processors, caches, memory, single copy between processes, GPU. */
#ifndef PLAIT_TOOLS_MACHINE_H
#define PLAIT_TOOLS_MACHINE_H

void machine_print(void);

/* Where this process may run, by hwloc, and advice on binding; or why that is not known. */
void locality_print(void);

#endif
