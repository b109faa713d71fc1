/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a thread between ncclGroupStart() and ncclGroupEnd(). */
#ifndef PLAIT_NCCL_GROUP_H
#define PLAIT_NCCL_GROUP_H

#include "call.h"
#include "job.h"

bool nccl_group_is_open(void);

/* The last call of this comm in the open group that owns its `on` and is on this stream; NULL: none. */
const struct nccl_call *nccl_group_stream(const struct ncclComm *comm, cudaStream_t stream);

/* Keep the job until the end of the group, which then owns it. */
ncclResult_t nccl_group_add(const struct nccl_call *c);
void nccl_group_add_job(struct nccl_job *job);

/* An error of a call in an open group is also the group's. Returns `result`. */
ncclResult_t nccl_group_refuse(ncclResult_t result);

#endif
