/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of comms: what is registered, and where fused operations are packed. */
#ifndef PLAIT_NCCL_MEMORY_H
#define PLAIT_NCCL_MEMORY_H

#include "comm.h"

/* At least so many bytes of library memory, the comm's until nccl_memory_free(); NULL: there are not. */
void *nccl_memory_pack(struct ncclComm *comm, size_t bytes);

/* The comm is gone. */
void nccl_memory_free(struct ncclComm *comm);

#endif
