/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch norm, also synchronised between ranks. */
#include "layer_parts.h"

#include "allocate.h"

#include <math.h>
#include <string.h>

static uint32_t norm_channels(const struct layer *layer)
{
    return layer_value(layer->env, layer->node->in)->channels;
}

static enum device_fused norm_fused(const struct node *node)
{
    return node->in2 != 0 ? FUSED_ADD_RELU : node->relu ? FUSED_RELU : FUSED_NOTHING;
}

/* Statistics lie as the norms' tensors do: means where scales are, variances where shifts are. */
static size_t norm_at(const struct layer *layer)
{
    const struct tensor *tensors = layer->env->network->tensors;
    size_t at = 0;

    for (uint32_t t = 0; t < layer->node->tensor; t++)
        at += tensors[t].kind == TENSOR_NORM ? tensors[t].count : 0;
    return at;
}

static void norm_create_training(struct layer *layer, const struct device_layout *layout)
{
    struct environment *env = layer->env;

    layer->forward = env->device->kind->norm(env->device, layout, env->sum == NULL ? NORM_BATCH : NORM_GIVEN,
                                             norm_fused(layer->node));
    layer->back = layer->forward->device->kind->back(layer->forward, ARG_DIFF_SRC);
    if (layer->forward->layouts[ARG_WORKSPACE] != NULL)
        layer->workspace_bytes = layer->forward->layouts[ARG_WORKSPACE]->bytes;
    if (env->sum == NULL)
        return;
    layer->measure = env->device->kind->norm(env->device, layout, NORM_BATCH, FUSED_NOTHING);
    if (layer->measure->layouts[ARG_WORKSPACE] != NULL)
        layer->workspace_bytes += layer->measure->layouts[ARG_WORKSPACE]->bytes;
    layer->correct = env->device->kind->norm(env->device, layout, NORM_ONLY, FUSED_NOTHING);
    layer->host = allocate((size_t)6 * norm_channels(layer), sizeof *layer->host);
    layer_stage(env, layout->bytes);
}

void norm_create(struct layer *layer)
{
    struct environment *env = layer->env;
    const struct device_layout *layout = layer_put_out(layer);
    const uint32_t channels = norm_channels(layer);

    /* Contiguous, since they are copied together. */
    layer->weights = layer_own(layer, (size_t)6 * channels * sizeof *layer->weights);
    layer->bias = layer->weights + channels;
    layer->diff_scale = layer->bias + channels;
    layer->diff_shift = layer->diff_scale + channels;
    layer->correction = layer->diff_shift + channels;
    layer->at = norm_at(layer);
    env->nstatistic += (size_t)2 * channels;
    layer->evaluate = env->device->kind->norm(env->device, layout, NORM_ONLY, norm_fused(layer->node));
    if (env->training)
        norm_create_training(layer, layout);
}

void norm_refresh(struct layer *layer, const float *const *masters)
{
    const uint32_t k = layer->node->tensor, channels = norm_channels(layer);

    layer_take(layer->env, layer->weights, masters[k], channels);
    layer_take(layer->env, layer->bias, masters[k + 1], channels);
}

/* statistics: env->measured or env->running */
static void norm_run(struct layer *layer, struct device_op *op, float *statistics)
{
    float *mean = statistics + layer->at, *variance = mean + norm_channels(layer);

    layer_run(layer, op,
              (void *[NARG]){ [ARG_SRC] = layer->in,
                              [ARG_ADDEND] = layer->in2,
                              [ARG_DST] = layer->out,
                              [ARG_MEAN] = mean,
                              [ARG_VARIANCE] = variance,
                              [ARG_SCALE] = layer->weights,
                              [ARG_SHIFT] = layer->bias,
                              [ARG_WORKSPACE] = layer->workspace });
}

/*
 * The statistics of all ranks' images from those of each rank. With means m and variances v over equal numbers of
 * images, the mean is that of m, and the variance that of v + (m - mean)^2.
 */
static void norm_measure(struct layer *layer)
{
    const struct environment *env = layer->env;
    const uint32_t channels = norm_channels(layer);
    float *mean = layer->host, *variance = mean + channels, *own_mean = variance + channels;

    norm_run(layer, layer->measure, env->measured);
    env->device->kind->copy_out(env->device, mean, env->measured + layer->at, (size_t)2 * channels * sizeof *mean);
    memcpy(own_mean, mean, channels * sizeof *own_mean);
    env->sum(env->context, mean, channels);
    for (uint32_t c = 0; c < channels; c++) {
        mean[c] /= (float)env->nsum;
        variance[c] += (own_mean[c] - mean[c]) * (own_mean[c] - mean[c]);
    }
    env->sum(env->context, variance, channels);
    for (uint32_t c = 0; c < channels; c++)
        variance[c] /= (float)env->nsum;
    env->device->kind->copy_in(env->device, env->measured + layer->at, mean, (size_t)2 * channels * sizeof *mean);
}

/* Number of values in a channel's statistics. */
static double norm_count(const struct layer *layer)
{
    const struct value *in = layer_value(layer->env, layer->node->in);

    return (double)layer->env->batch * in->height * in->width * (layer->env->sum == NULL ? 1 : layer->env->nsum);
}

void layer_unbias(const struct layer *layer, double *factors)
{
    const double count = norm_count(layer);
    const uint32_t channels = norm_channels(layer);

    if (layer->node->kind != NODE_NORM)
        return;
    for (uint32_t c = 0; c < channels; c++) {
        factors[layer->at + c] = 1;
        factors[layer->at + channels + c] = count > 1 ? count / (count - 1) : 1;
    }
}

void norm_forward(struct layer *layer, enum mode mode)
{
    if (mode == MODE_EVALUATE) {
        norm_run(layer, layer->evaluate, layer->env->running);
        return;
    }
    if (layer->measure != NULL && mode == MODE_TRAIN)
        norm_measure(layer);
    norm_run(layer, layer->forward, layer->env->measured);
}

/*
 * The backward operation took the statistics for constants. Their dependence on all inputs changes the gradient by
 * -scale / deviation / count x (sum of dy + normalised x times sum of dy x normalised x), with sums over all ranks'
 * images.
 */
static void norm_correct(struct layer *layer)
{
    const struct environment *env = layer->env;
    const uint32_t channels = norm_channels(layer);
    const float *variance = layer->host + channels; /* from norm_measure() */
    float *weights = layer->host + 2 * channels, *sums = weights + 2 * channels;

    env->device->kind->copy_out(env->device, weights, layer->weights, (size_t)4 * channels * sizeof *weights);
    env->sum(env->context, sums, (size_t)2 * channels);
    for (uint32_t c = 0; c < channels; c++) {
        const float factor = (float)(-weights[c] / sqrt((double)variance[c] + NORM_EPSILON) / norm_count(layer));

        sums[c] *= factor;
        sums[channels + c] *= factor;
    }
    env->device->kind->copy_in(env->device, layer->correction, sums, (size_t)2 * channels * sizeof *sums);
    layer_run(layer, layer->correct,
              (void *[NARG]){ [ARG_SRC] = layer->in,
                              [ARG_DST] = env->staging,
                              [ARG_MEAN] = layer->env->measured + layer->at,
                              [ARG_VARIANCE] = layer->env->measured + layer->at + channels,
                              [ARG_SCALE] = layer->correction,
                              [ARG_SHIFT] = layer->correction + channels });
    env->device->kind->add(env->device, layer_elements(env, layer->node->in), layer->diff_in, env->staging);
}

void norm_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    const uint32_t k = layer->node->tensor;
    const uint32_t channels = norm_channels(layer);

    layer_run(layer, layer->back,
              (void *[NARG]){ [ARG_SRC] = layer->in,
                              [ARG_DST] = layer->out,
                              [ARG_MEAN] = layer->env->measured + layer->at,
                              [ARG_VARIANCE] = layer->env->measured + layer->at + channels,
                              [ARG_SCALE] = layer->weights,
                              [ARG_SHIFT] = layer->bias,
                              [ARG_WORKSPACE] = layer->workspace,
                              [ARG_DIFF_DST] = layer->diff_out,
                              [ARG_DIFF_MORE] = layer->diff_more,
                              [ARG_DIFF_SRC] = layer->diff_in,
                              [ARG_DIFF_SCALE] = layer->diff_scale,
                              [ARG_DIFF_SHIFT] = layer->diff_shift });
    if (layer->correct != NULL)
        norm_correct(layer);
    layer_give(layer->env, gradients[k], layer->diff_scale, 1, channels, accumulate);
    layer_give(layer->env, gradients[k + 1], layer->diff_shift, 1, channels, accumulate);
}
