/* SPDX-License-Identifier: BSD-3-Clause */
/* The way in which an operation writes, as trial.h finds it. */
#ifndef PLAIT_LIB_WAY_H
#define PLAIT_LIB_WAY_H

#include "run.h"

/* Before the operation sends anything; sets run->way and whether it is timed. */
void plait_way_choose(struct plait_run *run);

/* After its last step. */
void plait_way_report(struct plait_run *run);

#endif
