/* SPDX-License-Identifier: BSD-3-Clause */
/* Plait's own ranks: processes of this program, or threads of one such process. */
#ifndef PLAIT_BENCH_LAUNCH_PLAIT_H
#define PLAIT_BENCH_LAUNCH_PLAIT_H

#include "ranks.h"

/* Start the ranks; ranks_greet() waits for them. Call it before any thread is started. */
bool plait_launch(struct ranks *r, const struct options *o);

#endif
