/* SPDX-License-Identifier: BSD-3-Clause */
#include "statistics.h"

#include "ending.h"
#include "tree.h"

#include <stdlib.h>

static const float weight = 0.1F; /* weight of a new value, as in PyTorch's batch norm */

struct statistics {
    struct plait_comm *comm;
    struct plait_stream *stream;
    struct device *device;
    uint32_t npass;
    size_t count;
    /* [count] of the device's memory: */
    float *running;     /* the model's */
    const float *batch; /* the model's */
    float *sum;         /* sums over the passes of a step; scratch memory between steps */
    float *own;         /* saved while the mean is in use; in a step, those at its start */
    struct tree tree;
};

struct statistics *statistics_create(struct model *model, struct plait_comm *comm, struct plait_stream *stream,
                                     uint32_t npass)
{
    struct statistics *s = allocate(1, sizeof *s);
    struct device *device = model_device(model);

    *s = (struct statistics){ .comm = comm,
                              .stream = stream,
                              .device = device,
                              .npass = npass,
                              .count = model_statistics_count(model),
                              .running = model_running(model),
                              .batch = model_batch(model) };
    s->sum = device->kind->alloc(device, s->count * sizeof *s->sum);
    s->own = device->kind->alloc(device, s->count * sizeof *s->own);
    if (npass > 0)
        tree_init(&s->tree, device, npass, s->count);
    return s;
}

void statistics_destroy(struct statistics *s)
{
    free(s);
}

static void copy(const struct statistics *s, float *to, const float *from)
{
    s->device->kind->sum(s->device, &(struct device_sum){ to, PRECISION_FP32, false, from, 1, s->count });
}

static void move(const struct statistics *s, const float *towards, float factor)
{
    s->device->kind->move(s->device, &(struct device_move){ s->running, towards, factor, weight, s->count });
}

static enum plait_status allreduce(const struct statistics *s, float *in, enum plait_op op, int reproducible)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.stream = s->stream;
    call.reproducible = reproducible;
    return plait_allreduce(s->comm, in, s->sum, s->count, PLAIT_FLOAT32, op, &call);
}

void statistics_begin(struct statistics *s)
{
    copy(s, s->own, s->running);
}

void statistics_undo(struct statistics *s)
{
    copy(s, s->running, s->own);
}

void statistics_pass(struct statistics *s, uint32_t k)
{
    float *place = s->npass > 0 ? tree_place(&s->tree, k) : NULL;

    place = place != NULL ? place : s->sum;
    if (s->npass == 0) {
        move(s, s->batch, 1);
        return;
    }
    copy(s, place, s->batch);
    tree_add(&s->tree, k, 0, s->count, place);
}

enum plait_status statistics_step(struct statistics *s)
{
    if (s->npass == 0)
        return PLAIT_OK;
    const enum plait_status status = allreduce(s, s->sum, PLAIT_SUM, 1);
    if (status == PLAIT_OK)
        move(s, s->sum, 1 / ((float)s->npass * (float)plait_comm_nrank(s->comm)));
    return status;
}

enum plait_status statistics_average(struct statistics *s)
{
    statistics_begin(s);
    const enum plait_status status = allreduce(s, s->own, PLAIT_AVG, 0);
    if (status == PLAIT_OK)
        copy(s, s->running, s->sum);
    return status;
}

void statistics_get(const struct statistics *s, float *host)
{
    s->device->kind->copy_out(s->device, host, s->running, s->count * sizeof *host);
}

void statistics_set(struct statistics *s, const float *host)
{
    s->device->kind->copy_in(s->device, s->running, host, s->count * sizeof *host);
}
