/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimiser's step on a GPU, see lib/plugin/device.h. */
#ifndef PLAIT_CUDA_OPTIM_H
#define PLAIT_CUDA_OPTIM_H

#include "gpu.h"

#include "../lib/plugin/device.h"

const char *plait_cuda_make_stepper(int device, const struct plait_model *model, struct plait_stepper **out);
void plait_cuda_free_stepper(struct plait_stepper *p);
const char *plait_cuda_step(struct plait_queue *q, const struct plait_stepper *p, const struct plait_stepping *s);
uint32_t plait_cuda_stepped(const struct plait_stepper *p, struct plait_optim_result *result);

#endif
