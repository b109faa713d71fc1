/* SPDX-License-Identifier: BSD-3-Clause */
/* What the nodes of a network mean, written as plainly as possible, in double, [n][channels][height][width]. */
#ifndef PLAIT_TESTS_TRAIN_REFERENCE_H
#define PLAIT_TESTS_TRAIN_REFERENCE_H

#include "network.h"

struct reference {
    const struct network *network;
    uint32_t batch;
    double **values, **gradients;              /* [nvalue] */
    double **tensors, **diffs;                 /* [ntensor] learnt, and their gradients */
    double **means, **variances;               /* [nnode] of norms: of the batch */
    double **running_mean, **running_variance; /* [nnode] evaluation takes these */
};

struct reference *reference_create(const struct network *network, uint32_t batch);
void reference_destroy(struct reference *reference);
size_t reference_count(const struct reference *reference, uint32_t value);
/** From values[0] on. */
void reference_forward(struct reference *reference, bool training);
/** From the gradient of the last node's output on; overwrites all others. */
void reference_backward(struct reference *reference);
/** The sum over the images; gradient NULL or [n][nclass] of the mean. */
double reference_loss(const double *logits, const int32_t *labels, uint32_t n, uint32_t nclass, double smoothing,
                      double *gradient);

#endif
