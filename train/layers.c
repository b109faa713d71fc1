/* SPDX-License-Identifier: BSD-3-Clause */
#include "layer_parts.h"

#include "program.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Helpers ---- */

void *layer_memory(size_t bytes)
{
    void *memory;

    if (posix_memalign(&memory, DNN_ALIGNMENT, bytes > 0 ? bytes : 1) != 0)
        give_up(1, "no memory for %zu bytes of the model", bytes);
    memset(memory, 0, bytes);
    return memory;
}

static size_t aligned(size_t bytes)
{
    return (bytes + DNN_ALIGNMENT - 1) / DNN_ALIGNMENT * DNN_ALIGNMENT;
}

void *layer_own(struct layer *layer, size_t bytes)
{
    layer->owned = layer_memory(bytes);
    layer->env->weights += bytes;
    return layer->owned;
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

void layer_run(struct layer *layer, struct dnn_op *op, void *const at[DNN_NARG])
{
    dnn_run(op, at, layer->env->scratch);
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

    return (struct elements){ precision, env->threads,
                              dnn_bytes(env->layouts[k]) / (precision == PRECISION_BF16 ? 2 : 4) };
}

const struct dnn_layout *layer_put_out(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct value *out = layer_value(env, layer->node->out);

    return env->layouts[layer->node->out] =
               dnn_activation(env->dnn, env->batch, out->channels, out->height, out->width);
}

void layer_give(const struct environment *env, void *gradient, const float *from, size_t n, bool accumulate)
{
    float *to = gradient;

    assert(!accumulate || env->gradients == PRECISION_FP32);
    if (env->gradients == PRECISION_BF16) {
        elements_round(gradient, from, n);
        return;
    }
    for (size_t k = 0; k < n; k++)
        to[k] = accumulate ? to[k] + from[k] : from[k];
}

/* ---- Convolution ---- */

static struct dnn_convolution convolution_shape(const struct layer *layer)
{
    const struct node *node = layer->node;
    const struct value *in = layer_value(layer->env, node->in), *out = layer_value(layer->env, node->out);

    return (struct dnn_convolution){ .n = layer->env->batch,
                                     .in = in->channels,
                                     .out = out->channels,
                                     .height = in->height,
                                     .width = in->width,
                                     .kernel = node->kernel,
                                     .stride = node->stride,
                                     .pad = node->pad,
                                     .images = node->in == 0 };
}

static void convolution_create_back(struct layer *layer, const struct dnn_convolution *shape,
                                    const struct tensor *tensor)
{
    struct dnn *dnn = layer->env->dnn;
    const struct dnn_layout *plain = dnn_plain(dnn, layer->env->gradients, tensor->ndim, tensor->shape), *gradient;

    if (!shape->images)
        layer->back = dnn_convolution_back_data(dnn, shape, layer->forward);
    layer->back_weights = dnn_convolution_back_weights(dnn, shape, layer->forward);
    gradient = dnn_layout(layer->back_weights, DNN_DIFF_WEIGHTS);
    layer->unpack = dnn_reorder(dnn, gradient, plain, false);
    if (layer->env->gradients == PRECISION_FP32)
        layer->unpack_add = dnn_reorder(dnn, gradient, plain, true);
    layer_stage(layer->env, dnn_bytes(gradient));
}

static void convolution_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct dnn_convolution shape = convolution_shape(layer);
    const struct tensor *tensor = &env->network->tensors[layer->node->tensor];
    const struct dnn_layout *plain = dnn_plain(env->dnn, PRECISION_FP32, tensor->ndim, tensor->shape), *there,
                            *back = NULL;
    size_t bytes;

    layer_put_out(layer);
    layer->forward = layer->evaluate = dnn_convolution(env->dnn, &shape);
    if (shape.images)
        env->layouts[0] = dnn_layout(layer->forward, DNN_SRC);
    there = dnn_layout(layer->forward, DNN_WEIGHTS);
    layer->pack = dnn_reorder(env->dnn, plain, there, false);
    if (env->training)
        convolution_create_back(layer, &shape, tensor);
    if (layer->back != NULL)
        back = dnn_layout(layer->back, DNN_WEIGHTS);
    bytes = aligned(dnn_bytes(there));
    if (back == NULL || dnn_same(there, back)) {
        layer->weights = layer->weights_back = layer_own(layer, bytes);
        return;
    }
    layer->pack_back = dnn_reorder(env->dnn, plain, back, false);
    layer->weights = layer_own(layer, bytes + dnn_bytes(back));
    layer->weights_back = (float *)((char *)layer->weights + bytes);
}

static void convolution_refresh(struct layer *layer, const float *const *masters)
{
    void *master = readable(masters[layer->node->tensor]);

    layer_run(layer, layer->pack, (void *[DNN_NARG]){ [DNN_SRC] = master, [DNN_DST] = layer->weights });
    if (layer->pack_back != NULL)
        layer_run(layer, layer->pack_back, (void *[DNN_NARG]){ [DNN_SRC] = master, [DNN_DST] = layer->weights_back });
}

static void convolution_forward(struct layer *layer, enum mode mode)
{
    (void)mode;
    layer_run(layer, layer->forward,
              (void *[DNN_NARG]){ [DNN_SRC] = layer->in, [DNN_WEIGHTS] = layer->weights, [DNN_DST] = layer->out });
}

static void convolution_back_weights(struct layer *layer)
{
    layer_run(layer, layer->back_weights,
              (void *[DNN_NARG]){
                  [DNN_SRC] = layer->in, [DNN_DIFF_DST] = layer->diff_out, [DNN_DIFF_WEIGHTS] = layer->env->staging });
}

static void convolution_back_data(struct layer *layer)
{
    if (layer->diff_in != NULL)
        layer_run(layer, layer->back,
                  (void *[DNN_NARG]){ [DNN_DIFF_DST] = layer->diff_out,
                                      [DNN_WEIGHTS] = layer->weights_back,
                                      [DNN_DIFF_SRC] = layer->diff_in });
}

static void convolution_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    float *staging = layer->env->staging;

    convolution_back_weights(layer);
    layer_run(layer, accumulate ? layer->unpack_add : layer->unpack,
              (void *[DNN_NARG]){ [DNN_SRC] = staging, [DNN_DST] = gradients[layer->node->tensor] });
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

/* ---- The end of a block: in place ---- */

static void add_create(struct layer *layer)
{
    layer_put_out(layer);
}

static void add_forward(struct layer *layer, enum mode mode)
{
    (void)mode;
    elements_add_relu(layer_elements(layer->env, layer->node->out), layer->out, layer->in2);
}

static void add_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    (void)gradients;
    (void)accumulate;
    elements_back_relu(layer_elements(layer->env, layer->node->out), layer->diff_out, layer->diff_more, layer->out);
}

/* ---- Pooling ---- */

static void pool_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct node *node = layer->node;
    const struct value *in = layer_value(env, node->in);
    const struct dnn_pool shape = { .n = env->batch,
                                    .channels = in->channels,
                                    .height = in->height,
                                    .width = in->width,
                                    .kernel = node->kernel,
                                    .stride = node->stride,
                                    .pad = node->pad,
                                    .average = node->kind == NODE_AVERAGE };

    layer_put_out(layer);
    layer->evaluate = dnn_pool(env->dnn, &shape, false);
    if (!env->training)
        return;
    layer->forward = dnn_pool(env->dnn, &shape, true);
    layer->back = dnn_pool_back(env->dnn, &shape, layer->forward);
    if (dnn_layout(layer->forward, DNN_WORKSPACE) != NULL)
        layer->workspace_bytes = dnn_bytes(dnn_layout(layer->forward, DNN_WORKSPACE));
}

static void pool_forward(struct layer *layer, enum mode mode)
{
    layer_run(layer, mode == MODE_EVALUATE ? layer->evaluate : layer->forward,
              (void *[DNN_NARG]){ [DNN_SRC] = layer->in, [DNN_DST] = layer->out, [DNN_WORKSPACE] = layer->workspace });
}

static void pool_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    (void)gradients;
    (void)accumulate;
    layer_run(
        layer, layer->back,
        (void *[DNN_NARG]){
            [DNN_DIFF_DST] = layer->diff_out, [DNN_DIFF_SRC] = layer->diff_in, [DNN_WORKSPACE] = layer->workspace });
}

/* ---- Product: fp32 in either precision. The workspace has the input as a plain matrix, then its gradient. ---- */

static void product_create_back(struct layer *layer, uint32_t in, uint32_t out)
{
    struct dnn *dnn = layer->env->dnn;
    const uint32_t n = layer->env->batch;
    struct dnn_product gradient = { .rows = out, .inner = n, .columns = in, .src_columns = true };

    layer->back = dnn_product(dnn, &(struct dnn_product){ .rows = n, .inner = out, .columns = in });
    layer->unpack = dnn_product(dnn, &gradient);
    gradient.add = true;
    layer->unpack_add = dnn_product(dnn, &gradient);
    if (layer->env->gradients == PRECISION_BF16) /* a product's gradient is fp32 */
        layer_stage(layer->env, (size_t)in * out * sizeof(float));
}

static void product_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const uint32_t n = env->batch, in = layer_value(env, layer->node->in)->channels,
                   out = layer_value(env, layer->node->out)->channels;
    const struct dnn_layout *flat = dnn_plain(env->dnn, PRECISION_FP32, 4, (uint32_t[]){ n, in, 1, 1 });
    const struct dnn_layout *from = env->layouts[layer->node->in];
    const size_t count = (size_t)in * out;

    env->layouts[layer->node->out] = dnn_plain(env->dnn, PRECISION_FP32, 2, (uint32_t[]){ n, out });
    layer->workspace_bytes = dnn_bytes(flat);
    layer->pack = dnn_reorder(env->dnn, from, flat, false);
    layer->pack_back = dnn_reorder(env->dnn, flat, from, false);
    layer->forward = dnn_product(
        env->dnn,
        &(struct dnn_product){ .rows = n, .inner = in, .columns = out, .weights_columns = true, .bias = true });
    if (env->training)
        product_create_back(layer, in, out);
    layer->weights = layer_own(layer, (count + 2 * (size_t)out) * sizeof(float));
    layer->bias = layer->weights + count;
    layer->diff_shift = layer->bias + out;
}

static void product_refresh(struct layer *layer, const float *const *masters)
{
    const uint32_t k = layer->node->tensor;
    const struct tensor *tensors = layer->env->network->tensors;

    memcpy(layer->weights, masters[k], tensors[k].count * sizeof(float));
    memcpy(layer->bias, masters[k + 1], tensors[k + 1].count * sizeof(float));
}

static void product_forward(struct layer *layer, enum mode mode)
{
    (void)mode;
    layer_run(layer, layer->pack, (void *[DNN_NARG]){ [DNN_SRC] = layer->in, [DNN_DST] = layer->workspace });
    layer_run(layer, layer->forward,
              (void *[DNN_NARG]){ [DNN_SRC] = layer->workspace,
                                  [DNN_WEIGHTS] = layer->weights,
                                  [DNN_BIAS] = layer->bias,
                                  [DNN_DST] = layer->out });
}

static void product_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    struct environment *env = layer->env;
    const uint32_t k = layer->node->tensor;
    const size_t nclass = env->network->tensors[k + 1].count;
    const float *diff = layer->diff_out;
    void *to = env->gradients == PRECISION_FP32 ? gradients[k] : env->staging;

    layer_run(layer, accumulate ? layer->unpack_add : layer->unpack,
              (void *[DNN_NARG]){ [DNN_SRC] = layer->diff_out, [DNN_WEIGHTS] = layer->workspace, [DNN_DST] = to });
    if (to != gradients[k])
        layer_give(env, gradients[k], to, env->network->tensors[k].count, accumulate);
    memset(layer->diff_shift, 0, nclass * sizeof *layer->diff_shift);
    for (uint32_t n = 0; n < env->batch; n++)
        for (size_t c = 0; c < nclass; c++)
            layer->diff_shift[c] += diff[n * nclass + c];
    layer_give(env, gradients[k + 1], layer->diff_shift, nclass, accumulate);
    layer_run(layer, layer->back,
              (void *[DNN_NARG]){
                  [DNN_SRC] = layer->diff_out, [DNN_WEIGHTS] = layer->weights, [DNN_DST] = layer->workspace });
    layer_run(layer, layer->pack_back, (void *[DNN_NARG]){ [DNN_SRC] = layer->workspace, [DNN_DST] = layer->diff_in });
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
    [NODE_ADD] = { add_create, NULL, add_forward, add_backward },
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
    free(layer->owned);
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
    if (layer->diff_more != NULL && layer->node->kind != NODE_ADD)
        elements_add(layer_elements(layer->env, layer->node->out), layer->diff_out, layer->diff_more);
    table[layer->node->kind].backward(layer, gradients, accumulate);
}
