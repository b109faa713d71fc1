/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch norm, also synchronised between ranks. */
#include "layer_parts.h"

#include <math.h>
#include <string.h>

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
    layer_stage(env, dnn_bytes(layout));
}

void norm_create(struct layer *layer)
{
    const struct dnn_layout *layout = layer_put_out(layer);
    const uint32_t channels = layer_value(layer->env, layer->node->in)->channels;
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
    float *memory = layer_own(layer, npart * channels * sizeof *memory);

    /* diff_scale and diff_shift are contiguous, since they are summed over the ranks together. */
    for (size_t k = 0; k < npart; k++)
        *parts[k] = memory + k * channels;
    layer->evaluate = dnn_norm(layer->env->dnn, layout, DNN_NORM_ONLY, layer->node->relu);
    if (layer->env->training)
        norm_create_training(layer, layout);
    for (uint32_t c = 0; c < channels; c++)
        layer->statistics.running_variance[c] = 1;
}

void norm_refresh(struct layer *layer, const float *const *masters)
{
    const uint32_t k = layer->node->tensor;
    const size_t bytes = layer->env->network->tensors[k].count * sizeof(float);

    memcpy(layer->weights, masters[k], bytes);
    memcpy(layer->bias, masters[k + 1], bytes);
}

static void norm_run(struct layer *layer, struct dnn_op *op, float *mean, float *variance)
{
    layer_run(layer, op,
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
    const uint32_t channels = layer_value(env, layer->node->in)->channels;
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
    const struct value *in = layer_value(layer->env, layer->node->in);

    return (double)layer->env->batch * in->height * in->width * (layer->env->sum == NULL ? 1 : layer->env->nsum);
}

void norm_forward(struct layer *layer, enum mode mode)
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
    for (uint32_t c = 0; c < layer_value(layer->env, layer->node->in)->channels; c++)
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
    const uint32_t channels = layer_value(env, layer->node->in)->channels;
    float *scale = layer->correct_scale, *shift = layer->correct_shift; /* contiguous, like the sums */

    memcpy(scale, layer->diff_scale, 2 * channels * sizeof *scale);
    env->sum(env->context, scale, (size_t)2 * channels);
    for (uint32_t c = 0; c < channels; c++) {
        const float factor = (float)(-layer->weights[c] / sqrt((double)s->variance[c] + 1e-5) / norm_count(layer));

        scale[c] *= factor;
        shift[c] *= factor;
    }
    layer_run(layer, layer->correct,
              (void *[DNN_NARG]){ [DNN_SRC] = layer->in,
                                  [DNN_DST] = env->staging,
                                  [DNN_MEAN] = s->mean,
                                  [DNN_VARIANCE] = s->variance,
                                  [DNN_SCALE] = scale,
                                  [DNN_SHIFT] = shift });
    elements_add(layer_elements(env, layer->node->in), layer->diff_in, env->staging);
}

void norm_backward(struct layer *layer, void *const *gradients, bool accumulate)
{
    const uint32_t k = layer->node->tensor;
    const size_t channels = layer->env->network->tensors[k].count;

    layer_run(layer, layer->back,
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
    layer_give(layer->env, gradients[k], layer->diff_scale, channels, accumulate);
    layer_give(layer->env, gradients[k + 1], layer->diff_shift, channels, accumulate);
}
