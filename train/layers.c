/* SPDX-License-Identifier: BSD-3-Clause */
#include "layer_parts.h"

#include "allocate.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- Helpers ---- */

enum { ALIGNMENT = 64 }; /* bytes */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *layer_own(struct layer *layer, size_t bytes)
{
    layer->env->weights += bytes;
    return layer->env->device->kind->alloc(layer->env->device, bytes);
}

void layer_stage(struct environment *env, size_t bytes)
{
    if (env->staged < bytes)
        env->staged = bytes;
}

/* Operations take inputs and outputs alike as void *. */
static void *readable(const void *memory)
{
    return (void *)(uintptr_t)memory;
}

void layer_run(struct layer *layer, struct device_op *op, void *const at[NARG])
{
    op->device->kind->run(op, at, layer->env->scratch);
}

const struct value *layer_value(const struct environment *env, uint32_t k)
{
    return &env->network->values[k];
}

/* The logits are fp32 in either precision. */
static bool is_logits(const struct environment *env, uint32_t k)
{
    return k == env->network->nvalue - 1;
}

struct elements layer_elements(const struct environment *env, uint32_t k)
{
    const enum precision precision = is_logits(env, k) ? PRECISION_FP32 : env->precision;

    return (struct elements){ precision, env->layouts[k]->bytes / precision_size(precision) };
}

const struct device_layout *layer_put_out(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct value *out = layer_value(env, layer->node->out);

    return env->layouts[layer->node->out] =
               env->device->kind->layout(env->device, ORDER_FASTEST, env->precision, 4,
                                         (uint32_t[]){ env->batch, out->channels, out->height, out->width });
}

void layer_give(const struct environment *env, void *gradient, const float *from, size_t rows, size_t n,
                bool accumulate)
{
    env->device->kind->sum(env->device, &(struct device_sum){ gradient, env->gradients, accumulate, from, rows, n });
}

void layer_take(const struct environment *env, float *weights, const float *master, size_t n)
{
    env->device->kind->sum(env->device, &(struct device_sum){ weights, PRECISION_FP32, false, master, 1, n });
}

/* ---- Convolution ---- */

static struct device_convolution convolution_shape(const struct layer *layer)
{
    const struct node *node = layer->node;
    const struct value *in = layer_value(layer->env, node->in), *out = layer_value(layer->env, node->out);

    return (struct device_convolution){ .n = layer->env->batch,
                                        .in = in->channels,
                                        .out = out->channels,
                                        .height = in->height,
                                        .width = in->width,
                                        .kernel = node->kernel,
                                        .stride = node->stride,
                                        .pad = node->pad,
                                        .images = node->in == 0 };
}

static void convolution_create_back(struct layer *layer, const struct device_convolution *shape,
                                    const struct tensor *tensor)
{
    struct device *device = layer->env->device;
    const struct device_layout *plain = device->kind->layout(device, ORDER_PLAIN, layer->env->gradients, tensor->ndim,
                                                             tensor->shape),
                               *gradient;

    if (!shape->images)
        layer->back = layer->forward->device->kind->back(layer->forward, ARG_DIFF_SRC);
    layer->back_weights = layer->forward->device->kind->back(layer->forward, ARG_DIFF_WEIGHTS);
    gradient = layer->back_weights->layouts[ARG_DIFF_WEIGHTS];
    layer->unpack = device->kind->reorder(device, gradient, plain, false);
    if (layer->env->gradients == PRECISION_FP32)
        layer->unpack_add = device->kind->reorder(device, gradient, plain, true);
    layer_stage(layer->env, gradient->bytes);
}

static void convolution_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct device_convolution shape = convolution_shape(layer);
    const struct tensor *tensor = &env->network->tensors[layer->node->tensor];
    const struct device_layout *plain = env->device->kind->layout(env->device, ORDER_PLAIN, PRECISION_FP32,
                                                                  tensor->ndim, tensor->shape),
                               *there, *back = NULL;
    size_t bytes;

    layer_put_out(layer);
    layer->forward = layer->evaluate = env->device->kind->convolution(env->device, &shape);
    if (shape.images)
        env->layouts[0] = layer->forward->layouts[ARG_SRC];
    there = layer->forward->layouts[ARG_WEIGHTS];
    layer->pack = env->device->kind->reorder(env->device, plain, there, false);
    if (env->training)
        convolution_create_back(layer, &shape, tensor);
    if (layer->back != NULL)
        back = layer->back->layouts[ARG_WEIGHTS];
    bytes = aligned(there->bytes);
    if (back == NULL || there == back) {
        layer->weights = layer->weights_back = layer_own(layer, bytes);
        return;
    }
    layer->pack_back = env->device->kind->reorder(env->device, plain, back, false);
    layer->weights = layer_own(layer, bytes + back->bytes);
    layer->weights_back = (float *)((char *)layer->weights + bytes);
}

static void convolution_refresh(struct layer *layer, const float *const *masters)
{
    void *master = readable(masters[layer->node->tensor]);

    layer_run(layer, layer->pack, (void *[NARG]){ [ARG_SRC] = master, [ARG_DST] = layer->weights });
    if (layer->pack_back != NULL)
        layer_run(layer, layer->pack_back, (void *[NARG]){ [ARG_SRC] = master, [ARG_DST] = layer->weights_back });
}

static void convolution_forward(struct layer *layer, enum mode mode)
{
    (void)mode;
    layer_run(layer, layer->forward,
              (void *[NARG]){ [ARG_SRC] = layer->in, [ARG_WEIGHTS] = layer->weights, [ARG_DST] = layer->out });
}

static void convolution_back_weights(struct layer *layer)
{
    layer_run(layer, layer->back_weights,
              (void *[NARG]){
                  [ARG_SRC] = layer->in, [ARG_DIFF_DST] = layer->diff_out, [ARG_DIFF_WEIGHTS] = layer->env->staging });
}

static void convolution_back_data(struct layer *layer)
{
    if (layer->diff_in != NULL)
        layer_run(layer, layer->back,
                  (void *[NARG]){ [ARG_DIFF_DST] = layer->diff_out,
                                  [ARG_WEIGHTS] = layer->weights_back,
                                  [ARG_DIFF_SRC] = layer->diff_in });
}

static void convolution_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    convolution_back_weights(layer);
    layer_run(layer, accumulate ? layer->unpack_add : layer->unpack,
              (void *[NARG]){ [ARG_SRC] = layer->env->staging, [ARG_DST] = gradients[layer->node->tensor] });
    convolution_back_data(layer);
}

void layer_convolve(struct layer *layer)
{
    if (layer->node->kind != NODE_CONVOLUTION)
        return;
    convolution_forward(layer, MODE_TRAIN);
    convolution_back_weights(layer);
    convolution_back_data(layer);
}

/* ---- Pooling ---- */

static void pool_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct node *node = layer->node;
    const struct value *in = layer_value(env, node->in);
    const struct device_pool shape = { .n = env->batch,
                                       .channels = in->channels,
                                       .height = in->height,
                                       .width = in->width,
                                       .kernel = node->kernel,
                                       .stride = node->stride,
                                       .pad = node->pad,
                                       .average = node->kind == NODE_AVERAGE };

    layer_put_out(layer);
    layer->evaluate = env->device->kind->pool(env->device, &shape, false);
    if (!env->training)
        return;
    layer->forward = env->device->kind->pool(env->device, &shape, true);
    layer->back = layer->forward->device->kind->back(layer->forward, ARG_DIFF_SRC);
    if (layer->forward->layouts[ARG_WORKSPACE] != NULL)
        layer->workspace_bytes = layer->forward->layouts[ARG_WORKSPACE]->bytes;
}

static void pool_forward(struct layer *layer, enum mode mode)
{
    layer_run(layer, mode == MODE_EVALUATE ? layer->evaluate : layer->forward,
              (void *[NARG]){ [ARG_SRC] = layer->in, [ARG_DST] = layer->out, [ARG_WORKSPACE] = layer->workspace });
}

static void pool_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    (void)gradients;
    (void)accumulate;
    layer_run(
        layer, layer->back,
        (void *[NARG]){
            [ARG_DIFF_DST] = layer->diff_out, [ARG_DIFF_SRC] = layer->diff_in, [ARG_WORKSPACE] = layer->workspace });
}

/* ---- Product: fp32 in either precision. The workspace has the input as a plain matrix, then its gradient. ---- */

static void product_create_back(struct layer *layer, uint32_t in, uint32_t out)
{
    struct device *device = layer->env->device;
    const uint32_t n = layer->env->batch;
    struct device_product gradient = { .rows = out, .inner = n, .columns = in, .src_columns = true };

    layer->back = device->kind->product(device, &(struct device_product){ .rows = n, .inner = out, .columns = in });
    layer->unpack = device->kind->product(device, &gradient);
    gradient.add = true;
    layer->unpack_add = device->kind->product(device, &gradient);
    if (layer->env->gradients != PRECISION_FP32) /* a product's gradient is */
        layer_stage(layer->env, (size_t)in * out * sizeof(float));
}

static void product_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const uint32_t n = env->batch, in = layer_value(env, layer->node->in)->channels,
                   out = layer_value(env, layer->node->out)->channels;
    const struct device_layout *flat =
        env->device->kind->layout(env->device, ORDER_PLAIN, PRECISION_FP32, 4, (uint32_t[]){ n, in, 1, 1 });
    const struct device_layout *from = env->layouts[layer->node->in];
    const size_t count = (size_t)in * out;

    env->layouts[layer->node->out] =
        env->device->kind->layout(env->device, ORDER_PLAIN, PRECISION_FP32, 2, (uint32_t[]){ n, out });
    layer->workspace_bytes = flat->bytes;
    layer->pack = env->device->kind->reorder(env->device, from, flat, false);
    layer->pack_back = env->device->kind->reorder(env->device, flat, from, false);
    layer->forward = env->device->kind->product(
        env->device,
        &(struct device_product){ .rows = n, .inner = in, .columns = out, .weights_columns = true, .bias = true });
    if (env->training)
        product_create_back(layer, in, out);
    layer->weights = layer_own(layer, (count + out) * sizeof(float));
    layer->bias = layer->weights + count;
}

static void product_refresh(struct layer *layer, const float *const *masters)
{
    const uint32_t k = layer->node->tensor;
    const struct tensor *tensors = layer->env->network->tensors;

    layer_take(layer->env, layer->weights, masters[k], tensors[k].count);
    layer_take(layer->env, layer->bias, masters[k + 1], tensors[k + 1].count);
}

static void product_forward(struct layer *layer, enum mode mode)
{
    (void)mode;
    layer_run(layer, layer->pack, (void *[NARG]){ [ARG_SRC] = layer->in, [ARG_DST] = layer->workspace });
    layer_run(layer, layer->forward,
              (void *[NARG]){ [ARG_SRC] = layer->workspace,
                              [ARG_WEIGHTS] = layer->weights,
                              [ARG_BIAS] = layer->bias,
                              [ARG_DST] = layer->out });
}

static void product_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    struct environment *env = layer->env;
    const uint32_t k = layer->node->tensor;
    void *to = env->gradients == PRECISION_FP32 ? gradients[k] : env->staging;

    layer_run(layer, accumulate ? layer->unpack_add : layer->unpack,
              (void *[NARG]){ [ARG_SRC] = layer->diff_out, [ARG_WEIGHTS] = layer->workspace, [ARG_DST] = to });
    if (to != gradients[k])
        layer_give(env, gradients[k], to, 1, env->network->tensors[k].count, accumulate);
    layer_give(env, gradients[k + 1], layer->diff_out, env->batch, env->network->tensors[k + 1].count, accumulate);
    layer_run(
        layer, layer->back,
        (void *[NARG]){ [ARG_SRC] = layer->diff_out, [ARG_WEIGHTS] = layer->weights, [ARG_DST] = layer->workspace });
    layer_run(layer, layer->pack_back, (void *[NARG]){ [ARG_SRC] = layer->workspace, [ARG_DST] = layer->diff_in });
}

/* ---- By kind ---- */

static const struct row {
    void (*create)(struct layer *layer);
    void (*refresh)(struct layer *layer, const float *const *masters); /* NULL: it has no tensors */
    void (*forward)(struct layer *layer, enum mode mode);
    void (*backward)(struct layer *layer, void *const *gradients, bool accumulate);
} table[NODE_NKIND] = {
    [NODE_CONVOLUTION] = { convolution_create, convolution_refresh, convolution_forward, convolution_backward },
    [NODE_NORM] = { norm_create, norm_refresh, norm_forward, norm_backward },
    [NODE_LARGEST] = { pool_create, NULL, pool_forward, pool_backward },
    [NODE_AVERAGE] = { pool_create, NULL, pool_forward, pool_backward },
    [NODE_PRODUCT] = { product_create, product_refresh, product_forward, product_backward },
};

void layer_create(struct layer *layer, struct environment *env, const struct node *node)
{
    *layer = (struct layer){ .node = node, .env = env };
    table[node->kind].create(layer);
}

void layer_destroy(struct layer *layer)
{
    free(layer->host);
}

void layer_refresh(struct layer *layer, const float *const *masters)
{
    if (table[layer->node->kind].refresh != NULL)
        table[layer->node->kind].refresh(layer, masters);
}

void layer_forward(struct layer *layer, enum mode mode)
{
    table[layer->node->kind].forward(layer, mode);
}

void layer_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    /* The end of a block adds the second part itself. */
    if (layer->diff_more != NULL && layer->node->in2 == 0)
        layer->env->device->kind->add(layer->env->device, layer_elements(layer->env, layer->node->out), layer->diff_out,
                                      layer->diff_more);
    table[layer->node->kind].backward(layer, gradients, accumulate);
}
