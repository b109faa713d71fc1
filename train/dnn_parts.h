/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside dnn.h, over oneDNN: shared by dnn.c and dnn_convolution.c. */
#ifndef PLAIT_TRAIN_DNN_PARTS_H
#define PLAIT_TRAIN_DNN_PARTS_H

#include "dnn.h"

#include <oneapi/dnnl/dnnl.h>

struct dnn_layout {
    dnnl_memory_desc_t desc;
    struct dnn_layout *next;
};

struct slot {                        /* argument of an operation */
    const struct dnn_layout *layout; /* NULL: no such argument */
    dnnl_memory_t memory;
};

struct dnn_op {
    struct dnn *dnn;
    struct dnn_op *next;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    struct slot slots[DNN_NARG];
    dnnl_memory_t scratch; /* NULL: it needs none */
};

struct dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t plain, adding;
    dnnl_data_type_t type;        /* of activations and weights */
    dnnl_format_tag_t activation; /* layout in which convolutions are fastest here */
    unsigned threads;
    size_t scratch;
    struct dnn_layout *layouts;
    struct dnn_op *ops;
};

void dnn_must(dnnl_status_t status, const char *what);

struct dnn_op *dnn_op_create(struct dnn *dnn, dnnl_primitive_desc_t desc, const char *what);

const struct dnn_layout *dnn_tensor4(struct dnn *dnn, uint32_t n, uint32_t c, uint32_t h, uint32_t w,
                                     dnnl_data_type_t type, dnnl_format_tag_t tag);

/* Blocked channels or channels last, whichever oneDNN chooses for a typical convolution. */
dnnl_format_tag_t dnn_fastest_layout(struct dnn *dnn);

#endif
