/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights of a file as the start of a run. */
#ifndef PLAIT_TRAIN_WEIGHTS_H
#define PLAIT_TRAIN_WEIGHTS_H

#include "model.h"

struct plait_comm;

/**
 * Load weights and running statistics of a model from a file: a checkpoint of plait-train, or a state_dict of
 * torchvision's as safetensors (of any floating-point type; num_batches_tracked is skipped). After an error nothing is
 * changed.
 *
 * comm            rank 0 reads, the others get it from there; all get the same error. NULL: this process alone
 * masters         [ntensor] in host memory, as
 * statistics      where struct statistic says
 * new_classifier  true: keep the classifier's weights and bias, whatever the file has; false: refuse one of another
 *                 size
 * Returns NULL, or the error (why.h).
 */
const char *weights_load(const char *path, struct plait_comm *comm, const struct model *model, float *const *masters,
                         float *statistics, bool new_classifier);

#endif
