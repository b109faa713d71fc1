/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Residual networks: one pass forward and one backward over one batch of images, on CPUs.
 *
 *     model.c      the table of networks, their tensors, memory planned once, the two passes
 *     layers.c     what a layer does, in terms of
 *     dnn.h        convolutions, batch norm, pooling, products: dnn.c is the only file that knows oneDNN
 *
 * Tensors of a network have torchvision's names, shapes and order (conv1.weight, bn1.weight, bn1.bias, layer1.0.conv1.weight,
 * ...). Masters and gradients are plain arrays in the caller's memory; what a pass computes with is made from the masters by
 * model_refresh(). A program's functions: they end the process with a message when memory is short.
 */
#ifndef PLAIT_TRAIN_MODEL_H
#define PLAIT_TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;

enum precision {
    PRECISION_FP32,
    PRECISION_BF16 /* activations and weights; batch norm's statistics, sums and masters are fp32 */
};

struct model_options {
    const char *name; /* resnet20 (CIFAR form), resnet18, resnet34, resnet50, resnet101; see model_names() */
    uint32_t nclass;
    uint32_t pixels; /* of a side of an image */
    uint32_t batch;  /* images of a pass */
    enum precision precision;
    enum precision gradients; /* as model_backward() writes them; bf16: never accumulated */
    unsigned threads;
    bool training; /* false: forward in evaluation only, without the memory for the way back */
    /* Synchronised batch norm: adds up [n] floats over all ranks, in place; NULL: the statistics are of this pass's images. */
    void (*sum)(void *context, float *values, size_t n);
    uint32_t nsum; /* passes that sum() adds up */
    void *context;
};

enum tensor_kind { TENSOR_WEIGHT, TENSOR_BIAS, TENSOR_NORM }; /* NORM: scale and shift of a batch norm */

struct tensor { /* that is learnt */
    char name[64];
    enum tensor_kind kind;
    uint32_t ndim;
    uint32_t shape[4]; /* convolution: out, in, height, width; product: out, in; else: channels */
    size_t count;
};

struct statistic { /* of a batch norm; two for each: NAME.running_mean and NAME.running_var */
    char name[64];
    uint32_t count;
    float *running;     /* [count] what evaluation uses; the caller changes it between passes */
    const float *batch; /* [count] of the latest pass in training; variances are unbiased, as PyTorch's running ones */
};

struct model_memory {   /* bytes */
    size_t activations; /* and their gradients: the peak, after reuse */
    size_t weights;     /* as computed with */
    size_t workspaces;
};

/** Names of the networks, NULL at the end. */
const char *const *model_names(void);

/** NULL: options.name is no network, or pixels too few: a message names what is possible. */
struct model *model_create(const struct model_options *options);
void model_destroy(struct model *model);

uint32_t model_ntensor(const struct model *model);
const struct tensor *model_tensor(const struct model *model, uint32_t k);
uint32_t model_nstatistic(const struct model *model);
struct statistic *model_statistic(struct model *model, uint32_t k);
struct model_memory model_memory(const struct model *model);

/** Order in which gradients appear on the way back: [ntensor] numbers of tensors. */
const uint32_t *model_backward_order(const struct model *model);

/**
 * Initial weights, the same on every rank for the same seed: convolutions He et al. 2015 (normal, fan out), norms 1 and 0, the
 * product as torchvision; zero_last: the last norm's scale of each block 0 (Goyal et al. 2017). Statistics 0 and 1.
 */
void model_initialise(struct model *model, uint64_t seed, bool zero_last, float *const *masters);

/** The masters changed: make of them what passes compute with. masters: [ntensor] */
void model_refresh(struct model *model, const float *const *masters);

struct model_result {
    double loss; /* sum over the labelled images, smoothing included */
    uint32_t n;  /* labelled images */
    uint32_t top1, top5;
};

/**
 * Forward.
 *
 * images    [batch][pixels][pixels][3] normalised
 * labels    [batch] classes from 0; -1: no image lies there (evaluation only)
 * training  true: batch norm by the batch's own statistics, and what the way back needs is kept
 * smoothing of labels: 0 to below 1
 */
void model_forward(struct model *model, const float *images, const int32_t *labels, bool training, double smoothing,
                   struct model_result *result);

/** [batch][nclass] of the latest forward pass, fp32. */
const float *model_logits(const struct model *model);

/**
 * Backward, after a forward pass in training: gradients of (scale x the mean loss over the batch).
 *
 * gradients  [ntensor] where each is written, of options.gradients, or, accumulate, added
 * ready      called as each one is complete, in model_backward_order(); NULL: nothing
 */
void model_backward(struct model *model, double scale, void *const *gradients, bool accumulate,
                    void (*ready)(void *context, uint32_t tensor), void *context);

/** Whether the processor computes bf16; otherwise it is emulated, at half the speed of fp32. */
bool model_bf16_fast(void);

/** The convolutions alone, forward and backward, of what lies in memory: what a step takes at least. After a pass in
 *  training; its results are lost. */
void model_convolve(struct model *model);
/** Bytes of the inputs of all batch norms, which these read and write again and again whatever else is fused. */
size_t model_norm_bytes(const struct model *model);

/** The first layer of the latest forward pass in whose output an infinity or NaN is, by name; NULL: none. */
const char *model_first_nonfinite(const struct model *model);

#endif
