/* SPDX-License-Identifier: BSD-3-Clause */
#include "dnn_parts.h"

#include "allocate.h"
#include "program.h"

#include <assert.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

static const float epsilon = 1e-5F;     /* of batch norm, as in torchvision */
static const dnnl_dims_t dense = { 0 }; /* dilation of kernels: none */

/* oneDNN's names of the arguments. */
static const int names[DNN_NARG] = {
    [DNN_SRC] = DNNL_ARG_SRC,
    [DNN_DST] = DNNL_ARG_DST,
    [DNN_WEIGHTS] = DNNL_ARG_WEIGHTS,
    [DNN_BIAS] = DNNL_ARG_BIAS,
    [DNN_MEAN] = DNNL_ARG_MEAN,
    [DNN_VARIANCE] = DNNL_ARG_VARIANCE,
    [DNN_SCALE] = DNNL_ARG_SCALE,
    [DNN_SHIFT] = DNNL_ARG_SHIFT,
    [DNN_WORKSPACE] = DNNL_ARG_WORKSPACE,
    [DNN_DIFF_SRC] = DNNL_ARG_DIFF_SRC,
    [DNN_DIFF_DST] = DNNL_ARG_DIFF_DST,
    [DNN_DIFF_WEIGHTS] = DNNL_ARG_DIFF_WEIGHTS,
    [DNN_DIFF_SCALE] = DNNL_ARG_DIFF_SCALE,
    [DNN_DIFF_SHIFT] = DNNL_ARG_DIFF_SHIFT,
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

bool dnn_has_bf16(void)
{
    return has(dnnl_cpu_isa_avx512_core);
}

bool dnn_bf16_fast(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

uint32_t dnn_pooled(uint32_t size, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    return (size + 2 * pad - kernel) / stride + 1;
}

/* ---- Layouts ---- */

/* Takes ownership of desc. */
static const struct dnn_layout *layout_create(struct dnn *dnn, dnnl_memory_desc_t desc)
{
    struct dnn_layout *layout = allocate(1, sizeof *layout);

    *layout = (struct dnn_layout){ desc, dnn->layouts };
    dnn->layouts = layout;
    return layout;
}

static const struct dnn_layout *layout_by_tag(struct dnn *dnn, int ndim, const dnnl_dims_t dims, dnnl_data_type_t type,
                                              dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;

    dnn_must(dnnl_memory_desc_create_with_tag(&desc, ndim, dims, type, tag), "a layout");
    return layout_create(dnn, desc);
}

const struct dnn_layout *dnn_tensor4(struct dnn *dnn, uint32_t n, uint32_t c, uint32_t h, uint32_t w,
                                     dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return layout_by_tag(dnn, 4, (const dnnl_dims_t){ n, c, h, w }, type, tag);
}

const struct dnn_layout *dnn_activation(struct dnn *dnn, uint32_t n, uint32_t channels, uint32_t height, uint32_t width)
{
    return dnn_tensor4(dnn, n, channels, height, width, dnn->type, dnn->activation);
}

const struct dnn_layout *dnn_images(struct dnn *dnn, uint32_t n, uint32_t channels, uint32_t height, uint32_t width)
{
    return dnn_tensor4(dnn, n, channels, height, width, dnnl_f32, dnnl_nhwc);
}

static dnnl_data_type_t data_type(enum precision precision)
{
    return precision == PRECISION_BF16 ? dnnl_bf16 : dnnl_f32;
}

const struct dnn_layout *dnn_plain(struct dnn *dnn, enum precision precision, uint32_t ndim, const uint32_t *shape)
{
    dnnl_memory_desc_t desc;
    dnnl_dims_t dims = { 0 }, strides = { 0 };
    dnnl_dim_t stride = 1;

    for (uint32_t d = ndim; d-- > 0; stride *= shape[d]) {
        dims[d] = shape[d];
        strides[d] = stride;
    }
    dnn_must(dnnl_memory_desc_create_with_strides(&desc, (int)ndim, dims, data_type(precision), strides),
             "a plain layout");
    return layout_create(dnn, desc);
}

size_t dnn_bytes(const struct dnn_layout *layout)
{
    return dnnl_memory_desc_get_size(layout->desc);
}

bool dnn_same(const struct dnn_layout *a, const struct dnn_layout *b)
{
    return dnnl_memory_desc_equal(a->desc, b->desc);
}

/* ---- Operations ---- */

/* NULL: the operation has no such argument. */
static const_dnnl_memory_desc_t argument(const_dnnl_primitive_desc_t op, enum dnn_arg arg)
{
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(op, dnnl_query_exec_arg_md, names[arg]);

    return desc == NULL || dnnl_memory_desc_get_size(desc) == 0 ? NULL : desc;
}

static void slot_init(struct dnn_op *op, enum dnn_arg arg)
{
    const_dnnl_memory_desc_t desc = argument(op->desc, arg);
    struct slot *slot = &op->slots[arg];
    dnnl_memory_desc_t own;

    /* A batch norm backward describes a shift argument, but does not take it. */
    if (desc == NULL || (arg == DNN_SHIFT && argument(op->desc, DNN_DIFF_SHIFT) != NULL))
        return;
    dnn_must(dnnl_memory_desc_clone(&own, desc), "a layout");
    slot->layout = layout_create(op->dnn, own);
    dnn_must(dnnl_memory_create(&slot->memory, own, op->dnn->engine, DNNL_MEMORY_NONE), "an argument");
}

struct dnn_op *dnn_op_create(struct dnn *dnn, dnnl_primitive_desc_t desc, const char *what)
{
    struct dnn_op *op = allocate(1, sizeof *op);
    const_dnnl_memory_desc_t scratch;

    op->dnn = dnn;
    op->desc = desc;
    op->next = dnn->ops;
    dnn->ops = op;
    dnn_must(dnnl_primitive_create(&op->primitive, desc), what);
    for (unsigned arg = 0; arg < DNN_NARG; arg++)
        slot_init(op, arg);
    scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, DNNL_ARG_SCRATCHPAD);
    if (scratch != NULL && dnnl_memory_desc_get_size(scratch) > 0) {
        dnn_must(dnnl_memory_create(&op->scratch, scratch, dnn->engine, DNNL_MEMORY_NONE), "an argument");
        if (dnn->scratch < dnnl_memory_desc_get_size(scratch))
            dnn->scratch = dnnl_memory_desc_get_size(scratch);
    }
    return op;
}

static void op_destroy(struct dnn_op *op)
{
    for (unsigned arg = 0; arg < DNN_NARG; arg++)
        if (op->slots[arg].layout != NULL)
            dnnl_memory_destroy(op->slots[arg].memory);
    if (op->scratch != NULL)
        dnnl_memory_destroy(op->scratch);
    dnnl_primitive_destroy(op->primitive);
    dnnl_primitive_desc_destroy(op->desc);
    free(op);
}

const struct dnn_layout *dnn_layout(const struct dnn_op *op, enum dnn_arg arg)
{
    return op->slots[arg].layout;
}

void dnn_run(struct dnn_op *op, void *const at[DNN_NARG], void *scratch)
{
    dnnl_exec_arg_t args[DNN_NARG + 1];
    int narg = 0;

    for (unsigned arg = 0; arg < DNN_NARG; arg++) {
        if (op->slots[arg].layout == NULL)
            continue;
        assert(at[arg] != NULL);
        dnn_must(dnnl_memory_set_data_handle(op->slots[arg].memory, at[arg]), "an argument");
        args[narg++] = (dnnl_exec_arg_t){ names[arg], op->slots[arg].memory };
    }
    if (op->scratch != NULL) {
        dnn_must(dnnl_memory_set_data_handle(op->scratch, scratch), "an argument");
        args[narg++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, op->scratch };
    }
    dnn_must(dnnl_primitive_execute(op->primitive, op->dnn->stream, narg, args), "a result");
}

/* ---- Batch norm ---- */

static unsigned norm_flags(enum dnn_norm norm, bool relu)
{
    return dnnl_use_scale | dnnl_use_shift | (norm == DNN_NORM_BATCH ? 0 : dnnl_use_global_stats) |
           (relu ? dnnl_fuse_norm_relu : 0);
}

struct dnn_op *dnn_norm(struct dnn *dnn, const struct dnn_layout *layout, enum dnn_norm norm, bool relu)
{
    const dnnl_prop_kind_t kind = norm == DNN_NORM_ONLY ? dnnl_forward_inference : dnnl_forward_training;
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_batch_normalization_forward_primitive_desc_create(
                 &desc, dnn->engine, kind, layout->desc, layout->desc, epsilon, norm_flags(norm, relu), dnn->plain),
             "a batch norm");
    return dnn_op_create(dnn, desc, "a batch norm");
}

struct dnn_op *dnn_norm_back(struct dnn *dnn, const struct dnn_layout *layout, enum dnn_norm norm, bool relu,
                             const struct dnn_op *forward)
{
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_batch_normalization_backward_primitive_desc_create(&desc, dnn->engine, dnnl_backward, layout->desc,
                                                                     layout->desc, layout->desc, epsilon,
                                                                     norm_flags(norm, relu), forward->desc, dnn->plain),
             "a batch norm backward");
    return dnn_op_create(dnn, desc, "a batch norm backward");
}

/* ---- Pooling ---- */

struct pool_descs {
    dnnl_alg_kind_t kind;
    dnnl_memory_desc_t in, out;
    dnnl_dims_t kernel, strides, pads;
};

static struct pool_descs pool_describe(struct dnn *dnn, const struct dnn_pool *s)
{
    const uint32_t height = dnn_pooled(s->height, s->kernel, s->stride, s->pad);
    const uint32_t width = dnn_pooled(s->width, s->kernel, s->stride, s->pad);

    return (struct pool_descs){
        .kind = s->average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max,
        .in = dnn_activation(dnn, s->n, s->channels, s->height, s->width)->desc,
        .out = dnn_activation(dnn, s->n, s->channels, height, width)->desc,
        .kernel = { s->kernel, s->kernel },
        .strides = { s->stride, s->stride },
        .pads = { s->pad, s->pad },
    };
}

struct dnn_op *dnn_pool(struct dnn *dnn, const struct dnn_pool *shape, bool training)
{
    const struct pool_descs d = pool_describe(dnn, shape);
    const dnnl_prop_kind_t kind = training ? dnnl_forward_training : dnnl_forward_inference;
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_pooling_forward_primitive_desc_create(&desc, dnn->engine, kind, d.kind, d.in, d.out, d.strides,
                                                        d.kernel, dense, d.pads, d.pads, dnn->plain),
             "a pooling");
    return dnn_op_create(dnn, desc, "a pooling");
}

struct dnn_op *dnn_pool_back(struct dnn *dnn, const struct dnn_pool *shape, const struct dnn_op *forward)
{
    const struct pool_descs d = pool_describe(dnn, shape);
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_pooling_backward_primitive_desc_create(&desc, dnn->engine, d.kind, d.in, d.out, d.strides, d.kernel,
                                                         dense, d.pads, d.pads, forward->desc, dnn->plain),
             "a pooling backward");
    return dnn_op_create(dnn, desc, "a pooling backward");
}

/* ---- Products, reorders ---- */

static dnnl_memory_desc_t matrix(struct dnn *dnn, uint32_t rows, uint32_t columns, bool by_columns)
{
    return layout_by_tag(dnn, 2, (const dnnl_dims_t){ rows, columns }, dnnl_f32, by_columns ? dnnl_ba : dnnl_ab)->desc;
}

struct dnn_op *dnn_product(struct dnn *dnn, const struct dnn_product *s)
{
    const dnnl_memory_desc_t src = matrix(dnn, s->rows, s->inner, s->src_columns);
    const dnnl_memory_desc_t weights = matrix(dnn, s->inner, s->columns, s->weights_columns);
    const dnnl_memory_desc_t bias = s->bias ? matrix(dnn, 1, s->columns, false) : NULL;
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_matmul_primitive_desc_create(&desc, dnn->engine, src, weights, bias,
                                               matrix(dnn, s->rows, s->columns, false),
                                               s->add ? dnn->adding : dnn->plain),
             "a product");
    return dnn_op_create(dnn, desc, "a product");
}

struct dnn_op *dnn_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to, bool add)
{
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_reorder_primitive_desc_create(&desc, from->desc, dnn->engine, to->desc, dnn->engine,
                                                add ? dnn->adding : dnn->plain),
             "a reorder");
    return dnn_op_create(dnn, desc, "a reorder");
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

struct dnn *dnn_create(enum precision precision, unsigned threads)
{
    struct dnn *dnn = allocate(1, sizeof *dnn);

    dnn->threads = threads == 0 ? 1 : threads;
    dnn->type = data_type(precision);
    dnn_begin(dnn);
    dnn_must(dnnl_engine_create(&dnn->engine, dnnl_cpu, 0), "an engine");
    dnn_must(dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_in_order), "a stream");
    dnn->plain = attributes(false);
    dnn->adding = attributes(true);
    dnn->activation = dnn_fastest_layout(dnn);
    return dnn;
}

void dnn_begin(const struct dnn *dnn)
{
    omp_set_num_threads((int)dnn->threads);
}

size_t dnn_scratch(const struct dnn *dnn)
{
    return dnn->scratch;
}

void dnn_destroy(struct dnn *dnn)
{
    if (dnn == NULL)
        return;
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
