/* SPDX-License-Identifier: BSD-3-Clause */
#include "layers.h"

#include "program.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
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

static void *own(struct layer *layer, size_t bytes)
{
    layer->owned = layer_memory(bytes);
    layer->env->weights += bytes;
    return layer->owned;
}

static void stage(struct environment *env, size_t bytes)
{
    if (env->staged < bytes)
        env->staged = bytes;
}

/* Operations take inputs and outputs alike as void *. */
static void *readable(const void *memory)
{
    return (void *)(uintptr_t)memory;
}

static void run(struct layer *layer, struct dnn_op *op, void *const at[DNN_NARG])
{
    dnn_run(op, at, layer->env->scratch);
}

static const struct value *value(const struct environment *env, uint32_t k)
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

/* Set the layout of a layer's output, which its gradient shares. */
static const struct dnn_layout *put_out(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct value *out = value(env, layer->node->out);

    return env->layouts[layer->node->out] =
               dnn_activation(env->dnn, env->batch, out->channels, out->height, out->width);
}

/* Write, or add, a gradient that oneDNN did not write in place. */
static void give(const struct environment *env, void *gradient, const float *from, size_t n, bool accumulate)
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
    const struct value *in = value(layer->env, node->in), *out = value(layer->env, node->out);

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
    stage(layer->env, dnn_bytes(gradient));
}

static void convolution_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct dnn_convolution shape = convolution_shape(layer);
    const struct tensor *tensor = &env->network->tensors[layer->node->tensor];
    const struct dnn_layout *plain = dnn_plain(env->dnn, PRECISION_FP32, tensor->ndim, tensor->shape), *there,
                            *back = NULL;
    size_t bytes;

    put_out(layer);
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
        layer->weights = layer->weights_back = own(layer, bytes);
        return;
    }
    layer->pack_back = dnn_reorder(env->dnn, plain, back, false);
    layer->weights = own(layer, bytes + dnn_bytes(back));
    layer->weights_back = (float *)((char *)layer->weights + bytes);
}

static void convolution_refresh(struct layer *layer, const float *const *masters)
{
    void *master = readable(masters[layer->node->tensor]);

    run(layer, layer->pack, (void *[DNN_NARG]){ [DNN_SRC] = master, [DNN_DST] = layer->weights });
    if (layer->pack_back != NULL)
        run(layer, layer->pack_back, (void *[DNN_NARG]){ [DNN_SRC] = master, [DNN_DST] = layer->weights_back });
}

static void convolution_forward(struct layer *layer, enum mode mode)
{
    (void)mode;
    run(layer, layer->forward,
        (void *[DNN_NARG]){ [DNN_SRC] = layer->in, [DNN_WEIGHTS] = layer->weights, [DNN_DST] = layer->out });
}

static void convolution_back_weights(struct layer *layer)
{
    run(layer, layer->back_weights,
        (void *[DNN_NARG]){
            [DNN_SRC] = layer->in, [DNN_DIFF_DST] = layer->diff_out, [DNN_DIFF_WEIGHTS] = layer->env->staging });
}

static void convolution_back_data(struct layer *layer)
{
    if (layer->diff_in != NULL)
        run(layer, layer->back,
            (void *[DNN_NARG]){ [DNN_DIFF_DST] = layer->diff_out,
                                [DNN_WEIGHTS] = layer->weights_back,
                                [DNN_DIFF_SRC] = layer->diff_in });
}

static void convolution_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    float *staging = layer->env->staging;

    convolution_back_weights(layer);
    run(layer, accumulate ? layer->unpack_add : layer->unpack,
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

/* ---- Batch norm ---- */

static void norm_create_training(struct layer *layer, const struct dnn_layout *layout)
{
    struct environment *env = layer->env;
    const bool relu = layer->node->relu;
    const enum dnn_norm norm = env->sum == NULL ? DNN_NORM_BATCH : DNN_NORM_GIVEN;

    layer->forward = dnn_norm(env->dnn, layout, norm, relu);
    layer->back = dnn_norm_back(env->dnn, layout, norm, relu, layer->forward);
    if (dnn_layout(layer->forward, DNN_WORKSPACE) != NULL)
        layer->workspace_bytes = dnn_bytes(dnn_layout(layer->forward, DNN_WORKSPACE));
    if (env->sum == NULL)
        return;
    layer->measure = dnn_norm(env->dnn, layout, DNN_NORM_BATCH, false);
    if (dnn_layout(layer->measure, DNN_WORKSPACE) != NULL)
        layer->workspace_bytes += dnn_bytes(dnn_layout(layer->measure, DNN_WORKSPACE));
    layer->correct = dnn_norm(env->dnn, layout, DNN_NORM_ONLY, false);
    stage(env, dnn_bytes(layout));
}

static void norm_create(struct layer *layer)
{
    const struct dnn_layout *layout = put_out(layer);
    const uint32_t channels = value(layer->env, layer->node->in)->channels;
    float **const parts[] = { &layer->weights,
                              &layer->bias,
                              &layer->diff_scale,
                              &layer->diff_shift,
                              &layer->correct_scale,
                              &layer->correct_shift,
                              &layer->statistics.running_mean,
                              &layer->statistics.running_variance,
                              &layer->statistics.mean,
                              &layer->statistics.variance,
                              &layer->statistics.unbiased };
    const size_t npart = sizeof parts / sizeof *parts;
    float *memory = own(layer, npart * channels * sizeof *memory);

    /* diff_scale and diff_shift are contiguous, since they are summed over the ranks together. */
    for (size_t k = 0; k < npart; k++)
        *parts[k] = memory + k * channels;
    layer->evaluate = dnn_norm(layer->env->dnn, layout, DNN_NORM_ONLY, layer->node->relu);
    if (layer->env->training)
        norm_create_training(layer, layout);
    for (uint32_t c = 0; c < channels; c++)
        layer->statistics.running_variance[c] = 1;
}

static void norm_refresh(struct layer *layer, const float *const *masters)
{
    const uint32_t k = layer->node->tensor;
    const size_t bytes = layer->env->network->tensors[k].count * sizeof(float);

    memcpy(layer->weights, masters[k], bytes);
    memcpy(layer->bias, masters[k + 1], bytes);
}

static void norm_run(struct layer *layer, struct dnn_op *op, float *mean, float *variance)
{
    run(layer, op,
        (void *[DNN_NARG]){ [DNN_SRC] = layer->in,
                            [DNN_DST] = layer->out,
                            [DNN_MEAN] = mean,
                            [DNN_VARIANCE] = variance,
                            [DNN_SCALE] = layer->weights,
                            [DNN_SHIFT] = layer->bias,
                            [DNN_WORKSPACE] = layer->workspace });
}

/*
 * The statistics of all ranks' images from those of each rank. With means m and variances v over equal numbers of
 * images, the mean is that of m, and the variance that of v + (m - mean)^2.
 */
static void norm_measure(struct layer *layer)
{
    const struct environment *env = layer->env;
    const struct norm_statistics *s = &layer->statistics;
    const uint32_t channels = value(env, layer->node->in)->channels;
    float *own_mean = layer->correct_scale;

    norm_run(layer, layer->measure, s->mean, s->variance);
    memcpy(own_mean, s->mean, channels * sizeof *own_mean);
    env->sum(env->context, s->mean, channels);
    for (uint32_t c = 0; c < channels; c++) {
        s->mean[c] /= (float)env->nsum;
        s->variance[c] += (own_mean[c] - s->mean[c]) * (own_mean[c] - s->mean[c]);
    }
    env->sum(env->context, s->variance, channels);
    for (uint32_t c = 0; c < channels; c++)
        s->variance[c] /= (float)env->nsum;
}

/* Number of values in a channel's statistics. */
static double norm_count(const struct layer *layer)
{
    const struct value *in = value(layer->env, layer->node->in);

    return (double)layer->env->batch * in->height * in->width * (layer->env->sum == NULL ? 1 : layer->env->nsum);
}

static void norm_forward(struct layer *layer, enum mode mode)
{
    struct norm_statistics *s = &layer->statistics;
    const double count = norm_count(layer);

    if (mode == MODE_EVALUATE) {
        norm_run(layer, layer->evaluate, s->running_mean, s->running_variance);
        return;
    }
    if (layer->measure != NULL && mode == MODE_TRAIN)
        norm_measure(layer);
    norm_run(layer, layer->forward, s->mean, s->variance);
    for (uint32_t c = 0; c < value(layer->env, layer->node->in)->channels; c++)
        s->unbiased[c] = count > 1 ? (float)(s->variance[c] * (count / (count - 1))) : s->variance[c];
}

/*
 * The backward operation took the statistics for constants. Their dependence on all inputs changes the gradient by
 * -scale / deviation / count x (sum of dy + normalised x times sum of dy x normalised x), with sums over all ranks'
 * images.
 */
static void norm_correct(struct layer *layer)
{
    const struct environment *env = layer->env;
    const struct norm_statistics *s = &layer->statistics;
    const uint32_t channels = value(env, layer->node->in)->channels;
    float *scale = layer->correct_scale, *shift = layer->correct_shift; /* contiguous, like the sums */

    memcpy(scale, layer->diff_scale, 2 * channels * sizeof *scale);
    env->sum(env->context, scale, (size_t)2 * channels);
    for (uint32_t c = 0; c < channels; c++) {
        const float factor = (float)(-layer->weights[c] / sqrt((double)s->variance[c] + 1e-5) / norm_count(layer));

        scale[c] *= factor;
        shift[c] *= factor;
    }
    run(layer, layer->correct,
        (void *[DNN_NARG]){ [DNN_SRC] = layer->in,
                            [DNN_DST] = env->staging,
                            [DNN_MEAN] = s->mean,
                            [DNN_VARIANCE] = s->variance,
                            [DNN_SCALE] = scale,
                            [DNN_SHIFT] = shift });
    elements_add(layer_elements(env, layer->node->in), layer->diff_in, env->staging);
}

static void norm_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    const uint32_t k = layer->node->tensor;
    const size_t channels = layer->env->network->tensors[k].count;

    run(layer, layer->back,
        (void *[DNN_NARG]){ [DNN_SRC] = layer->in,
                            [DNN_MEAN] = layer->statistics.mean,
                            [DNN_VARIANCE] = layer->statistics.variance,
                            [DNN_SCALE] = layer->weights,
                            [DNN_WORKSPACE] = layer->workspace,
                            [DNN_DIFF_DST] = layer->diff_out,
                            [DNN_DIFF_SRC] = layer->diff_in,
                            [DNN_DIFF_SCALE] = layer->diff_scale,
                            [DNN_DIFF_SHIFT] = layer->diff_shift });
    if (layer->correct != NULL)
        norm_correct(layer);
    give(layer->env, gradients[k], layer->diff_scale, channels, accumulate);
    give(layer->env, gradients[k + 1], layer->diff_shift, channels, accumulate);
}

/* ---- The end of a block: in place ---- */

static void add_create(struct layer *layer)
{
    put_out(layer);
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
    const struct value *in = value(env, node->in);
    const struct dnn_pool shape = { .n = env->batch,
                                    .channels = in->channels,
                                    .height = in->height,
                                    .width = in->width,
                                    .kernel = node->kernel,
                                    .stride = node->stride,
                                    .pad = node->pad,
                                    .average = node->kind == NODE_AVERAGE };

    put_out(layer);
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
    run(layer, mode == MODE_EVALUATE ? layer->evaluate : layer->forward,
        (void *[DNN_NARG]){ [DNN_SRC] = layer->in, [DNN_DST] = layer->out, [DNN_WORKSPACE] = layer->workspace });
}

static void pool_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    (void)gradients;
    (void)accumulate;
    run(layer, layer->back,
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
        stage(layer->env, (size_t)in * out * sizeof(float));
}

static void product_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const uint32_t n = env->batch, in = value(env, layer->node->in)->channels,
                   out = value(env, layer->node->out)->channels;
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
    layer->weights = own(layer, (count + 2 * (size_t)out) * sizeof(float));
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
    run(layer, layer->pack, (void *[DNN_NARG]){ [DNN_SRC] = layer->in, [DNN_DST] = layer->workspace });
    run(layer, layer->forward,
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

    run(layer, accumulate ? layer->unpack_add : layer->unpack,
        (void *[DNN_NARG]){ [DNN_SRC] = layer->diff_out, [DNN_WEIGHTS] = layer->workspace, [DNN_DST] = to });
    if (to != gradients[k])
        give(env, gradients[k], to, env->network->tensors[k].count, accumulate);
    memset(layer->diff_shift, 0, nclass * sizeof *layer->diff_shift);
    for (uint32_t n = 0; n < env->batch; n++)
        for (size_t c = 0; c < nclass; c++)
            layer->diff_shift[c] += diff[n * nclass + c];
    give(env, gradients[k + 1], layer->diff_shift, nclass, accumulate);
    run(layer, layer->back,
        (void *[DNN_NARG]){
            [DNN_SRC] = layer->diff_out, [DNN_WEIGHTS] = layer->weights, [DNN_DST] = layer->workspace });
    run(layer, layer->pack_back, (void *[DNN_NARG]){ [DNN_SRC] = layer->workspace, [DNN_DST] = layer->diff_in });
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
