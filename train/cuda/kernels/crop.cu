/* SPDX-License-Identifier: BSD-3-Clause */
#include "crop_body.h"

#include "kernel.cuh"

TRAIN_KERNEL(train_crop_resize, train_crop, 2)
TRAIN_KERNEL(train_crop_colour, train_crop, 2)
