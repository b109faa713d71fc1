/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes of a network, forward and backward: one table row per kind. A layer owns its weights and statistics;
 * model.c decides where activations and gradients lie.
 */
#ifndef PLAIT_TRAIN_LAYERS_H
#define PLAIT_TRAIN_LAYERS_H

#include "device.h"
#include "network.h"

struct environment { /* shared by the layers of a model */
    struct device *device;
    const struct network *network;
    const struct device_layout **layouts; /* [nvalue] a layer sets its output's, the first also the images' */
    enum precision precision, gradients;
    uint32_t batch;
    bool training;
    void (*sum)(void *context, float *values, size_t n); /* of synchronised batch norm; NULL: not synchronised */
    uint32_t nsum;
    void *context;

    /* The device's memory: */
    void *scratch;             /* [device->scratch] bytes */
    void *staging;             /* [staged] bytes: gradients in the layout that convolutions write */
    float *measured, *running; /* [nstatistic] means and variances of each batch norm: of the latest batch; running */

    size_t staged;
    size_t weights;    /* bytes of the layers' own memory */
    size_t nstatistic; /* of the layers created so far */
};

enum mode {
    MODE_TRAIN,
    MODE_EVALUATE,
    MODE_AGAIN /* repeat the latest training pass with its statistics */
};

struct layer {
    const struct node *node;
    struct environment *env;
    /* Inputs and outputs, in the device's memory as all that follows; model.c sets them before a pass: */
    void *in, *in2, *out;
    void *diff_out;  /* gradient of the output; at the end of a block it becomes that of in2 */
    void *diff_more; /* second part of that gradient when two nodes read the output; else NULL */
    void *diff_in;   /* gradient of the input; may be diff_out; NULL: not wanted */
    void *workspace;
    size_t workspace_bytes;
    /* Operations and memory, by kind of layer: */
    struct device_op *forward, *evaluate, *back, *back_weights;
    struct device_op *pack, *pack_back, *unpack, *unpack_add; /* weights and gradients from and to plain layouts */
    float *weights, *weights_back, *bias;                     /* batch norm: scale in weights, shift in bias */
    float *diff_scale, *diff_shift;                           /* batch norm */
    size_t at;                                                /* batch norm: its place in the env's statistics */
    /* Synchronised batch norm: local statistics, and the correction of the gradient by the other ranks' images. */
    struct device_op *measure, *correct;
    float *correction; /* scale and shift */
    float *host;       /* host memory for what is summed over the ranks */
};

/** The layout of the input must be known (except of the images). Sets that of the output, and workspace_bytes. */
void layer_create(struct layer *layer, struct environment *env, const struct node *node);
void layer_destroy(struct layer *layer);
/** masters: [ntensor] of the network */
void layer_refresh(struct layer *layer, const float *const *masters);
void layer_forward(struct layer *layer, enum mode mode);
/** gradients: [ntensor] of the network, in env->gradients; accumulate: fp32 only */
void layer_backward(struct layer *layer, void *const *gradients, bool accumulate);

/** Fill in the factors that make variances in env->measured unbiased, as PyTorch's running ones. Batch norm only. */
void layer_unbias(const struct layer *layer, double *factors);

/** A convolution alone, forward and backward, without reorders; other kinds: nothing. */
void layer_convolve(struct layer *layer);

/** The elements of a value's tensor. */
struct elements layer_elements(const struct environment *env, uint32_t value);

#endif
