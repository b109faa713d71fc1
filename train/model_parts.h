/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside a model: shared by model.c and model_plan.c. */
#ifndef PLAIT_TRAIN_MODEL_PARTS_H
#define PLAIT_TRAIN_MODEL_PARTS_H

#include "arena.h"
#include "layers.h"

struct wires { /* buffers of a layer; those of forward values are in `data` */
    uint32_t diff_out, diff_more, diff_in, workspace;
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
};

/* Plan the memory of activations and gradients, and allocate it. */
void model_plan(struct model *model);

/* Tell the layers where their buffers lie. */
void model_connect(struct model *model);

#endif
