/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross entropy of the softmax, with smoothed labels. */
#ifndef PLAIT_TRAIN_LOSS_H
#define PLAIT_TRAIN_LOSS_H

#include "model.h"

struct loss {
    uint32_t n, nclass;
    const float *logits;   /* [n][nclass] */
    const int32_t *labels; /* [n] -1: no image */
    double smoothing;
};

void loss_forward(const struct loss *loss, struct model_result *result);
/** gradient: [n][nclass] of (factor x the sum over the labelled images) */
void loss_backward(const struct loss *loss, double factor, float *gradient);

#endif
