/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Residual networks: one forward and one backward pass over one batch of images, on a device.
 *
 *     model.c        memory planned once, the two passes
 *     model_record.c what of them becomes graphs of the device
 *     network.c      the table of networks, and their tensors
 *     layers.c       the layers, in terms of
 *     device.h       what a device must do; device_cpu.c does it on CPUs, cuda/ on GPUs
 *
 * Tensors have torchvision's names, shapes and order (conv1.weight, bn1.weight, bn1.bias, layer1.0.conv1.weight, ...).
 * Master weights, gradients and batch norm's statistics are plain arrays in the device's memory (the CPU's: any).
 * Everything else that the caller gives or gets is in host memory. model_refresh() derives from the masters what a pass
 * computes with. Passes are given to the device, which may run them later (device.h). Without memory the functions end
 * the program with a message.
 */
#ifndef PLAIT_TRAIN_MODEL_H
#define PLAIT_TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct model;

enum precision { /* of activations and weights; batch norm's statistics, sums and master weights are fp32 */
                 PRECISION_FP32,
                 PRECISION_BF16,
                 PRECISION_FP16 /* on GPUs only */
};

static inline size_t precision_size(enum precision precision)
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

struct model_options {
    struct device *device; /* the caller's (device.h); NULL: a CPU of the model's own */
    const char *name;      /* resnet20 (CIFAR form), resnet18, resnet34, resnet50, resnet101, resnet152 */
    uint32_t nclass;
    uint32_t pixels;              /* of a side of an image */
    uint32_t batch;               /* images of a pass */
    bool bytes;                   /* images are bytes, where the device takes them (device.h); else normalised floats */
    double mean[3], deviation[3]; /* of bytes, as fractions of 255 */
    enum precision precision;     /* the device's */
    enum precision gradients;     /* as model_backward() writes them; 16 bits: never accumulated */
    unsigned threads;             /* of a CPU of the model's own */
    bool training;                /* false: evaluation only, without memory for the backward pass */
    /* Synchronised batch norm: sums [n] floats (host) over all ranks, in place. NULL: statistics are of this pass. */
    void (*sum)(void *context, float *values, size_t n);
    uint32_t nsum; /* number of passes that sum() sums */
    void *context;
};

enum tensor_kind { TENSOR_WEIGHT, TENSOR_BIAS, TENSOR_NORM }; /* NORM: scale and shift of batch norm */

struct tensor { /* a learnt tensor */
    char name[64];
    enum tensor_kind kind;
    uint32_t ndim;
    uint32_t shape[4]; /* convolution: out, in, height, width; product: out, in; else: channels */
    size_t count;
};

struct statistic { /* of batch norm, two for each: NAME.running_mean and NAME.running_var */
    char name[64];
    uint32_t count;
    size_t start; /* its place in model_running() and model_batch() */
};

struct model_memory {   /* bytes */
    size_t activations; /* and their gradients: the peak, after reuse */
    size_t weights;     /* as computed with */
    size_t workspaces;
};

/** Names of the networks, NULL at the end. */
const char *const *model_names(void);

/** Returns NULL after a message: options.name is no network, or too few pixels. */
struct model *model_create(const struct model_options *options);
void model_destroy(struct model *model);

uint32_t model_ntensor(const struct model *model);
const struct tensor *model_tensor(const struct model *model, uint32_t k);
uint32_t model_nstatistic(const struct model *model);
const struct statistic *model_statistic(const struct model *model, uint32_t k);
/** Number of floats of all statistics together. */
size_t model_statistics_count(const struct model *model);
/** [model_statistics_count()] of the device's memory, used by evaluation. The caller changes them between passes. */
float *model_running(const struct model *model);
/** The same of the latest training pass. Variances are unbiased, like PyTorch's running variances. */
const float *model_batch(const struct model *model);
/** The device that computes. */
struct device *model_device(const struct model *model);
struct model_memory model_memory(const struct model *model);

/** Order in which gradients become ready in the backward pass: [ntensor] indices of tensors. */
const uint32_t *model_backward_order(const struct model *model);

/**
 * Set initial weights, the same on every rank for the same seed: convolutions as in He et al. 2015 (normal, fan out),
 * batch norms to 1 and 0, the classifier as torchvision. zero_last: the scale of each block's last batch norm starts at
 * 0 (Goyal et al. 2017). Running statistics are 0 and 1. masters: in host memory
 */
void model_initialise(struct model *model, uint64_t seed, bool zero_last, float *const *masters);

/** The master weights changed: derive what passes compute with. masters: [ntensor], the device's memory */
void model_refresh(struct model *model, const float *const *masters);

/**
 * Forward pass. The device may read images and labels later: model_wait_images() waits until they may be written again.
 *
 * images    [batch][pixels][pixels][3] floats, or bytes with options.bytes
 * labels    [batch] classes from 0; -1: no image (evaluation only)
 * training  true: batch norm uses the batch's statistics, and what the backward pass needs is kept
 * smoothing of labels: 0 to below 1
 */
void model_forward(struct model *model, const void *images, const int32_t *labels, bool training, double smoothing);
void model_wait_images(struct model *model);

struct model_result {
    double loss; /* sum over the labelled images, smoothing included */
    uint64_t n;  /* labelled images */
    uint64_t top1, top5;
};

/** Sums over the forward passes since the last call. Waits for them. */
struct model_result model_result(struct model *model);

/** [batch][nclass] of the latest forward pass, fp32. Valid until the next call. */
const float *model_logits(const struct model *model);

/**
 * Backward pass after a training forward pass: gradients of (scale x mean loss of the batch).
 *
 * scale      one number in the device's memory; NULL: 1
 * gradients  [ntensor] each in options.gradients, the device's memory; accumulate: added to what is there, else written
 * ready      called when a gradient is complete, or the work that completes it has been given to the device, in
 *            model_backward_order(); NULL: not called
 */
void model_backward(struct model *model, const double *scale, void *const *gradients, bool accumulate,
                    void (*ready)(void *context, uint32_t tensor), void *context);

struct model_step { /* arguments of the calls of training; what they point to, but `ends`, lives as long as the model */
    double smoothing;
    const double *scale;
    void *const *gradients;
    const float *const *masters;
    const bool *ends; /* [ntensor] a part of the backward pass ends with this tensor; NULL: it is one part */
};

/**
 * The device repeats as graphs (device.h) what is the same in every step: calls with the arguments of `step`. The first
 * such call puts its work on the device, the second one records it. The graphs are the forward pass after the images,
 * the backward pass in parts that end with the tensors in step->ends, and model_refresh(). The backward pass calls
 * ready() after each part. Calls with other arguments go on as before; so do passes with synchronised batch norm, and
 * everything on a device without graphs.
 *
 * Order: at most once, before the first step
 */
void model_record(struct model *model, const struct model_step *step);

/**
 * Run the convolutions alone, forward and backward, on what is in memory: a lower bound on a step's time. After a
 * training pass, whose results are lost.
 */
void model_convolve(struct model *model);
/** Bytes of the inputs of all batch norms, which must be read and written several times whatever is fused. */
size_t model_norm_bytes(const struct model *model);

/** The name of the first layer whose output in the latest forward pass has an infinity or NaN; NULL: none. Waits. */
const char *model_first_nonfinite(const struct model *model);

#endif
