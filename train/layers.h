/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes of a network, forward and backward: one table row per kind. A layer owns its weights and statistics;
 * model.c decides where activations and gradients lie.
 */
#ifndef PLAIT_TRAIN_LAYERS_H
#define PLAIT_TRAIN_LAYERS_H

#include "dnn.h"
#include "elementwise.h"
#include "network.h"

struct environment { /* shared by the layers of a model */
    struct dnn *dnn;
    const struct network *network;
    const struct dnn_layout **layouts; /* [nvalue] a layer sets that of its output, the first also that of the images */
    enum precision precision, gradients;
    unsigned threads;
    uint32_t batch;
    bool training;
    void (*sum)(void *context, float *values, size_t n); /* of synchronised batch norm; NULL: not synchronised */
    uint32_t nsum;
    void *context;
    void *scratch;  /* [dnn_scratch()] bytes */
    float *staging; /* [staged] bytes: gradients in the layout that convolutions write */
    size_t staged;
    size_t weights; /* bytes of the layers' own memory */
};

enum mode {
    MODE_TRAIN,
    MODE_EVALUATE,
    MODE_AGAIN /* repeat the latest training pass with its statistics */
};

struct norm_statistics { /* [channels] each */
    float *running_mean, *running_variance;
    float *mean, *variance; /* of the latest training batch */
    float *unbiased;        /* that variance, unbiased, for the running variance */
};

struct layer {
    const struct node *node;
    struct environment *env;
    /* Inputs and outputs; model.c sets them before a pass: */
    void *in, *in2, *out;
    void *diff_out;  /* gradient of the output */
    void *diff_more; /* second part of that gradient when two nodes read the output; else NULL */
    void *diff_in;   /* gradient of the input; may be diff_out; NULL: not wanted */
    void *workspace;
    size_t workspace_bytes;
    /* Operations and memory, by kind of layer: */
    struct dnn_op *forward, *evaluate, *back, *back_weights;
    struct dnn_op *pack, *pack_back, *unpack, *unpack_add; /* reorder weights and gradients from and to plain layouts */
    float *weights, *weights_back, *bias;                  /* batch norm: scale in weights, shift in bias */
    float *diff_scale, *diff_shift;                        /* product: only shift, the bias's gradient */
    /* Synchronised batch norm: local statistics, and the correction of the gradient by the other ranks' images. */
    struct dnn_op *measure, *correct;
    float *correct_scale, *correct_shift;
    struct norm_statistics statistics;
    void *owned; /* one allocation for all of the above */
};

/** The layout of the input must be known (except of the images). Sets that of the output, and workspace_bytes. */
void layer_create(struct layer *layer, struct environment *env, const struct node *node);
void layer_destroy(struct layer *layer);
/** masters: [ntensor] of the network */
void layer_refresh(struct layer *layer, const float *const *masters);
void layer_forward(struct layer *layer, enum mode mode);
/** gradients: [ntensor] of the network, in env->gradients; accumulate: fp32 only */
void layer_backward(struct layer *layer, void *const *gradients, bool accumulate);

/** A convolution alone, forward and backward, without reorders; other kinds: nothing. */
void layer_convolve(struct layer *layer);

/** The elements of a value's tensor. */
struct elements layer_elements(const struct environment *env, uint32_t value);
/** Zeroed memory, aligned for operations; without memory the program ends. */
void *layer_memory(size_t bytes);

#endif
