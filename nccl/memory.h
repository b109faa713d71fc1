/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of comms: registrations, and buffers for fused operations. */
#ifndef PLAIT_NCCL_MEMORY_H
#define PLAIT_NCCL_MEMORY_H

#include "comm.h"

/*
 * At least this many bytes of library memory, of the host or of the comm's GPU, valid until the next call; NULL: out of
 * memory. Device memory that streams and graphs use stays until nccl_memory_free().
 */
void *nccl_memory_pack(struct ncclComm *comm, enum nccl_pack_kind kind, size_t bytes);

/*
 * Free a destroyed comm's memory. Freeing device memory waits for all work on the device, and a failed comm's may
 * include a stream of another rank that never finishes. So a failed comm's memory is freed with the next comm that ends
 * in order.
 */
void nccl_memory_free(struct ncclComm *comm, bool in_order);

#endif
