/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs, its export to other processes, and reach between GPUs, see lib/plugin/device.h. */
#ifndef PLAIT_CUDA_GPU_MEMORY_H
#define PLAIT_CUDA_GPU_MEMORY_H

#include "gpu.h"

#include "../lib/plugin/device.h"

const char *plait_cuda_locate(const void *memory, struct plait_location *out);
const char *plait_cuda_alloc(enum plait_memory kind, int device, size_t bytes, void **out);
const char *plait_cuda_free(enum plait_memory kind, void *memory);
const char *plait_cuda_export(const void *memory, struct plait_exported *out);
const char *plait_cuda_import(const struct plait_exported *memory, int device, void **out, bool *taken);
const char *plait_cuda_close_import(void *mapped);
const char *plait_cuda_enable_peer(int device, int other);

#endif
