/* SPDX-License-Identifier: BSD-3-Clause */
#include "loss_body.h"

#include "kernel.cuh"

TRAIN_KERNEL(train_loss, train_loss, 4)
TRAIN_KERNEL(train_loss_total, train_loss, 4)
TRAIN_KERNEL(train_loss_back, train_loss, 4)
