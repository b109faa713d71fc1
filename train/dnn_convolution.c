/* SPDX-License-Identifier: BSD-3-Clause */
#include "dnn.h"
#include "network.h"

static const dnnl_dims_t dense = { 0 }; /* dilation of kernels: none */

struct convolution_descs {
    dnnl_memory_desc_t in, weights, gradient, out;
    dnnl_dims_t strides, pads;
};

/*
 * With channels last, a 1x1 convolution can treat all images as one. On images with fewer pixels than this, oneDNN's
 * bf16 gradients take up to sixteen times as long image by image.
 */
enum { few_pixels = 64 };

static struct device_convolution one_image(const struct dnn *dnn, const struct device_convolution *shape)
{
    struct device_convolution one = *shape;

    if (dnn->activation == dnnl_nhwc && one.kernel == 1 && one.stride == 1 && one.pad == 0 && !one.images &&
        one.height * one.width < few_pixels) {
        one.height *= one.n;
        one.n = 1;
    }
    return one;
}

static struct convolution_descs convolution_describe(struct dnn *dnn, const struct device_convolution *shape)
{
    const struct device_convolution one = one_image(dnn, shape), *s = &one;
    const uint32_t height = network_pooled(s->height, s->kernel, s->stride, s->pad);
    const uint32_t width = network_pooled(s->width, s->kernel, s->stride, s->pad);
    const dnnl_format_tag_t any = dnnl_format_tag_any;

    return (struct convolution_descs){
        .in = dnn_tensor4(dnn, s->n, s->in, s->height, s->width, dnn->type, s->images ? any : dnn->activation),
        .weights = dnn_tensor4(dnn, s->out, s->in, s->kernel, s->kernel, dnn->type, any),
        .gradient = dnn_tensor4(dnn, s->out, s->in, s->kernel, s->kernel, dnnl_f32, any),
        .out = dnn_tensor4(dnn, s->n, s->out, height, width, dnn->type, dnn->activation),
        .strides = { s->stride, s->stride },
        .pads = { s->pad, s->pad },
    };
}

static struct device_op *back_data(struct dnn *dnn, const struct convolution_descs *d, const struct dnn_op *forward)
{
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_convolution_backward_data_primitive_desc_create(&desc, dnn->engine, dnnl_convolution_direct, d->in,
                                                                  d->weights, d->out, d->strides, dense, d->pads,
                                                                  d->pads, forward->desc, dnn->plain),
             "a convolution backward");
    return &dnn_op_create(dnn, desc, forward, "a convolution backward")->op;
}

static struct device_op *back_weights(struct dnn *dnn, const struct convolution_descs *d, const struct dnn_op *forward)
{
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_convolution_backward_weights_primitive_desc_create(
                 &desc, dnn->engine, dnnl_convolution_direct, dnn_desc(forward->op.layouts[ARG_SRC]), d->gradient, NULL,
                 d->out, d->strides, dense, d->pads, d->pads, forward->desc, dnn->plain),
             "a convolution backward");
    return &dnn_op_create(dnn, desc, forward, "a convolution backward")->op;
}

static struct device_op *convolution_back(const struct dnn_op *forward, enum device_arg result)
{
    struct dnn *dnn = dnn_of(forward->op.device);
    const struct convolution_descs d = convolution_describe(dnn, &forward->convolution);

    return (result == ARG_DIFF_SRC ? back_data : back_weights)(dnn, &d, forward);
}

struct device_op *dnn_convolution(struct device *device, const struct device_convolution *shape)
{
    struct dnn *dnn = dnn_of(device);
    const struct convolution_descs d = convolution_describe(dnn, shape);
    dnnl_primitive_desc_t desc;
    struct dnn_op *op;

    dnn_must(dnnl_convolution_forward_primitive_desc_create(&desc, dnn->engine, dnnl_forward_training,
                                                            dnnl_convolution_direct, d.in, d.weights, NULL, d.out,
                                                            d.strides, dense, d.pads, d.pads, dnn->plain),
             "a convolution");
    op = dnn_op_create(dnn, desc, NULL, "a convolution");
    op->back = convolution_back;
    op->convolution = *shape;
    return &op->op;
}

dnnl_format_tag_t dnn_fastest_layout(struct dnn *dnn)
{
    static const dnnl_format_tag_t tags[] = { dnnl_nhwc, dnnl_nChw16c, dnnl_nChw8c, dnnl_nchw };
    const dnnl_memory_desc_t in = dnn_tensor4(dnn, 8, 64, 28, 28, dnn->type, dnnl_format_tag_any);
    const dnnl_memory_desc_t weights = dnn_tensor4(dnn, 64, 64, 3, 3, dnn->type, dnnl_format_tag_any);
    const dnnl_dims_t ones = { 1, 1 };
    dnnl_format_tag_t fastest = dnnl_nchw;
    const_dnnl_memory_desc_t chosen;
    dnnl_primitive_desc_t primitive;

    dnn_must(dnnl_convolution_forward_primitive_desc_create(&primitive, dnn->engine, dnnl_forward_training,
                                                            dnnl_convolution_direct, in, weights, NULL, in, ones, dense,
                                                            ones, ones, dnn->plain),
             "a convolution");
    chosen = dnnl_primitive_desc_query_md(primitive, dnnl_query_dst_md, 0);
    for (size_t k = 0; k < sizeof tags / sizeof *tags; k++)
        if (dnnl_memory_desc_equal(dnn_tensor4(dnn, 8, 64, 28, 28, dnn->type, tags[k]), chosen))
            fastest = tags[k];
    dnnl_primitive_desc_destroy(primitive);
    return fastest;
}
