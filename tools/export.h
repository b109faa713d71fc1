/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-plan export: the plans of all ranks for other simulators. GOAL is the text that LogGOPSim and ATLAHS read.
 * Chakra execution traces, one file for each rank, are what ASTRA-sim reads.
 */
#ifndef PLAIT_TOOLS_EXPORT_H
#define PLAIT_TOOLS_EXPORT_H

#include <plait/simulate.h>

enum export_format { EXPORT_GOAL, EXPORT_CHAKRA };

/*
 * Write one operation, of `count` float32 elements in one slice: messages, and copies and reductions as computations.
 *
 * machine  its `copy` and `reduce` give the time of computations; NULL: they take none
 * prefix   Chakra: rank R's file is PREFIX.R.et; GOAL is printed
 * Returns the exit status.
 */
int export_plans(enum export_format format, const char *prefix, const struct plait_machine *machine,
                 const struct plait_shape *shape, const char *spec, size_t count);

#endif
