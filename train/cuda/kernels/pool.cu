/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool_body.h"

#include "kernel.cuh"

TRAIN_KERNEL(train_pool_max, train_pool, 4)
TRAIN_KERNEL(train_pool_max_back, train_pool, 4)
TRAIN_KERNEL(train_pool_average, train_pool, 4)
TRAIN_KERNEL(train_pool_average_back, train_pool, 4)
