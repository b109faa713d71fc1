/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss on the host, for the CPU's device: as device.h says. */
#ifndef PLAIT_TRAIN_LOSS_H
#define PLAIT_TRAIN_LOSS_H

#include "device.h"

void loss_forward(struct device *device, const struct loss *loss, struct model_result *add);
void loss_backward(struct device *device, const struct loss *loss, float *gradient);

#endif
