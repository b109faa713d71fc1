/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's steps, enqueued on a device's queue. */
#ifndef PLAIT_LIB_ENGINE_DEVICE_STEPS_H
#define PLAIT_LIB_ENGINE_DEVICE_STEPS_H

#include "operation/run.h"
#include "prog.h"

void plait_device_copy(struct plait_run *run, void *to, const void *from, size_t bytes);

/* dst = the reduction of the in->nsource sources `from`, n elements each. */
void plait_device_combine(struct plait_run *run, const struct plait_instr *in, void *dst, const void *const *from,
                          size_t n);

/* Multiply or divide the inputs before they are summed. *in becomes the address of the results. */
enum plait_status plait_device_scale(struct plait_comm *comm, const struct plait_job *job, size_t n, const void **in);

#endif
