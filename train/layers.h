/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the nodes of a network do, forward and backward: one table row per kind. A layer has its weights and statistics; the
 * activations and gradients that it reads and writes lie where model.c tells it.
 */
#ifndef PLAIT_TRAIN_LAYERS_H
#define PLAIT_TRAIN_LAYERS_H

#include "dnn.h"
#include "elementwise.h"
#include "network.h"

struct environment { /* that the layers of a model share */
    struct dnn *dnn;
    const struct network *network;
    const struct dnn_layout *
        *layouts; /* [nvalue] of the values; a layer sets that of its output, the first also that of the images */
    enum precision precision, gradients;
    unsigned threads;
    uint32_t batch;
    bool training;
    void (*sum)(void *context, float *values, size_t n); /* of synchronised batch norm; NULL: it is not */
    uint32_t nsum;
    void *context;
    void *scratch;  /* dnn_scratch() bytes */
    float *staging; /* `staged` bytes: gradients as convolutions write them */
    size_t staged;
    size_t weights; /* bytes of all layers' own memory */
};

enum mode {
    MODE_TRAIN,
    MODE_EVALUATE,
    MODE_AGAIN /* the latest pass in training once more, with the statistics that it had */
};

struct norm_statistics { /* [channels] each */
    float *running_mean, *running_variance;
    float *mean, *variance; /* of the latest batch in training */
    float *unbiased;        /* that variance, as the running one wants it */
};

struct layer {
    const struct node *node;
    struct environment *env;
    /* Where what it reads and writes lies; set by model.c before a pass. */
    void *in, *in2, *out;
    void *diff_out;  /* the gradient of its output */
    void *diff_more; /* and a second part of it, when the output goes to two nodes; else NULL */
    void *diff_in;   /* where that of its input goes; may be diff_out; NULL: none is wanted */
    void *workspace;
    size_t workspace_bytes;
    /* Its operations and memory, by kind. */
    struct dnn_op *forward, *evaluate, *back, *back_weights;
    struct dnn_op *pack, *pack_back, *unpack, *unpack_add; /* weights and gradients from and to the plain ones */
    float *weights, *weights_back, *bias;                  /* norm: scale in weights, shift in bias */
    float *diff_scale, *diff_shift;                        /* product: shift alone, of the bias */
    /* Synchronised norm: statistics of the own images, and what the other ranks' change in the gradient. */
    struct dnn_op *measure, *correct;
    float *correct_scale, *correct_shift;
    struct norm_statistics statistics;
    void *owned; /* one allocation */
};

/** Its input's layout is known (but the images'). Afterwards its output's is, and workspace_bytes. */
void layer_create(struct layer *layer, struct environment *env, const struct node *node);
void layer_destroy(struct layer *layer);
/** masters: [ntensor] of the network */
void layer_refresh(struct layer *layer, const float *const *masters);
void layer_forward(struct layer *layer, enum mode mode);
/** gradients: [ntensor] of the network, of env->gradients; accumulate: fp32 only */
void layer_backward(struct layer *layer, void *const *gradients, bool accumulate);

/** A convolution alone, forward and backward, without what is reordered around it; other kinds: nothing. */
void layer_convolve(struct layer *layer);

/** The elements of a value. */
struct elements layer_elements(const struct environment *env, uint32_t value);
/** Memory aligned for an operation, or the end of the program. */
void *layer_memory(size_t bytes);

#endif
