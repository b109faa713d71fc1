/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_small_model.h"

#include <stdio.h>
#include <string.h>

static struct tensor tensor(const char *name, enum tensor_kind kind, uint32_t ndim, const uint32_t *shape)
{
    struct tensor t = { .kind = kind, .ndim = ndim, .count = 1 };

    snprintf(t.name, sizeof t.name, "%s", name);
    for (uint32_t d = 0; d < ndim; d++) {
        t.shape[d] = shape[d];
        t.count *= shape[d];
    }
    return t;
}

void small_model(struct model *m, uint32_t nclass, float fill)
{
    memset(m, 0, sizeof *m);
    m->nclass = nclass;
    m->tensors[0] = tensor("conv1.weight", TENSOR_WEIGHT, 4, (const uint32_t[]){ 2, 3, 2, 1 });
    m->tensors[1] = tensor("bn1.weight", TENSOR_NORM, 1, (const uint32_t[]){ 2 });
    m->tensors[2] = tensor("bn1.bias", TENSOR_NORM, 1, (const uint32_t[]){ 2 });
    m->tensors[3] = tensor("fc.weight", TENSOR_WEIGHT, 2, (const uint32_t[]){ nclass, 2 });
    m->tensors[4] = tensor("fc.bias", TENSOR_BIAS, 1, &nclass);
    for (uint32_t t = 0; t < SMALL_NTENSOR; t++) {
        m->masters[t] = m->values[t];
        m->momenta[t] = m->momentum[t];
        for (size_t i = 0; i < m->tensors[t].count; i++, fill += 1) {
            m->values[t][i] = fill;
            m->momentum[t][i] = -fill / 3;
        }
    }
    for (uint32_t s = 0; s < SMALL_NSTATISTIC; s++) {
        m->statistics[s] = (struct statistic){ .count = 2, .start = s * SMALL_MOST };
        snprintf(m->statistics[s].name, sizeof m->statistics[s].name, "bn1.running_%s", s == 0 ? "mean" : "var");
        for (uint32_t i = 0; i < 2; i++, fill += 1)
            m->running[s][i] = fill;
    }
}

bool small_models_are_equal(const struct model *a, const struct model *b)
{
    return memcmp(a->values, b->values, sizeof a->values) == 0 &&
           memcmp(a->momentum, b->momentum, sizeof a->momentum) == 0 &&
           memcmp(a->running, b->running, sizeof a->running) == 0;
}

uint32_t model_ntensor(const struct model *model)
{
    (void)model;
    return SMALL_NTENSOR;
}

const struct tensor *model_tensor(const struct model *model, uint32_t k)
{
    return &model->tensors[k];
}

uint32_t model_nstatistic(const struct model *model)
{
    (void)model;
    return SMALL_NSTATISTIC;
}

const struct statistic *model_statistic(const struct model *model, uint32_t k)
{
    return &model->statistics[k];
}
