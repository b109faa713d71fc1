/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Convolutions by cuDNN's backend API. Tensors are NHWC, weights [out][height][width][in], all dense, 16-byte aligned
 * and in one precision; sums are fp32. A plan is made when a convolution is, and a run neither allocates the GPU's
 * memory nor waits.
 */
#ifndef PLAIT_TRAIN_CUDA_CONVOLUTION_H
#define PLAIT_TRAIN_CUDA_CONVOLUTION_H

#include "device.h"

struct libraries;
struct convolution;

enum convolution_pass {
    CONVOLUTION_FORWARD,     /* x, w -> y */
    CONVOLUTION_BACK_DATA,   /* w, y (its gradient) -> x (its gradient) */
    CONVOLUTION_BACK_WEIGHTS /* x, y (its gradient) -> w (its gradient) */
};

struct convolution_wants {
    enum precision precision;
    bool tf32;             /* fp32: inputs may be rounded to TF32, for tensor cores */
    bool nondeterministic; /* the order of sums may differ from run to run */
    size_t most_workspace; /* bytes */
};

/**
 * The convolution of this shape, made now or before. It belongs to the libraries.
 *
 * Result: NULL, or an error text with its remedy, valid until the thread's next one
 * Cost: milliseconds; the first one a second, as cuDNN loads its engines
 */
const char *convolution_find(struct libraries *libraries, const struct device_convolution *shape,
                             enum convolution_pass pass, const struct convolution_wants *wants,
                             struct convolution **out);
/** Bytes of the workspace, which need no alignment beyond 16. */
size_t convolution_workspace(const struct convolution *convolution);
/** The chosen engine, for people: such as "engine 62 (tensor cores), choice 2". */
const char *convolution_engine(const struct convolution *convolution);
/** In the stream's order. All are the GPU's memory; what cuDNN wants of these pointers is kept. Result: as above */
const char *convolution_run(struct convolution *convolution, void *x, void *w, void *y, void *workspace);

void convolution_destroy_all(struct libraries *libraries);

#endif
