/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuDNN 9 and cuBLAS, loaded when asked for and never linked: convolution.h and product.h compute by them, in the order
 * of the GPU's stream. One thread at a time may use what belongs to a `struct libraries`.
 *
 * Functions return NULL, or an error text with its remedy, valid until the thread's next one.
 */
#ifndef PLAIT_TRAIN_CUDA_LIBRARIES_H
#define PLAIT_TRAIN_CUDA_LIBRARIES_H

#include "cublas12.h"
#include "cudnn9.h"
#include "gpu.h"

struct convolution;

struct libraries {
    struct gpu gpu;
    struct cudnn_functions cudnn;
    struct cublas_functions blas;
    char cudnn_file[512], blas_file[512];
    char cudnn_version[24], blas_version[24]; /* such as "9.19.0" */
    void *dnn, *products;                     /* handles of cuDNN and cuBLAS */
    void *workspace;                          /* of cuBLAS */
    cudnn_descriptor described;       /* NULL, or the GPU that plans are for without one (libraries_describe()) */
    struct convolution *convolutions; /* all that were made */
};

/**
 * Load both libraries and make them work on the GPU's stream. Its context is current.
 *
 * folder  look for the libraries there only; NULL: where find.h says
 */
const char *libraries_create(const struct gpu *gpu, const char *folder, struct libraries **out);
/** When all work is done; and all convolutions. NULL is allowed. */
void libraries_destroy(struct libraries *libraries);

/**
 * cuDNN alone, without a GPU: convolutions are planned for the one that `json` describes, as
 * CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION has it, and cannot run. Needs cuDNN 9.8.
 */
const char *libraries_describe(const char *json, const char *folder, struct libraries **out);

/** The error text of a call of cuDNN that failed, which added `more` to its status. */
const char *libraries_why(const struct libraries *libraries, const char *call, int status, const char *more);

#endif
