/* SPDX-License-Identifier: BSD-3-Clause */
/* algSelection and NCCL_ALGO: lists of algorithms by NCCL's names or ours. */
#ifndef PLAIT_NCCL_ALGORITHM_H
#define PLAIT_NCCL_ALGORITHM_H

#include "call.h"

/*
 * The first algorithm of the call's list, or of NCCL_ALGO, that can run it. `out` is "": there is no list, or none can
 * and the library shall choose. PLAIT_ERR_CONFIG: one of them must, and none can.
 */
enum plait_status nccl_algorithm_pick(const struct nccl_call *c, const struct plait_call *options, char out[64]);

#endif
