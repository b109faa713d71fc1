/* SPDX-License-Identifier: BSD-3-Clause */
/* algSelection and NCCL_ALGO: lists of algorithms by NCCL's or Plait's names. */
#ifndef PLAIT_NCCL_ALGORITHM_H
#define PLAIT_NCCL_ALGORITHM_H

#include "call.h"

/*
 * The first algorithm of the call's list, or of NCCL_ALGO, that can run it. out is "" if there is no list, or none can
 * and the library is to choose. PLAIT_ERR_CONFIG: one must, and none can.
 */
enum plait_status nccl_algorithm_pick(const struct nccl_call *c, const struct plait_call *options, char out[64]);

#endif
