/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows_body.h"

#include "kernel.cuh"

TRAIN_KERNEL(train_weights, train_weights, 4)
TRAIN_KERNEL(train_sum_rows, train_rows, 4)
TRAIN_KERNEL(train_fill_rows, train_rows, 4)
