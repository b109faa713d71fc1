/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside a model: shared by model.c, model_plan.c and model_record.c. */
#ifndef PLAIT_TRAIN_MODEL_PARTS_H
#define PLAIT_TRAIN_MODEL_PARTS_H

#include "arena.h"
#include "layers.h"

struct wires { /* buffers of a layer; those of forward values are in `data` */
    uint32_t diff_out, diff_more, diff_in, workspace;
};

/* Work that is the same in every step of training: run directly once, then recorded as a graph, then repeated. */
struct piece {
    bool ran;
    struct device_graph *graph; /* NULL: not recorded yet */
};

struct recording {             /* model_record() */
    struct model_step step;    /* without ends */
    bool *ends;                /* [nnode] a piece of the backward pass ends with this node, */
    struct piece *backward[2]; /* [nnode] which is it; [1]: gradients are accumulated */
    struct piece forward, refresh;
};

struct model {
    struct model_options options;
    struct network *network;
    struct environment env;
    struct layer *layers;
    struct wires *wires; /* [nnode] */
    uint32_t *data;      /* [nvalue] buffers */
    struct arena arena;
    bool own_device;
    struct device_op *images;
    struct statistic *statistics;
    uint32_t nstatistic;
    uint32_t *order; /* of gradients */
    float *logits;   /* a copy of the device's */

    /* The device's memory: */
    float *batch;                /* [env.nstatistic] env.measured, unbiased */
    double *unbias;              /* [env.nstatistic] what that multiplies by */
    int32_t *labels;             /* of the latest forward pass */
    struct model_result *result; /* of passes since the last model_result() */

    double smoothing;
    enum mode mode; /* of the latest forward pass */

    struct recording *recording; /* NULL: every call puts its work on the device */
};

/* Plan the memory of activations and gradients, and allocate it. */
void model_plan(struct model *model);

/* Tell the layers where their buffers lie. */
void model_connect(struct model *model);

/* Which piece is this call, or which recording has its pieces? NULL: none. */
struct piece *piece_of_forward(const struct model *model, bool training);
struct piece *piece_of_refresh(const struct model *model, const float *const *masters);
struct recording *recording_of_backward(const struct model *model, const double *scale, void *const *gradients);
void recording_destroy(struct recording *recording); /* NULL is allowed */

#endif
