/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread calls between ncclGroupStart() and ncclGroupEnd(). */
#ifndef PLAIT_NCCL_GROUP_H
#define PLAIT_NCCL_GROUP_H

#include "call.h"
#include "job.h"

bool nccl_group_is_open(void);

/*
 * A call of this comm in the open group that has its own `on`, of this stream; NULL: there is none. The last is looked
 * at.
 */
const struct nccl_call *nccl_group_stream(const struct ncclComm *comm, cudaStream_t stream);

/* Keep it until the end; the job is the group's from now on. */
ncclResult_t nccl_group_add(const struct nccl_call *c);
void nccl_group_add_job(struct nccl_job *job);

/* An error of a call in an open group is the group's too. Answers `result`. */
ncclResult_t nccl_group_refuse(ncclResult_t result);

#endif
