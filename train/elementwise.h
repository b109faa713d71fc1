/* SPDX-License-Identifier: BSD-3-Clause */
/* What batch norm and convolutions cannot do on the way: sums of activations or gradients, element by element. */
#ifndef PLAIT_TRAIN_ELEMENTWISE_H
#define PLAIT_TRAIN_ELEMENTWISE_H

#include "model.h"

struct elements { /* two tensors or three of the same layout */
    enum precision precision;
    unsigned threads;
    size_t n;
};

/** a = a + b */
void elements_add(struct elements e, void *a, const void *b);
/** a = max(a + b, 0) */
void elements_add_relu(struct elements e, void *a, const void *b);
/** Backward of it: a = out > 0 ? a + b : 0; b NULL: as zeros. */
void elements_back_relu(struct elements e, void *a, const void *b, const void *out);
/** to = from, rounded to nearest even */
void elements_round(uint16_t *to, const float *from, size_t n);
/** Whether all are finite. */
bool elements_finite(struct elements e, const void *a);

#endif
