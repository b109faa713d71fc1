/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs kernel bodies on the host, one thread after the other, for tests and the stand-in of tests/cuda. */
#ifndef PLAIT_CUDA_HOST_H
#define PLAIT_CUDA_HOST_H

#include "kernels.h"

struct plait_cuda_host {
    const char *name;
    size_t bytes; /* of the argument */
    uint32_t threads;
    void (*run)(const void *argument, uint32_t nblock);
};

/* Number of 16-byte accesses by this thread's runs. */
extern _Thread_local uint64_t plait_cuda_nline;

/* NULL: no such kernel. */
const struct plait_cuda_host *plait_cuda_host_find(const char *name);

#endif
