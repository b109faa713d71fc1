/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engine's steps become on a device's queue. */
#ifndef PLAIT_LIB_ENGINE_DEVICE_STEPS_H
#define PLAIT_LIB_ENGINE_DEVICE_STEPS_H

#include "operation/run.h"
#include "prog.h"

void plait_device_copy(struct plait_run *run, void *to, const void *from, size_t bytes);

/* dst = the combination of in->nsource sources `from`, of n elements. */
void plait_device_combine(struct plait_run *run, const struct plait_instr *in, void *dst, const void *const *from,
                          size_t n);

/* Multiply the inputs of a pre-multiplied sum; *in becomes where the products are. */
enum plait_status plait_device_scale(struct plait_comm *comm, const struct plait_job *job, size_t n, const void **in);

#endif
