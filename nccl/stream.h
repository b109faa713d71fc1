/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one place that knows of CUDA: streams, and which device is whose. Today there is none: calls work on memory of the
 * host, their stream is NULL, and they return when they are done.
 */
#ifndef PLAIT_NCCL_STREAM_H
#define PLAIT_NCCL_STREAM_H

#include "comm.h"

/* Can this call be put on this stream? */
ncclResult_t nccl_stream_check(struct ncclComm *comm, cudaStream_t stream, const char *call);

/* The device of the calling thread. */
int nccl_device_now(void);

/* May a rank be on it? */
ncclResult_t nccl_device_check(int device, const char *call);

#endif
