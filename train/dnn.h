/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Convolutions, batch norm, pooling and matrix products on CPUs, as operations that are created once and run often.
 * dnn.c implements them by oneDNN (version 3, C API), and is the only file that knows it.
 *
 * A layout is how a tensor lies in memory. Activations and their gradients share the layout in which this processor
 * convolves fastest, so none is reordered between layers. Weights have the layout that each convolution wants, and are
 * reordered from and to the caller's plain layout. The caller owns the memory. What oneDNN cannot do ends the program
 * with a message.
 *
 * Thread: a struct dnn and what is created from it belong to one thread; several threads may have one each.
 */
#ifndef PLAIT_TRAIN_DNN_H
#define PLAIT_TRAIN_DNN_H

#include "model.h"

struct dnn;
struct dnn_layout;
struct dnn_op;

enum { DNN_ALIGNMENT = 64 }; /* of a buffer, in bytes */

/** threads: number that an operation uses */
struct dnn *dnn_create(enum precision precision, unsigned threads);
/** Also destroys all layouts and operations created from it. */
void dnn_destroy(struct dnn *dnn);
/** Call before each pass: the number of threads is a setting of the calling thread. */
void dnn_begin(const struct dnn *dnn);
/** Scratch bytes that an operation needs: the maximum over all created so far. */
size_t dnn_scratch(const struct dnn *dnn);
/** Can oneDNN compute in bf16 on this processor? Does the processor do so without emulation? */
bool dnn_has_bf16(void);
bool dnn_bf16_fast(void);

/* ---- Layouts ---- */

/** Layout of an activation, in the precision of the passes. */
const struct dnn_layout *dnn_activation(struct dnn *dnn, uint32_t n, uint32_t channels, uint32_t height,
                                        uint32_t width);
/** [n][height][width][channels] fp32 */
const struct dnn_layout *dnn_images(struct dnn *dnn, uint32_t n, uint32_t channels, uint32_t height, uint32_t width);
/** Row-major layout. */
const struct dnn_layout *dnn_plain(struct dnn *dnn, enum precision precision, uint32_t ndim, const uint32_t *shape);
size_t dnn_bytes(const struct dnn_layout *layout);
bool dnn_same(const struct dnn_layout *a, const struct dnn_layout *b);

/* ---- Operations ---- */

enum dnn_arg {
    DNN_SRC,
    DNN_DST,
    DNN_WEIGHTS,
    DNN_BIAS,
    DNN_MEAN,
    DNN_VARIANCE,
    DNN_SCALE,
    DNN_SHIFT,
    DNN_WORKSPACE, /* what the backward pass needs from the forward pass */
    DNN_DIFF_SRC,
    DNN_DIFF_DST,
    DNN_DIFF_WEIGHTS,
    DNN_DIFF_SCALE,
    DNN_DIFF_SHIFT,
    DNN_NARG
};

/** The layout of an argument; NULL: the operation has no such argument. */
const struct dnn_layout *dnn_layout(const struct dnn_op *op, enum dnn_arg arg);
/** Arguments that the operation does not have are ignored. scratch: dnn_scratch() bytes. */
void dnn_run(struct dnn_op *op, void *const at[DNN_NARG], void *scratch);

struct dnn_convolution {
    uint32_t n, in, out; /* channels */
    uint32_t height, width, kernel, stride, pad;
    bool images; /* input is the images: its layout is free, and it gets no gradient */
};

/** SRC, WEIGHTS -> DST */
struct dnn_op *dnn_convolution(struct dnn *dnn, const struct dnn_convolution *shape);
/** DIFF_DST, WEIGHTS -> DIFF_SRC */
struct dnn_op *dnn_convolution_back_data(struct dnn *dnn, const struct dnn_convolution *shape,
                                         const struct dnn_op *forward);
/** SRC, DIFF_DST -> DIFF_WEIGHTS (fp32) */
struct dnn_op *dnn_convolution_back_weights(struct dnn *dnn, const struct dnn_convolution *shape,
                                            const struct dnn_op *forward);

enum dnn_norm {
    DNN_NORM_BATCH, /* batch statistics: MEAN and VARIANCE are results */
    DNN_NORM_GIVEN, /* MEAN and VARIANCE are given, and constants in the backward pass */
    DNN_NORM_ONLY   /* as GIVEN, without a backward pass */
};

/** SRC, SCALE, SHIFT -> DST, WORKSPACE (with relu); src and dst may be the same with DNN_NORM_ONLY. */
struct dnn_op *dnn_norm(struct dnn *dnn, const struct dnn_layout *layout, enum dnn_norm norm, bool relu);
/** SRC, MEAN, VARIANCE, SCALE, WORKSPACE, DIFF_DST -> DIFF_SRC, DIFF_SCALE, DIFF_SHIFT; in place too. */
struct dnn_op *dnn_norm_back(struct dnn *dnn, const struct dnn_layout *layout, enum dnn_norm norm, bool relu,
                             const struct dnn_op *forward);

struct dnn_pool {
    uint32_t n, channels, height, width, kernel, stride, pad;
    bool average; /* false: max pooling */
};

/** SRC -> DST, WORKSPACE (max pooling, training) */
struct dnn_op *dnn_pool(struct dnn *dnn, const struct dnn_pool *shape, bool training);
struct dnn_op *dnn_pool_back(struct dnn *dnn, const struct dnn_pool *shape, const struct dnn_op *forward);

struct dnn_product { /* fp32: DST [rows][columns] = SRC [rows][inner] x WEIGHTS [inner][columns] */
    uint32_t rows, inner, columns;
    bool src_columns, weights_columns; /* lie as [inner][rows], [columns][inner] */
    bool bias;                         /* + BIAS [columns] */
    bool add;                          /* add to DST */
};
struct dnn_op *dnn_product(struct dnn *dnn, const struct dnn_product *shape);

/** SRC -> DST, from one layout and type to another. add: add to DST. */
struct dnn_op *dnn_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to, bool add);

uint32_t dnn_pooled(uint32_t size, uint32_t kernel, uint32_t stride,
                    uint32_t pad); /* output pixels of a window of a convolution or pooling */

#endif
