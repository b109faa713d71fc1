/* SPDX-License-Identifier: BSD-3-Clause */
/* PyTorch over Gloo as a peer: python3 processes that run plait-perf-ddp.py. */
#ifndef PLAIT_BENCH_LAUNCH_DDP_H
#define PLAIT_BENCH_LAUNCH_DDP_H

#include "ranks.h"

/* Start the ranks; ranks_greet() waits for them. */
bool ddp_launch(struct ranks *r);

#endif
