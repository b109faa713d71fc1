/* SPDX-License-Identifier: BSD-3-Clause */
#include "statistics.h"

#include "ending.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

static const float weight = 0.1F; /* weight of a new value, as in PyTorch's batch norm */

struct statistics {
    struct model *model;
    struct plait_comm *comm;
    uint32_t npass;
    size_t count;
    float *sum; /* [count] sums over the passes of a step; scratch memory between steps */
    float *own; /* [count] saved while the mean is in use; in a step, those at its start */
    struct tree tree;
};

struct statistics *statistics_create(struct model *model, struct plait_comm *comm, uint32_t npass)
{
    struct statistics *s = allocate(1, sizeof *s);

    *s = (struct statistics){ .model = model, .comm = comm, .npass = npass };
    for (uint32_t k = 0; k < model_nstatistic(model); k++)
        s->count += model_statistic(model, k)->count;
    s->sum = allocate(s->count, sizeof *s->sum);
    s->own = allocate(s->count, sizeof *s->own);
    if (npass > 0)
        tree_init(&s->tree, npass, s->count);
    return s;
}

void statistics_destroy(struct statistics *s)
{
    if (s == NULL)
        return;
    tree_finish(&s->tree);
    free(s->own);
    free(s->sum);
    free(s);
}

static void move(float *running, const float *towards, float factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        running[i] += weight * (factor * towards[i] - running[i]);
}

void statistics_begin(struct statistics *s)
{
    statistics_get(s, s->own);
}

void statistics_undo(struct statistics *s)
{
    statistics_set(s, s->own);
}

void statistics_pass(struct statistics *s, uint32_t k)
{
    float *place = s->npass > 0 ? tree_place(&s->tree, k) : NULL;
    size_t at = 0;

    place = place != NULL ? place : s->sum;
    for (uint32_t i = 0; i < model_nstatistic(s->model); i++) {
        const struct statistic *one = model_statistic(s->model, i);
        if (s->npass == 0)
            move(one->running, one->batch, 1, one->count);
        else
            memcpy(place + at, one->batch, one->count * sizeof *place);
        at += one->count;
    }
    if (s->npass > 0)
        tree_add(&s->tree, k, 0, s->count, place);
}

enum plait_status statistics_step(struct statistics *s)
{
    const float factor = 1 / ((float)s->npass * (float)plait_comm_nrank(s->comm));
    size_t at = 0;

    if (s->npass == 0)
        return PLAIT_OK;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    call.reproducible = 1;
    const enum plait_status status =
        plait_allreduce(s->comm, s->sum, s->sum, s->count, PLAIT_FLOAT32, PLAIT_SUM, &call);
    for (uint32_t i = 0; status == PLAIT_OK && i < model_nstatistic(s->model); i++) {
        const struct statistic *one = model_statistic(s->model, i);
        move(one->running, s->sum + at, factor, one->count);
        at += one->count;
    }
    return status;
}

enum plait_status statistics_average(struct statistics *s)
{
    statistics_begin(s);
    const enum plait_status status = plait_allreduce(s->comm, s->own, s->sum, s->count, PLAIT_FLOAT32, PLAIT_AVG, NULL);
    if (status == PLAIT_OK)
        statistics_set(s, s->sum);
    return status;
}

size_t statistics_count(const struct statistics *s)
{
    return s->count;
}

void statistics_get(const struct statistics *s, float *out)
{
    for (uint32_t i = 0; i < model_nstatistic(s->model); i++) {
        const struct statistic *one = model_statistic(s->model, i);
        memcpy(out, one->running, one->count * sizeof *out);
        out += one->count;
    }
}

void statistics_set(struct statistics *s, const float *values)
{
    for (uint32_t i = 0; i < model_nstatistic(s->model); i++) {
        const struct statistic *one = model_statistic(s->model, i);
        memcpy(one->running, values, one->count * sizeof *values);
        values += one->count;
    }
}
