/* SPDX-License-Identifier: BSD-3-Clause */
/* --nodes and --levels: where ranks lie. */
#ifndef PLAIT_TOOLS_SHAPE_H
#define PLAIT_TOOLS_SHAPE_H

#include <plait/plan.h>

#define SHAPE_NODES "node of each rank: 4x2 is 4 nodes of 2, 3+1+2 is uneven (default: one node)"
#define SHAPE_LEVELS \
    "groups of ranks by level, innermost first: 4x2,2x4 is 2 nodes of 2 packages of 2 ranks (default: none)"

/*
 * Set nrank, node, nlevel and level of *shape from these maps; NULL: not given, both NULL: nrank is 0. The arrays live
 * as long as the program, and until the next call. More than `most` ranks, or other numbers of them, end the program
 * with a message.
 *
 * ranks  what the user says, or 0; flag: its option
 */
void shape_read(const char *nodes, const char *levels, uint32_t ranks, const char *flag, uint32_t most,
                struct plait_shape *shape);

#endif
