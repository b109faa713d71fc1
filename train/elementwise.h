/* SPDX-License-Identifier: BSD-3-Clause */
/* Element-by-element operations that oneDNN's batch norm and convolutions cannot fuse. */
#ifndef PLAIT_TRAIN_ELEMENTWISE_H
#define PLAIT_TRAIN_ELEMENTWISE_H

#include "model.h"

struct elements { /* of two or three tensors with the same layout */
    enum precision precision;
    unsigned threads;
    size_t n;
};

/** a = a + b */
void elements_add(struct elements e, void *a, const void *b);
/** a = max(a + b, 0) */
void elements_add_relu(struct elements e, void *a, const void *b);
/** Its backward pass: a = out > 0 ? a + b : 0; b NULL: as zeros. */
void elements_back_relu(struct elements e, void *a, const void *b, const void *out);
/** to = from, rounded to nearest even */
void elements_round(uint16_t *to, const float *from, size_t n);
/** Are all elements finite? */
bool elements_finite(struct elements e, const void *a);

#endif
