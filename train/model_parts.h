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
    struct device_op *images; /* reorder from the caller's layout to that of the first layer */
    struct statistic *statistics;
    float *measured, *running; /* copies of the device's: env.measured, unbiased, and env.running */
    uint32_t nstatistic;
    uint32_t *order; /* of gradients */
    int32_t *labels; /* of the latest forward pass; the device's memory */
    float *logits;   /* a copy of the device's */
    double smoothing;
    enum mode mode; /* of the latest forward pass */
};

/* Plan the memory of activations and gradients, and allocate it. */
void model_plan(struct model *model);

/* Tell the layers where their buffers lie. */
void model_connect(struct model *model);

#endif
