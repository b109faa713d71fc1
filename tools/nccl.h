/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --nccl: which parts of NCCL libnccl.so.2 implements. */
#ifndef PLAIT_TOOLS_NCCL_H
#define PLAIT_TOOLS_NCCL_H

void print_nccl(void);

#endif
