/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include "error.h"

ncclResult_t nccl_stream_check(struct ncclComm *comm, cudaStream_t stream, const char *call)
{
    if (stream == NULL)
        return ncclSuccess;
    return nccl_fail(ncclInvalidUsage, comm,
                     "%s: stream is %p: without CUDA memory is the host's and the stream must be NULL", call,
                     (void *)stream);
}

int nccl_device_now(void)
{
    return 0;
}

/* A number for the caller's own use: the host has no devices. */
ncclResult_t nccl_device_check(int device, const char *call)
{
    if (device >= 0)
        return ncclSuccess;
    return nccl_fail(ncclInvalidArgument, NULL, "%s: device %d: must be 0 or more", call, device);
}
