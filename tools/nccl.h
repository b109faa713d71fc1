/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --nccl: what libnccl.so.2 has of NCCL. */
#ifndef PLAIT_TOOLS_NCCL_H
#define PLAIT_TOOLS_NCCL_H

void print_nccl(void);

#endif
