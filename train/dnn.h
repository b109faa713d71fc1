/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the CPU's device (device_cpu.c): layouts and operations by oneDNN (version 3), which only dnn*.c know. */
#ifndef PLAIT_TRAIN_DNN_H
#define PLAIT_TRAIN_DNN_H

#include "device.h"

#include <oneapi/dnnl/dnnl.h>

struct dnn_layout {
    struct device_layout layout;
    dnnl_memory_desc_t desc;
    struct dnn_layout *next;
};

struct dnn_op {
    struct device_op op;
    struct dnn_op *next;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[NARG]; /* of the arguments that it has */
    dnnl_memory_t scratch;      /* NULL: it needs none */

    /* Of a forward operation that has a backward form: */
    struct device_op *(*back)(const struct dnn_op *forward, enum device_arg result);
    struct device_convolution convolution;
    struct device_pool pool;
    unsigned norm; /* flags */

    uint32_t images; /* of an operation that dnn_images() made */
};

struct dnn_block { /* of memory */
    void *memory;
    size_t bytes;
    struct dnn_block *next;
};

struct dnn {
    struct device device;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t plain, adding;
    dnnl_data_type_t type;        /* of activations and weights */
    dnnl_format_tag_t activation; /* layout in which convolutions are fastest here */
    unsigned threads;
    struct dnn_layout *layouts;
    struct dnn_op *ops;
    struct dnn_block *blocks;
};

/* ---- Functions of the device, as device.h has them ---- */

struct device *dnn_create(const struct device_options *options);
void dnn_destroy(struct device *device);
void dnn_begin(struct device *device);
const struct device_layout *dnn_layout(struct device *device, enum device_order order, enum precision type,
                                       uint32_t ndim, const uint32_t *shape);
void dnn_run(struct device_op *op, void *const at[NARG], void *scratch);
struct device_op *dnn_convolution(struct device *device, const struct device_convolution *shape);
/* As if nothing were added: the operation only has the layouts of the further arguments. */
struct device_op *dnn_norm(struct device *device, const struct device_layout *layout, enum device_norm norm,
                           enum device_fused fused);
struct device_op *dnn_pool(struct device *device, const struct device_pool *shape, bool training);
struct device_op *dnn_product(struct device *device, const struct device_product *shape);
struct device_op *dnn_reorder(struct device *device, const struct device_layout *from, const struct device_layout *to,
                              bool add);
struct device_op *dnn_back(const struct device_op *forward, enum device_arg result);
struct device_op *dnn_images(struct device *device, const struct device_images *shape, const struct device_layout *to);
uint32_t dnn_images_count(const struct device_op *op);

/* ---- Shared by dnn.c and dnn_convolution.c ---- */

static inline struct dnn *dnn_of(struct device *device)
{
    return (struct dnn *)device;
}

static inline dnnl_memory_desc_t dnn_desc(const struct device_layout *layout)
{
    return ((const struct dnn_layout *)layout)->desc;
}

void dnn_must(dnnl_status_t status, const char *what);

/* forward: of a backward operation; else NULL */
struct dnn_op *dnn_op_create(struct dnn *dnn, dnnl_primitive_desc_t desc, const struct dnn_op *forward,
                             const char *what);

dnnl_memory_desc_t dnn_tensor4(struct dnn *dnn, uint32_t n, uint32_t c, uint32_t h, uint32_t w, dnnl_data_type_t type,
                               dnnl_format_tag_t tag);

/* Blocked channels or channels last, whichever oneDNN chooses for a typical convolution. */
dnnl_format_tag_t dnn_fastest_layout(struct dnn *dnn);

#endif
