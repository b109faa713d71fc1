/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_parts.h"

#include "allocate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void model_record(struct model *model, const struct model_step *step)
{
    const uint32_t nnode = model->network->nnode;
    struct recording *r;

    if (model->env.device->kind->replay == NULL)
        return;
    assert(model->recording == NULL);
    r = model->recording = allocate(1, sizeof *r);
    r->step = *step;
    r->step.ends = NULL;
    r->ends = allocate(nnode, sizeof *r->ends);
    for (int k = 0; k < 2; k++)
        r->backward[k] = allocate(nnode, sizeof *r->backward[k]);
    for (uint32_t k = 0; step->ends != NULL && k < nnode; k++)
        for (uint32_t t = 0; t < model->network->nodes[k].ntensor; t++)
            r->ends[k] |= step->ends[model->network->nodes[k].tensor + t];
    r->ends[0] = true;
}

void recording_destroy(struct recording *r)
{
    if (r == NULL)
        return;
    for (int k = 0; k < 2; k++)
        free(r->backward[k]);
    free(r->ends);
    free(r);
}

/* Synchronised batch norm sums on the host. */
static struct recording *of_passes(const struct model *model)
{
    return model->env.sum == NULL ? model->recording : NULL;
}

struct piece *piece_of_forward(const struct model *model, bool training)
{
    struct recording *r = of_passes(model);

    return r != NULL && training && model->smoothing == r->step.smoothing ? &r->forward : NULL;
}

struct recording *recording_of_backward(const struct model *model, const double *scale, void *const *gradients)
{
    struct recording *r = of_passes(model);
    const size_t bytes = model->network->ntensor * sizeof *gradients;

    return r != NULL && model->smoothing == r->step.smoothing && scale == r->step.scale &&
                   memcmp(gradients, r->step.gradients, bytes) == 0
               ? r
               : NULL;
}

struct piece *piece_of_refresh(const struct model *model, const float *const *masters)
{
    struct recording *r = model->recording;
    const size_t bytes = model->network->ntensor * sizeof *masters;

    return r != NULL && memcmp(masters, r->step.masters, bytes) == 0 ? &r->refresh : NULL;
}
