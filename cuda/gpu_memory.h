/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs, its export to other processes, and reach between GPUs, see lib/plugin/device.h. */
#ifndef PLAIT_CUDA_GPU_MEMORY_H
#define PLAIT_CUDA_GPU_MEMORY_H

#include "gpu.h"

#include "../lib/plugin/device.h"

const char *plait_cuda_place(const void *memory, struct plait_spot *out);
const char *plait_cuda_alloc(enum plait_memory kind, int device, size_t bytes, void **out);
const char *plait_cuda_free(enum plait_memory kind, void *memory);
const char *plait_cuda_export(const struct plait_spot *p, struct plait_handle *out);
const char *plait_cuda_map(const struct plait_handle *handle, int device, void **out, bool *taken);
const char *plait_cuda_unmap(void *mapped);
const char *plait_cuda_reach(int device, int other);

#endif
