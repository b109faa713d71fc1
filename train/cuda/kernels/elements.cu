/* SPDX-License-Identifier: BSD-3-Clause */
#include "elements_body.h"

#include "kernel.cuh"

TRAIN_KERNEL(train_add, train_add, 2)
TRAIN_KERNEL(train_finite, train_finite, 2)
TRAIN_KERNEL(train_convert, train_convert, 2)
TRAIN_KERNEL(train_images, train_images, 2)
TRAIN_KERNEL(train_scale_vector, train_vector, 2)
TRAIN_KERNEL(train_move_vector, train_vector, 2)
