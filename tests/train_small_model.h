/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors of a small network behind model.h, for tests of what saves and loads them. */
#ifndef PLAIT_TESTS_TRAIN_SMALL_MODEL_H
#define PLAIT_TESTS_TRAIN_SMALL_MODEL_H

#include "model.h"

enum { SMALL_NTENSOR = 5, SMALL_NSTATISTIC = 2, SMALL_MOST = 32 };

struct model {
    uint32_t nclass;
    struct tensor tensors[SMALL_NTENSOR];
    struct statistic statistics[SMALL_NSTATISTIC];
    float values[SMALL_NTENSOR][SMALL_MOST], momentum[SMALL_NTENSOR][SMALL_MOST], running[SMALL_NSTATISTIC][SMALL_MOST];
    float *masters[SMALL_NTENSOR], *momenta[SMALL_NTENSOR]; /* point into the above */
};

/** conv1.weight [2, 3, 2, 1], bn1.weight [2], bn1.bias [2], fc.weight [nclass, 2], fc.bias [nclass]; bn1.running_mean and
 *  _var. Every number is different, by `fill`. It must not be moved. */
void small_model(struct model *model, uint32_t nclass, float fill);
/** The same bits in weights, statistics and momentum? */
bool small_models_are_equal(const struct model *a, const struct model *b);

#endif
