/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix products by cuBLAS, in fp32 (struct device_product). */
#ifndef PLAIT_TRAIN_CUDA_PRODUCT_H
#define PLAIT_TRAIN_CUDA_PRODUCT_H

#include "device.h"

struct libraries;

/**
 * DST = SRC x WEIGHTS, in the stream's order; all are the GPU's memory. With shape.bias the caller has filled DST's
 * rows with the bias, and the product is added, as with shape.add.
 *
 * tf32    SRC and WEIGHTS may be rounded to TF32, for tensor cores
 * Result: NULL, or an error text with its remedy, valid until the thread's next one
 */
const char *product_run(struct libraries *libraries, const struct device_product *shape, bool tf32, const void *src,
                        const void *weights, void *dst);

#endif
