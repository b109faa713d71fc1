/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the layers: helpers, and batch norm (layer_norm.c). */
#ifndef PLAIT_TRAIN_LAYER_PARTS_H
#define PLAIT_TRAIN_LAYER_PARTS_H

#include "layers.h"

void *layer_own(struct layer *layer, size_t bytes);

void layer_stage(struct environment *env, size_t bytes);

void layer_run(struct layer *layer, struct device_op *op, void *const at[NARG]);

const struct value *layer_value(const struct environment *env, uint32_t k);

/* Set the layout of a layer's output, which its gradient shares. */
const struct device_layout *layer_put_out(struct layer *layer);

/* Write, or add, a gradient that no operation wrote in place: the sum over the rows of `from`. */
void layer_give(const struct environment *env, void *gradient, const float *from, size_t rows, size_t n,
                bool accumulate);

/* Copy `n` master weights. */
void layer_take(const struct environment *env, float *weights, const float *master, size_t n);

void norm_create(struct layer *layer);

void norm_refresh(struct layer *layer, const float *const *masters);

void norm_forward(struct layer *layer, enum mode mode);

void norm_backward(struct layer *layer, void *const *gradients, bool accumulate);

#endif
