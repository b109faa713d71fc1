/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors with which buckets of gradients become complete in a backward pass. */
#ifndef PLAIT_TRAIN_BUCKET_ENDS_H
#define PLAIT_TRAIN_BUCKET_ENDS_H

#include <plait/fusion.h>

#include <stdbool.h>

/**
 * [ntensor] true: with this tensor, as struct model_step wants it. free() frees it.
 *
 * fusion  its tensors, of one type, are in the order of model_backward_order()
 */
bool *bucket_ends(const struct plait_fusion *fusion, const uint32_t *order, uint32_t ntensor);

#endif
