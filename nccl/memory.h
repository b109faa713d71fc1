/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of comms: what is registered, and where fused operations are packed. */
#ifndef PLAIT_NCCL_MEMORY_H
#define PLAIT_NCCL_MEMORY_H

#include "comm.h"

/*
 * At least so many bytes of library memory, of the host or of the comm's GPU, until the next time; NULL: there are not.
 * What streams and graphs use of a GPU's stays until nccl_memory_free().
 */
void *nccl_memory_pack(struct ncclComm *comm, enum nccl_pack_kind kind, size_t bytes);

/*
 * The comm is gone. Freeing memory of a GPU waits for all that is there, which of a comm that has failed may be another
 * rank's stream that never passes: such a comm's goes with the next one that ends in order.
 */
void nccl_memory_free(struct ncclComm *comm, bool in_order);

#endif
