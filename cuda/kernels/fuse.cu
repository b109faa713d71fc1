/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuse_body.h"

#include "kernel.cuh"

PLAIT_KERNEL(plait_copies, plait_cuda_copies, PLAIT_CUDA_THREADS, plait_copies_phases, plait_copies_body)
PLAIT_WARPS(plait_pack, plait_cuda_pack, PLAIT_CUDA_THREADS, plait_pack_phases, plait_pack_body)
PLAIT_WARPS(plait_unpack, plait_cuda_pack, PLAIT_CUDA_THREADS, plait_unpack_phases, plait_unpack_body)
