/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim_body.h"

#include "kernel.cuh"

PLAIT_WARPS(plait_optim_squares, plait_cuda_optim, PLAIT_CUDA_THREADS, plait_optim_squares_phases,
             plait_optim_squares_body)
PLAIT_KERNEL(plait_optim_trust, plait_cuda_optim, PLAIT_CUDA_THREADS_TRUST, plait_optim_trust_phases,
             plait_optim_trust_body)
PLAIT_WARPS(plait_optim_update, plait_cuda_optim, PLAIT_CUDA_THREADS, plait_optim_update_phases,
             plait_optim_update_body)
