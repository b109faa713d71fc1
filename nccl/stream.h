/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA streams and devices. A call with device buffers is enqueued on its stream and returns; NULL is the default
 * stream of the comm's GPU. Host buffers need stream NULL, and such a call returns when it is done. If the driver knows
 * that host memory (pinned, managed), the call waits for the default stream first. A process that has not loaded a
 * driver has no streams.
 */
#ifndef PLAIT_NCCL_STREAM_H
#define PLAIT_NCCL_STREAM_H

#include "call.h"

/* Find the stream of this call: `on`, for nccl_stream_close(). */
ncclResult_t nccl_stream_open(struct nccl_call *c, cudaStream_t stream);
void nccl_stream_close(struct nccl_call *c);

/* Are its buffers memory of that GPU? The operation would check it, but fused data is copied before. */
ncclResult_t nccl_stream_check(const struct nccl_call *c);

/* Wait for what must precede it. */
enum plait_status nccl_stream_wait(const struct nccl_call *c);

/* The calling thread's device; *gpu: it is a GPU that this process uses. */
ncclResult_t nccl_device_now(const char *call, int *device, bool *gpu);

/* May a rank use this device? */
ncclResult_t nccl_device_check(int device, bool gpu, const char *call);

#endif
