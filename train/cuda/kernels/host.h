/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs kernel bodies on the host, one thread after the other, for tests and the stand-in of tests/cuda. */
#ifndef PLAIT_TRAIN_CUDA_HOST_H
#define PLAIT_TRAIN_CUDA_HOST_H

#include "kernels.h"

#include "../../../cuda/kernels/host.h"

/* NULL: no such kernel. */
const struct plait_cuda_host *train_cuda_host_find(const char *name);

#endif
