/* SPDX-License-Identifier: BSD-3-Clause */
#include "dnn_parts.h"

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

static struct dnn_convolution one_image(const struct dnn *dnn, const struct dnn_convolution *shape)
{
    struct dnn_convolution one = *shape;

    if (dnn->activation == dnnl_nhwc && one.kernel == 1 && one.stride == 1 && one.pad == 0 && !one.images &&
        one.height * one.width < few_pixels) {
        one.height *= one.n;
        one.n = 1;
    }
    return one;
}

static struct convolution_descs convolution_describe(struct dnn *dnn, const struct dnn_convolution *shape)
{
    const struct dnn_convolution one = one_image(dnn, shape), *s = &one;
    const uint32_t height = dnn_pooled(s->height, s->kernel, s->stride, s->pad);
    const uint32_t width = dnn_pooled(s->width, s->kernel, s->stride, s->pad);
    const dnnl_format_tag_t any = dnnl_format_tag_any;

    return (struct convolution_descs){
        .in = dnn_tensor4(dnn, s->n, s->in, s->height, s->width, dnn->type, s->images ? any : dnn->activation)->desc,
        .weights = dnn_tensor4(dnn, s->out, s->in, s->kernel, s->kernel, dnn->type, any)->desc,
        .gradient = dnn_tensor4(dnn, s->out, s->in, s->kernel, s->kernel, dnnl_f32, any)->desc,
        .out = dnn_tensor4(dnn, s->n, s->out, height, width, dnn->type, dnn->activation)->desc,
        .strides = { s->stride, s->stride },
        .pads = { s->pad, s->pad },
    };
}

struct dnn_op *dnn_convolution(struct dnn *dnn, const struct dnn_convolution *shape)
{
    const struct convolution_descs d = convolution_describe(dnn, shape);
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_convolution_forward_primitive_desc_create(&desc, dnn->engine, dnnl_forward_training,
                                                            dnnl_convolution_direct, d.in, d.weights, NULL, d.out,
                                                            d.strides, dense, d.pads, d.pads, dnn->plain),
             "a convolution");
    return dnn_op_create(dnn, desc, "a convolution");
}

struct dnn_op *dnn_convolution_back_data(struct dnn *dnn, const struct dnn_convolution *shape,
                                         const struct dnn_op *forward)
{
    const struct convolution_descs d = convolution_describe(dnn, shape);
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_convolution_backward_data_primitive_desc_create(&desc, dnn->engine, dnnl_convolution_direct, d.in,
                                                                  d.weights, d.out, d.strides, dense, d.pads, d.pads,
                                                                  forward->desc, dnn->plain),
             "a convolution backward");
    return dnn_op_create(dnn, desc, "a convolution backward");
}

struct dnn_op *dnn_convolution_back_weights(struct dnn *dnn, const struct dnn_convolution *shape,
                                            const struct dnn_op *forward)
{
    const struct convolution_descs d = convolution_describe(dnn, shape);
    dnnl_primitive_desc_t desc;

    dnn_must(dnnl_convolution_backward_weights_primitive_desc_create(
                 &desc, dnn->engine, dnnl_convolution_direct, forward->slots[DNN_SRC].layout->desc, d.gradient, NULL,
                 d.out, d.strides, dense, d.pads, d.pads, forward->desc, dnn->plain),
             "a convolution backward");
    return dnn_op_create(dnn, desc, "a convolution backward");
}

dnnl_format_tag_t dnn_fastest_layout(struct dnn *dnn)
{
    static const dnnl_format_tag_t tags[] = { dnnl_nhwc, dnnl_nChw16c, dnnl_nChw8c, dnnl_nchw };
    const dnnl_memory_desc_t in = dnn_tensor4(dnn, 8, 64, 28, 28, dnn->type, dnnl_format_tag_any)->desc;
    const dnnl_memory_desc_t weights = dnn_tensor4(dnn, 64, 64, 3, 3, dnn->type, dnnl_format_tag_any)->desc;
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
        if (dnnl_memory_desc_equal(dnn_tensor4(dnn, 8, 64, 28, 28, dnn->type, tags[k])->desc, chosen))
            fastest = tags[k];
    dnnl_primitive_desc_destroy(primitive);
    return fastest;
}
