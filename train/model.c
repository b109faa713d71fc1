/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "loss.h"
#include "model_parts.h"
#include "random.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const *model_names(void)
{
    return network_names();
}

/* ---- Creating ---- */

static void create_layers(struct model *model)
{
    struct network *net = model->network;

    model->layers = layer_memory(net->nnode * sizeof *model->layers);
    model->env.layouts = layer_memory(net->nvalue * sizeof *model->env.layouts);
    for (uint32_t k = 0; k < net->nnode; k++)
        layer_create(&model->layers[k], &model->env, &net->nodes[k]);
    model->env.scratch = layer_memory(dnn_scratch(model->env.dnn));
    model->env.staging = layer_memory(model->env.staged);
}

static void create_statistics(struct model *model)
{
    const struct network *net = model->network;

    model->statistics = layer_memory((size_t)2 * net->nnode * sizeof *model->statistics);
    for (uint32_t k = 0; k < net->nnode; k++) {
        const struct norm_statistics *from = &model->layers[k].statistics;
        struct statistic *s = &model->statistics[model->nstatistic];
        const uint32_t channels = net->values[net->nodes[k].out].channels;

        if (net->nodes[k].kind != NODE_NORM)
            continue;
        s[0] = (struct statistic){ .count = channels, .running = from->running_mean, .batch = from->mean };
        s[1] = (struct statistic){ .count = channels, .running = from->running_variance, .batch = from->unbiased };
        snprintf(s[0].name, sizeof s[0].name, "%s.running_mean", net->nodes[k].name);
        snprintf(s[1].name, sizeof s[1].name, "%s.running_var", net->nodes[k].name);
        model->nstatistic += 2;
    }
}

/* A layer's gradients become ready together, the last layer's first: the tensors in reverse. */
static void create_order(struct model *model)
{
    const uint32_t n = model->network->ntensor;

    model->order = layer_memory(n * sizeof *model->order);
    for (uint32_t k = 0; k < n; k++)
        model->order[k] = n - 1 - k;
}

static void create_images(struct model *model)
{
    const struct value *v = &model->network->values[0];
    struct dnn *dnn = model->env.dnn;

    model->images = dnn_reorder(dnn, dnn_images(dnn, model->options.batch, v->channels, v->height, v->width),
                                model->env.layouts[0], false);
}

struct model *model_create(const struct model_options *options)
{
    struct network *network = network_create(options->name, options->nclass, options->pixels);
    struct model *model;

    if (network == NULL)
        return NULL;
    model = layer_memory(sizeof *model);
    model->options = *options;
    model->network = network;
    model->env = (struct environment){ .dnn = dnn_create(options->precision, options->threads),
                                       .network = network,
                                       .precision = options->precision,
                                       .gradients = options->gradients,
                                       .threads = options->threads == 0 ? 1 : options->threads,
                                       .batch = options->batch,
                                       .training = options->training,
                                       .sum = options->sum,
                                       .nsum = options->nsum,
                                       .context = options->context };
    create_layers(model);
    create_images(model);
    create_statistics(model);
    create_order(model);
    model->wires = layer_memory(network->nnode * sizeof *model->wires);
    model->data = layer_memory(network->nvalue * sizeof *model->data);
    model->labels = layer_memory(options->batch * sizeof *model->labels);
    model_plan(model);
    model_connect(model);
    return model;
}

void model_destroy(struct model *model)
{
    if (model == NULL)
        return;
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_destroy(&model->layers[k]);
    dnn_destroy(model->env.dnn);
    arena_finish(&model->arena);
    free(model->env.layouts);
    free(model->env.scratch);
    free(model->env.staging);
    free(model->layers);
    free(model->wires);
    free(model->data);
    free(model->statistics);
    free(model->order);
    free(model->labels);
    network_destroy(model->network);
    free(model);
}

uint32_t model_ntensor(const struct model *model)
{
    return model->network->ntensor;
}

const struct tensor *model_tensor(const struct model *model, uint32_t k)
{
    return &model->network->tensors[k];
}

uint32_t model_nstatistic(const struct model *model)
{
    return model->nstatistic;
}

struct statistic *model_statistic(struct model *model, uint32_t k)
{
    return &model->statistics[k];
}

struct model_memory model_memory(const struct model *model)
{
    return (struct model_memory){ .activations = model->arena.bytes,
                                  .weights = model->env.weights,
                                  .workspaces = dnn_scratch(model->env.dnn) + model->env.staged };
}

const uint32_t *model_backward_order(const struct model *model)
{
    return model->order;
}

/* ---- Initial weights ---- */

/* Uniform in (0, 1]. */
static double random_part(uint64_t *state)
{
    return (double)((random_next(state) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller 1958 */
static void fill_normal(float *to, size_t n, double deviation, uint64_t *state)
{
    const double pi = 3.14159265358979323846;

    for (size_t k = 0; k < n; k++) {
        const double radius = sqrt(-2 * log(random_part(state)));

        to[k] = (float)(deviation * radius * cos(2 * pi * random_part(state)));
    }
}

static void fill_uniform(float *to, size_t n, double bound, uint64_t *state)
{
    for (size_t k = 0; k < n; k++)
        to[k] = (float)(bound * (2 * random_part(state) - 1));
}

static void fill(float *to, size_t n, float value)
{
    for (size_t k = 0; k < n; k++)
        to[k] = value;
}

static void initialise(const struct model *model, const struct node *node, uint64_t seed, bool zero_last,
                       float *const *masters)
{
    const struct tensor *tensor = &model->network->tensors[node->tensor];
    float *const *to = masters + node->tensor;
    uint64_t state = seed ^ (uint64_t)node->tensor << 40;

    random_next(&state);
    if (node->kind == NODE_CONVOLUTION)
        fill_normal(to[0], tensor->count, sqrt(2.0 / (tensor->shape[0] * tensor->shape[2] * tensor->shape[3])), &state);
    if (node->kind == NODE_NORM) {
        fill(to[0], tensor->count, node->last && zero_last ? 0 : 1);
        fill(to[1], tensor->count, 0);
    }
    if (node->kind == NODE_PRODUCT) {
        fill_uniform(to[0], tensor->count, 1 / sqrt(tensor->shape[1]), &state);
        fill_uniform(to[1], tensor->shape[0], 1 / sqrt(tensor->shape[1]), &state);
    }
}

void model_initialise(struct model *model, uint64_t seed, bool zero_last, float *const *masters)
{
    for (uint32_t k = 0; k < model->network->nnode; k++)
        initialise(model, &model->network->nodes[k], seed, zero_last, masters);
    for (uint32_t k = 0; k < model->nstatistic; k++)
        fill(model->statistics[k].running, model->statistics[k].count, k % 2 == 0 ? 0 : 1);
}

/* ---- Passes ---- */

void model_refresh(struct model *model, const float *const *masters)
{
    dnn_begin(model->env.dnn);
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_refresh(&model->layers[k], masters);
}

static struct loss loss_of(const struct model *model)
{
    return (struct loss){ model->options.batch, model->options.nclass, model_logits(model), model->labels,
                          model->smoothing };
}

void model_forward(struct model *model, const float *images, const int32_t *labels, bool training, double smoothing,
                   struct model_result *result)
{
    struct loss loss;

    assert(!training || model->options.training);
    dnn_begin(model->env.dnn);
    model->mode = training ? MODE_TRAIN : MODE_EVALUATE;
    model->smoothing = smoothing;
    memcpy(model->labels, labels, model->options.batch * sizeof *labels);
    dnn_run(model->images, (void *[DNN_NARG]){ [DNN_SRC] = (void *)(uintptr_t)images, [DNN_DST] = model->layers[0].in },
            model->env.scratch);
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_forward(&model->layers[k], model->mode);
    loss = loss_of(model);
    loss_forward(&loss, result);
}

const float *model_logits(const struct model *model)
{
    return model->layers[model->network->nnode - 1].out;
}

void model_backward(struct model *model, double scale, void *const *gradients, bool accumulate,
                    void (*ready)(void *context, uint32_t tensor), void *context)
{
    const uint32_t nnode = model->network->nnode;
    const struct loss loss = loss_of(model);

    assert(model->mode == MODE_TRAIN);
    dnn_begin(model->env.dnn);
    loss_backward(&loss, scale / model->options.batch, model->layers[nnode - 1].diff_out);
    for (uint32_t k = nnode; k-- > 0;) {
        const struct node *node = &model->network->nodes[k];

        layer_backward(&model->layers[k], gradients, accumulate);
        for (uint32_t t = node->ntensor; ready != NULL && t-- > 0;)
            ready(context, node->tensor + t);
    }
}

/* Buffers are reused during a pass, so repeat the pass and look at each value while it is there. */
const char *model_first_nonfinite(const struct model *model)
{
    const enum mode mode = model->mode == MODE_TRAIN ? MODE_AGAIN : MODE_EVALUATE;

    dnn_begin(model->env.dnn);
    if (!elements_finite(layer_elements(&model->env, 0), model->layers[0].in))
        return "images";
    for (uint32_t k = 0; k < model->network->nnode; k++) {
        struct layer *layer = &model->layers[k];

        layer_forward(layer, mode);
        if (!elements_finite(layer_elements(&model->env, layer->node->out), layer->out))
            return layer->node->name;
    }
    return NULL;
}

/* ---- How fast ---- */

bool model_has_bf16(void)
{
    return dnn_has_bf16();
}

bool model_bf16_fast(void)
{
    return dnn_bf16_fast();
}

void model_convolve(struct model *model)
{
    dnn_begin(model->env.dnn);
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_convolve(&model->layers[k]);
}

size_t model_norm_bytes(const struct model *model)
{
    size_t bytes = 0;

    for (uint32_t k = 0; k < model->network->nnode; k++)
        if (model->network->nodes[k].kind == NODE_NORM)
            bytes += dnn_bytes(model->env.layouts[model->network->nodes[k].in]);
    return bytes;
}
