/* SPDX-License-Identifier: BSD-3-Clause */
#include "norm_body.h"

#include "kernel.cuh"

TRAIN_KERNEL(train_norm_sums, train_norm, 2)
TRAIN_KERNEL(train_norm_combine, train_norm, 2)
TRAIN_KERNEL(train_norm_forward, train_norm, 2)
TRAIN_KERNEL(train_norm_back_sums, train_norm, 2)
TRAIN_KERNEL(train_norm_back_combine, train_norm, 2)
TRAIN_KERNEL(train_norm_back, train_norm, 2)
