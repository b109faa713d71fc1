/* SPDX-License-Identifier: BSD-3-Clause */
#include "convolution_parts.h"
#include "network.h"

/* ---- Descriptors; after an error nothing is done ---- */

bool convolution_check(struct convolution *c, const char *call, int status)
{
    if (c->status == CUDNN9_STATUS_SUCCESS && status != CUDNN9_STATUS_SUCCESS) {
        c->status = status;
        c->call = call;
        c->libraries->cudnn.last_error(c->more, sizeof c->more);
    }
    return c->status == CUDNN9_STATUS_SUCCESS;
}

cudnn_descriptor convolution_make(struct convolution *c, int type)
{
    cudnn_descriptor d = NULL;

    if (c->status != CUDNN9_STATUS_SUCCESS ||
        !convolution_check(c, "cudnnBackendCreateDescriptor", c->libraries->cudnn.make(type, &d)))
        return NULL;
    return d;
}

void convolution_set(struct convolution *c, cudnn_descriptor d, int attribute, int type, int64_t n, const void *values)
{
    if (c->status == CUDNN9_STATUS_SUCCESS)
        convolution_check(c, "cudnnBackendSetAttribute", c->libraries->cudnn.set(d, attribute, type, n, values));
}

void convolution_set_numbers(struct convolution *c, cudnn_descriptor d, int attribute, int64_t n, const int64_t *values)
{
    convolution_set(c, d, attribute, CUDNN9_TYPE_INT64, n, values);
}

void convolution_set_descriptor(struct convolution *c, cudnn_descriptor d, int attribute, cudnn_descriptor value)
{
    convolution_set(c, d, attribute, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void convolution_finalize(struct convolution *c, cudnn_descriptor d)
{
    if (c->status == CUDNN9_STATUS_SUCCESS)
        convolution_check(c, "cudnnBackendFinalize", c->libraries->cudnn.finalize(d));
}

int64_t convolution_get(struct convolution *c, cudnn_descriptor d, int attribute, int type, int64_t room, void *values)
{
    int64_t n = 0;

    if (c->status == CUDNN9_STATUS_SUCCESS)
        convolution_check(c, "cudnnBackendGetAttribute", c->libraries->cudnn.get(d, attribute, type, room, &n, values));
    if (c->status != CUDNN9_STATUS_SUCCESS)
        return 0;
    return room > 0 && n > room ? room : n;
}

/* ---- The graph ---- */

enum { ALIGNMENT = 16 };

static cudnn_descriptor make_kept(struct convolution *c, int type)
{
    cudnn_descriptor d = convolution_make(c, type);

    if (d != NULL)
        c->made[c->nmade++] = d;
    return d;
}

static int data_type(enum precision precision)
{
    static const int types[] = { [PRECISION_FP32] = CUDNN9_DATA_FLOAT,
                                 [PRECISION_BF16] = CUDNN9_DATA_BFLOAT16,
                                 [PRECISION_FP16] = CUDNN9_DATA_HALF };

    return types[precision];
}

/* Dimensions are always in this order; strides say how it lies: channels innermost. */
static cudnn_descriptor tensor(struct convolution *c, int64_t uid, int64_t n, int64_t channels, int64_t height,
                               int64_t width)
{
    const int64_t dims[] = { n, channels, height, width };
    const int64_t strides[] = { channels * height * width, 1, channels * width, channels };
    const int64_t alignment = ALIGNMENT;
    const int type = data_type(c->wants.precision);
    const bool is_virtual = false;
    cudnn_descriptor d = make_kept(c, CUDNN9_BACKEND_TENSOR_DESCRIPTOR);

    convolution_set(c, d, CUDNN9_ATTR_TENSOR_DATA_TYPE, CUDNN9_TYPE_DATA_TYPE, 1, &type);
    convolution_set_numbers(c, d, CUDNN9_ATTR_TENSOR_DIMENSIONS, 4, dims);
    convolution_set_numbers(c, d, CUDNN9_ATTR_TENSOR_STRIDES, 4, strides);
    convolution_set_numbers(c, d, CUDNN9_ATTR_TENSOR_UNIQUE_ID, 1, &uid);
    convolution_set_numbers(c, d, CUDNN9_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
    convolution_set(c, d, CUDNN9_ATTR_TENSOR_IS_VIRTUAL, CUDNN9_TYPE_BOOLEAN, 1, &is_virtual);
    convolution_finalize(c, d);
    return d;
}

static cudnn_descriptor window(struct convolution *c)
{
    const int64_t ndim = 2, pads[] = { c->shape.pad, c->shape.pad }, dilations[] = { 1, 1 };
    const int64_t strides[] = { c->shape.stride, c->shape.stride };
    const int sums = CUDNN9_DATA_FLOAT, mode = CUDNN9_CROSS_CORRELATION;
    cudnn_descriptor d = make_kept(c, CUDNN9_BACKEND_CONVOLUTION_DESCRIPTOR);

    convolution_set(c, d, CUDNN9_ATTR_CONVOLUTION_COMP_TYPE, CUDNN9_TYPE_DATA_TYPE, 1, &sums);
    convolution_set(c, d, CUDNN9_ATTR_CONVOLUTION_CONV_MODE, CUDNN9_TYPE_CONVOLUTION_MODE, 1, &mode);
    convolution_set_numbers(c, d, CUDNN9_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &ndim);
    convolution_set_numbers(c, d, CUDNN9_ATTR_CONVOLUTION_PRE_PADDINGS, ndim, pads);
    convolution_set_numbers(c, d, CUDNN9_ATTR_CONVOLUTION_POST_PADDINGS, ndim, pads);
    convolution_set_numbers(c, d, CUDNN9_ATTR_CONVOLUTION_DILATIONS, ndim, dilations);
    convolution_set_numbers(c, d, CUDNN9_ATTR_CONVOLUTION_FILTER_STRIDES, ndim, strides);
    convolution_finalize(c, d);
    return d;
}

static const struct attributes {
    const char *name;
    int descriptor, window, x, w, y, alpha, beta;
} passes[] = {
    [CONVOLUTION_FORWARD] = { "forward", CUDNN9_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                              CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                              CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                              CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                              CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                              CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [CONVOLUTION_BACK_DATA] = { "backward to the data", CUDNN9_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [CONVOLUTION_BACK_WEIGHTS] = { "backward to the weights",
                                   CUDNN9_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

static cudnn_descriptor operation(struct convolution *c)
{
    const struct device_convolution *s = &c->shape;
    const struct attributes *a = &passes[c->pass];
    const int64_t height = network_pooled(s->height, s->kernel, s->stride, s->pad);
    const int64_t width = network_pooled(s->width, s->kernel, s->stride, s->pad);
    const float one = 1, zero = 0;
    cudnn_descriptor x = tensor(c, UID_X, s->n, s->in, s->height, s->width);
    cudnn_descriptor w = tensor(c, UID_W, s->out, s->in, s->kernel, s->kernel);
    cudnn_descriptor y = tensor(c, UID_Y, s->n, s->out, height, width);
    cudnn_descriptor moves = window(c), d = make_kept(c, a->descriptor);

    convolution_set_descriptor(c, d, a->x, x);
    convolution_set_descriptor(c, d, a->w, w);
    convolution_set_descriptor(c, d, a->y, y);
    convolution_set_descriptor(c, d, a->window, moves);
    convolution_set(c, d, a->alpha, CUDNN9_TYPE_FLOAT, 1, &one);
    convolution_set(c, d, a->beta, CUDNN9_TYPE_FLOAT, 1, &zero);
    convolution_finalize(c, d);
    return d;
}

/* Versions before 9.8 need the handle here and in the plan. */
void convolution_make_graph(struct convolution *c)
{
    cudnn_descriptor d = operation(c);

    c->graph = make_kept(c, CUDNN9_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    convolution_set_descriptor(c, c->graph, CUDNN9_ATTR_OPERATIONGRAPH_OPS, d);
    if (c->libraries->dnn != NULL)
        convolution_set(c, c->graph, CUDNN9_ATTR_OPERATIONGRAPH_HANDLE, CUDNN9_TYPE_HANDLE, 1, &c->libraries->dnn);
    convolution_finalize(c, c->graph);
}

const char *convolution_pass_name(enum convolution_pass pass)
{
    return passes[pass].name;
}
