/* SPDX-License-Identifier: BSD-3-Clause */
#include "dnn.h"

#include "allocate.h"
#include "network.h"
#include "program.h"

#include <assert.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

static const dnnl_dims_t dense = { 0 }; /* dilation of kernels: none */

/* oneDNN's names of the arguments; 0: it has no such argument. */
static const int names[NARG] = {
    [ARG_SRC] = DNNL_ARG_SRC,
    [ARG_DST] = DNNL_ARG_DST,
    [ARG_WEIGHTS] = DNNL_ARG_WEIGHTS,
    [ARG_BIAS] = DNNL_ARG_BIAS,
    [ARG_MEAN] = DNNL_ARG_MEAN,
    [ARG_VARIANCE] = DNNL_ARG_VARIANCE,
    [ARG_SCALE] = DNNL_ARG_SCALE,
    [ARG_SHIFT] = DNNL_ARG_SHIFT,
    [ARG_WORKSPACE] = DNNL_ARG_WORKSPACE,
    [ARG_DIFF_SRC] = DNNL_ARG_DIFF_SRC,
    [ARG_DIFF_DST] = DNNL_ARG_DIFF_DST,
    [ARG_DIFF_WEIGHTS] = DNNL_ARG_DIFF_WEIGHTS,
    [ARG_DIFF_SCALE] = DNNL_ARG_DIFF_SCALE,
    [ARG_DIFF_SHIFT] = DNNL_ARG_DIFF_SHIFT,
};

void dnn_must(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success)
        give_up(1, "oneDNN %d.%d cannot make %s (status %d); ONEDNN_VERBOSE=2 shows the request", dnnl_version()->major,
                dnnl_version()->minor, what, (int)status);
}

static bool has(unsigned isa)
{
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

bool device_cpu_has_bf16(void)
{
    return has(dnnl_cpu_isa_avx512_core);
}

bool device_cpu_bf16_fast(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

/* ---- Layouts ---- */

/* Takes ownership of desc. */
static const struct device_layout *layout_create(struct dnn *dnn, dnnl_memory_desc_t desc)
{
    struct dnn_layout *layout = allocate(1, sizeof *layout);

    *layout = (struct dnn_layout){ { dnnl_memory_desc_get_size(desc) }, desc, dnn->layouts };
    dnn->layouts = layout;
    return &layout->layout;
}

static const struct device_layout *layout_by_tag(struct dnn *dnn, int ndim, const dnnl_dims_t dims,
                                                 dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;

    dnn_must(dnnl_memory_desc_create_with_tag(&desc, ndim, dims, type, tag), "a layout");
    return layout_create(dnn, desc);
}

dnnl_memory_desc_t dnn_tensor4(struct dnn *dnn, uint32_t n, uint32_t c, uint32_t h, uint32_t w, dnnl_data_type_t type,
                               dnnl_format_tag_t tag)
{
    return dnn_desc(layout_by_tag(dnn, 4, (const dnnl_dims_t){ n, c, h, w }, type, tag));
}

static dnnl_data_type_t data_type(enum precision precision)
{
    return precision == PRECISION_BF16 ? dnnl_bf16 : dnnl_f32;
}

const struct device_layout *dnn_layout(struct device *device, enum device_order order, enum precision type,
                                       uint32_t ndim, const uint32_t *shape)
{
    struct dnn *dnn = dnn_of(device);
    dnnl_memory_desc_t desc;
    dnnl_dims_t dims = { 0 }, strides = { 0 };
    dnnl_dim_t stride = 1;

    for (uint32_t d = ndim; d-- > 0; stride *= shape[d]) {
        dims[d] = shape[d];
        strides[d] = stride;
    }
    if (order == ORDER_FASTEST)
        return layout_by_tag(dnn, (int)ndim, dims, data_type(type), dnn->activation);
    dnn_must(dnnl_memory_desc_create_with_strides(&desc, (int)ndim, dims, data_type(type), strides), "a plain layout");
    return layout_create(dnn, desc);
}

/* ---- Operations ---- */

/* NULL: the operation has no such argument. */
static const_dnnl_memory_desc_t argument(const_dnnl_primitive_desc_t op, enum device_arg arg)
{
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(op, dnnl_query_exec_arg_md, names[arg]);

    return desc == NULL || dnnl_memory_desc_get_size(desc) == 0 ? NULL : desc;
}

/* A layout that the forward operation has is not made again. */
static const struct device_layout *layout_of(struct dnn_op *op, enum device_arg arg, const_dnnl_memory_desc_t desc,
                                             const struct dnn_op *forward)
{
    const struct device_layout *there = forward == NULL ? NULL : forward->op.layouts[arg];
    dnnl_memory_desc_t own;

    if (there != NULL && dnnl_memory_desc_equal(dnn_desc(there), desc))
        return there;
    dnn_must(dnnl_memory_desc_clone(&own, desc), "a layout");
    return layout_create(dnn_of(op->op.device), own);
}

static void arg_init(struct dnn_op *op, enum device_arg arg, const struct dnn_op *forward)
{
    const_dnnl_memory_desc_t desc = argument(op->desc, arg);

    /* A batch norm backward describes a shift argument, but does not take it. */
    if (desc == NULL || (arg == ARG_SHIFT && argument(op->desc, ARG_DIFF_SHIFT) != NULL))
        return;
    op->op.layouts[arg] = layout_of(op, arg, desc, forward);
    dnn_must(dnnl_memory_create(&op->memory[arg], desc, dnn_of(op->op.device)->engine, DNNL_MEMORY_NONE),
             "an argument");
}

struct dnn_op *dnn_op_create(struct dnn *dnn, dnnl_primitive_desc_t desc, const struct dnn_op *forward,
                             const char *what)
{
    struct dnn_op *op = allocate(1, sizeof *op);
    const_dnnl_memory_desc_t scratch;

    op->op.device = &dnn->device;
    op->desc = desc;
    op->next = dnn->ops;
    dnn->ops = op;
    dnn_must(dnnl_primitive_create(&op->primitive, desc), what);
    for (unsigned arg = 0; arg < NARG; arg++)
        if (names[arg] != 0)
            arg_init(op, arg, forward);
    scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, DNNL_ARG_SCRATCHPAD);
    if (scratch != NULL && dnnl_memory_desc_get_size(scratch) > 0) {
        dnn_must(dnnl_memory_create(&op->scratch, scratch, dnn->engine, DNNL_MEMORY_NONE), "an argument");
        if (dnn->device.scratch < dnnl_memory_desc_get_size(scratch))
            dnn->device.scratch = dnnl_memory_desc_get_size(scratch);
    }
    return op;
}

static void op_destroy(struct dnn_op *op)
{
    for (unsigned arg = 0; arg < NARG; arg++)
        if (op->memory[arg] != NULL)
            dnnl_memory_destroy(op->memory[arg]);
    if (op->scratch != NULL)
        dnnl_memory_destroy(op->scratch);
    dnnl_primitive_destroy(op->primitive);
    dnnl_primitive_desc_destroy(op->desc);
    free(op);
}

void dnn_run(struct device_op *device_op, void *const at[NARG], void *scratch)
{
    const struct dnn_op *op = (const struct dnn_op *)device_op;
    dnnl_exec_arg_t args[NARG + 1];
    int narg = 0;

    for (unsigned arg = 0; arg < NARG; arg++) {
        if (op->memory[arg] == NULL)
            continue;
        assert(at[arg] != NULL);
        dnn_must(dnnl_memory_set_data_handle(op->memory[arg], at[arg]), "an argument");
        args[narg++] = (dnnl_exec_arg_t){ names[arg], op->memory[arg] };
    }
    if (op->scratch != NULL) {
        dnn_must(dnnl_memory_set_data_handle(op->scratch, scratch), "an argument");
        args[narg++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, op->scratch };
    }
    dnn_must(dnnl_primitive_execute(op->primitive, dnn_of(op->op.device)->stream, narg, args), "a result");
}

struct device_op *dnn_back(const struct device_op *device_op, enum device_arg result)
{
    const struct dnn_op *forward = (const struct dnn_op *)device_op;

    return forward->back(forward, result);
}

/* ---- Batch norm ---- */

static struct device_op *norm_back(const struct dnn_op *forward, enum device_arg result)
{
    struct dnn *dnn = dnn_of(forward->op.device);
    const dnnl_memory_desc_t layout = dnn_desc(forward->op.layouts[ARG_SRC]);
    dnnl_primitive_desc_t desc;
    struct dnn_op *op;

    (void)result;
    dnn_must(dnnl_batch_normalization_backward_primitive_desc_create(&desc, dnn->engine, dnnl_backward, layout, layout,
                                                                     layout, (float)NORM_EPSILON, forward->norm,
                                                                     forward->desc, dnn->plain),
             "a batch norm backward");
    op = dnn_op_create(dnn, desc, forward, "a batch norm backward");
    if (forward->op.layouts[ARG_ADDEND] != NULL)
        op->op.layouts[ARG_DST] = op->op.layouts[ARG_DIFF_MORE] = forward->op.layouts[ARG_DST];
    return &op->op;
}

struct device_op *dnn_norm(struct device *device, const struct device_layout *layout, enum device_norm norm,
                           enum device_fused fused)
{
    const dnnl_prop_kind_t kind = norm == NORM_ONLY ? dnnl_forward_inference : dnnl_forward_training;
    const unsigned flags = dnnl_use_scale | dnnl_use_shift | (norm == NORM_BATCH ? 0 : dnnl_use_global_stats) |
                           (fused == FUSED_RELU ? dnnl_fuse_norm_relu : 0);
    struct dnn *dnn = dnn_of(device);
    dnnl_primitive_desc_t desc;
    struct dnn_op *op;

    dnn_must(dnnl_batch_normalization_forward_primitive_desc_create(
                 &desc, dnn->engine, kind, dnn_desc(layout), dnn_desc(layout), (float)NORM_EPSILON, flags, dnn->plain),
             "a batch norm");
    op = dnn_op_create(dnn, desc, NULL, "a batch norm");
    op->back = norm_back;
    op->norm = flags;
    if (fused == FUSED_ADD_RELU)
        op->op.layouts[ARG_ADDEND] = op->op.layouts[ARG_DST];
    return &op->op;
}

/* ---- Pooling ---- */

struct pool_descs {
    dnnl_alg_kind_t kind;
    dnnl_memory_desc_t in, out;
    dnnl_dims_t kernel, strides, pads;
};

static struct pool_descs pool_describe(struct dnn *dnn, const struct device_pool *s)
{
    const uint32_t height = network_pooled(s->height, s->kernel, s->stride, s->pad);
    const uint32_t width = network_pooled(s->width, s->kernel, s->stride, s->pad);

    return (struct pool_descs){
        .kind = s->average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max,
        .in = dnn_tensor4(dnn, s->n, s->channels, s->height, s->width, dnn->type, dnn->activation),
        .out = dnn_tensor4(dnn, s->n, s->channels, height, width, dnn->type, dnn->activation),
        .kernel = { s->kernel, s->kernel },
        .strides = { s->stride, s->stride },
        .pads = { s->pad, s->pad },
    };
}

static struct device_op *pool_back(const struct dnn_op *forward, enum device_arg result)
{
    struct dnn *dnn = dnn_of(forward->op.device);
    const struct pool_descs d = pool_describe(dnn, &forward->pool);
    dnnl_primitive_desc_t desc;

    (void)result;
    dnn_must(dnnl_pooling_backward_primitive_desc_create(&desc, dnn->engine, d.kind, d.in, d.out, d.strides, d.kernel,
                                                         dense, d.pads, d.pads, forward->desc, dnn->plain),
             "a pooling backward");
    return &dnn_op_create(dnn, desc, forward, "a pooling backward")->op;
}

struct device_op *dnn_pool(struct device *device, const struct device_pool *shape, bool training)
{
    struct dnn *dnn = dnn_of(device);
    const struct pool_descs d = pool_describe(dnn, shape);
    const dnnl_prop_kind_t kind = training ? dnnl_forward_training : dnnl_forward_inference;
    dnnl_primitive_desc_t desc;
    struct dnn_op *op;

    dnn_must(dnnl_pooling_forward_primitive_desc_create(&desc, dnn->engine, kind, d.kind, d.in, d.out, d.strides,
                                                        d.kernel, dense, d.pads, d.pads, dnn->plain),
             "a pooling");
    op = dnn_op_create(dnn, desc, NULL, "a pooling");
    op->back = pool_back;
    op->pool = *shape;
    return &op->op;
}

/* ---- Products, reorders ---- */

static dnnl_memory_desc_t matrix(struct dnn *dnn, uint32_t rows, uint32_t columns, bool by_columns)
{
    return dnn_desc(
        layout_by_tag(dnn, 2, (const dnnl_dims_t){ rows, columns }, dnnl_f32, by_columns ? dnnl_ba : dnnl_ab));
}

struct device_op *dnn_product(struct device *device, const struct device_product *s)
{
    struct dnn *dnn = dnn_of(device);
    const dnnl_memory_desc_t src = matrix(dnn, s->rows, s->inner, s->src_columns);
    const dnnl_memory_desc_t weights = matrix(dnn, s->inner, s->columns, s->weights_columns);
    const dnnl_memory_desc_t bias = s->bias ? matrix(dnn, 1, s->columns, false) : NULL;
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_matmul_primitive_desc_create(&desc, dnn->engine, src, weights, bias,
                                               matrix(dnn, s->rows, s->columns, false),
                                               s->add ? dnn->adding : dnn->plain),
             "a product");
    return &dnn_op_create(dnn, desc, NULL, "a product")->op;
}

static struct device_op *reorder(struct dnn *dnn, const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to, bool add)
{
    dnnl_primitive_desc_t desc;

    dnn_must(
        dnnl_reorder_primitive_desc_create(&desc, from, dnn->engine, to, dnn->engine, add ? dnn->adding : dnn->plain),
        "a reorder");
    return &dnn_op_create(dnn, desc, NULL, "a reorder")->op;
}

struct device_op *dnn_reorder(struct device *device, const struct device_layout *from, const struct device_layout *to,
                              bool add)
{
    return reorder(dnn_of(device), dnn_desc(from), dnn_desc(to), add);
}

struct device_op *dnn_images(struct device *device, const struct device_images *s, const struct device_layout *to)
{
    struct dnn *dnn = dnn_of(device);
    struct device_op *op = reorder(dnn, dnn_tensor4(dnn, s->n, s->channels, s->height, s->width, dnnl_f32, dnnl_nhwc),
                                   dnn_desc(to), false);

    if (s->bytes)
        give_up(1, "processors take images as floats, not as bytes; this is a bug");
    ((struct dnn_op *)op)->images = s->n;
    return op;
}

uint32_t dnn_images_count(const struct device_op *op)
{
    return ((const struct dnn_op *)op)->images;
}

/* ---- All together ---- */

static dnnl_primitive_attr_t attributes(bool add)
{
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t ops;

    dnn_must(dnnl_primitive_attr_create(&attributes), "attributes");
    dnn_must(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "attributes");
    if (!add)
        return attributes;
    dnn_must(dnnl_post_ops_create(&ops), "attributes");
    dnn_must(dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef), "attributes");
    dnn_must(dnnl_primitive_attr_set_post_ops(attributes, ops), "attributes");
    dnnl_post_ops_destroy(ops);
    return attributes;
}

struct device *dnn_create(const struct device_options *options)
{
    struct dnn *dnn = allocate(1, sizeof *dnn);

    dnn->device.kind = &device_cpu;
    dnn->threads = options->threads == 0 ? 1 : options->threads;
    dnn->type = data_type(options->precision);
    dnn_begin(&dnn->device);
    dnn_must(dnnl_engine_create(&dnn->engine, dnnl_cpu, 0), "an engine");
    dnn_must(dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_in_order), "a stream");
    dnn->plain = attributes(false);
    dnn->adding = attributes(true);
    dnn->activation = dnn_fastest_layout(dnn);
    snprintf(dnn->device.about, sizeof dnn->device.about, "processors, oneDNN %d.%d", dnnl_version()->major,
             dnnl_version()->minor);
    return &dnn->device;
}

/* The number of threads is a setting of the calling thread. */
void dnn_begin(struct device *device)
{
    omp_set_num_threads((int)dnn_of(device)->threads);
}

void dnn_destroy(struct device *device)
{
    struct dnn *dnn = dnn_of(device);

    while (dnn->ops != NULL) {
        struct dnn_op *next = dnn->ops->next;

        op_destroy(dnn->ops);
        dnn->ops = next;
    }
    while (dnn->layouts != NULL) {
        struct dnn_layout *next = dnn->layouts->next;

        dnnl_memory_desc_destroy(dnn->layouts->desc);
        free(dnn->layouts);
        dnn->layouts = next;
    }
    dnnl_primitive_attr_destroy(dnn->plain);
    dnnl_primitive_attr_destroy(dnn->adding);
    dnnl_stream_destroy(dnn->stream);
    dnnl_engine_destroy(dnn->engine);
    free(dnn);
}
