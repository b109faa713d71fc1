/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan export: the plans of all ranks as a GOAL schedule, the text that LogGOPSim and ATLAHS read. */
#ifndef PLAIT_TOOLS_EXPORT_H
#define PLAIT_TOOLS_EXPORT_H

#include <plait/simulate.h>

/*
 * Print the schedule of one operation, of `count` float32 elements in one slice: messages, and copies and reductions as
 * computations of that many nanoseconds.
 *
 * machine  its `copy` and `reduce` give the nanoseconds; NULL: computations take none
 * Returns the exit status.
 */
int export_goal(const struct plait_machine *machine, const struct plait_shape *shape, const char *spec, size_t count);

#endif
