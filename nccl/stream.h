/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA's streams, and which device is whose.
 *
 * A call is put on its stream where its buffers are memory of a GPU, and returns then; NULL is the default stream of
 * the comm's GPU. Buffers of the host go with the stream NULL, and such a call returns when it is done; if they are
 * memory that the driver knows (pinned, managed) it waits for the default stream first. A process that has loaded no
 * driver has no streams.
 */
#ifndef PLAIT_NCCL_STREAM_H
#define PLAIT_NCCL_STREAM_H

#include "call.h"

/* Find out where this call goes: its `on`, for nccl_stream_close(). */
ncclResult_t nccl_stream_open(struct nccl_call *c, cudaStream_t stream);
void nccl_stream_close(struct nccl_call *c);

/* Are its buffers memory of that GPU? Its operation would say so; what is fused is copied before. */
ncclResult_t nccl_stream_check(const struct nccl_call *c);

/* What must have happened before it runs has happened. */
enum plait_status nccl_stream_wait(const struct nccl_call *c);

/* The device of the calling thread; *gpu: it is a GPU that this process uses. */
ncclResult_t nccl_device_now(const char *call, int *device, bool *gpu);

/* May a rank be on it? */
ncclResult_t nccl_device_check(int device, bool gpu, const char *call);

#endif
