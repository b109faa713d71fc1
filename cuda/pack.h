/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing arrays into a payload and unpacking them on a GPU, see lib/plugin/device.h. */
#ifndef PLAIT_CUDA_PACK_H
#define PLAIT_CUDA_PACK_H

#include "gpu.h"

#include "../lib/plugin/device.h"

const char *plait_cuda_make_packing(int device, const struct plait_segment *segments, uint32_t n,
                                    enum plait_dtype payload, bool sums, struct plait_packing **out);
void plait_cuda_free_packing(struct plait_packing *p);
const char *plait_cuda_pack_into(struct plait_queue *q, const struct plait_packing *p, void *payload, double factor);
const char *plait_cuda_zero(struct plait_queue *q, const struct plait_packing *p, void *payload, uint32_t segment);
const char *plait_cuda_unpack_from(struct plait_queue *q, const struct plait_packing *p, void *payload, double factor);
bool plait_cuda_square_sum(const struct plait_packing *p, uint32_t segment, double *square);

#endif
