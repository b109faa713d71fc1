/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights of a file as the beginning of a run. */
#ifndef PLAIT_TRAIN_WEIGHTS_H
#define PLAIT_TRAIN_WEIGHTS_H

#include "model.h"

struct plait_comm;

/**
 * Put weights and running statistics of a file into a model: a checkpoint of ours, or a state_dict of torchvision's as
 * safetensors (of any type of float; num_batches_tracked is passed over). Nothing is changed after an error.
 * model_refresh() is the caller's.
 *
 * comm            rank 0 reads, the others get it from there; all get the same text. NULL: this process alone
 * masters         [ntensor]
 * new_classifier  true: the classifier's weights and bias stay as they are, whatever the file has; else one of another
 *                 size is refused
 * NULL, or why not (why.h)
 */
const char *weights_load(const char *path, struct plait_comm *comm, struct model *model, float *const *masters,
                         bool new_classifier);

#endif
