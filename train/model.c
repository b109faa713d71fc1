/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "arena.h"
#include "layers.h"
#include "loss.h"
#include "random.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wires { /* buffers of a layer; those of forward values are in `data` */
    uint32_t diff_out, diff_more, diff_in, workspace;
};

struct model {
    struct model_options options;
    struct network *network;
    struct environment env;
    struct layer *layers;
    struct wires *wires; /* [nnode] */
    uint32_t *data;      /* [nvalue] buffers */
    struct arena arena;
    struct dnn_op *images; /* reorder from the caller's layout to that of the first layer */
    struct statistic *statistics;
    uint32_t nstatistic;
    uint32_t *order; /* of gradients */
    int32_t *labels; /* of the latest forward pass */
    double smoothing;
    enum mode mode; /* of the latest forward pass */
};

const char *const *model_names(void)
{
    return network_names();
}

/*
 * ---- Memory ----
 *
 * Forward, node k runs in step k, backward in step 2 nnode - 1 - k. A value is alive from the node that computes it to
 * the last that reads it, including the backward pass. A gradient is alive from the backward step of the node that
 * reads the value to that of the node that computes it.
 */

static uint32_t back_step(const struct model *model, uint32_t node)
{
    return 2 * model->network->nnode - 1 - node;
}

/* If the backward pass does not need the input, the output takes its place. */
static bool in_place(const struct model *model, const struct node *node)
{
    return node->kind == NODE_ADD || (node->kind == NODE_NORM && !model->options.training);
}

static void wire_value(struct model *model, uint32_t value)
{
    model->data[value] = arena_add(&model->arena, dnn_bytes(model->env.layouts[value]));
}

static void wire_forward(struct model *model, uint32_t k)
{
    const struct node *node = &model->network->nodes[k];
    const bool training = model->options.training;
    struct arena *arena = &model->arena;
    const uint32_t *data = model->data;

    if (in_place(model, node))
        model->data[node->out] = data[node->in];
    else
        wire_value(model, node->out);
    model->wires[k].workspace =
        model->layers[k].workspace_bytes == 0 ? ARENA_NONE : arena_add(arena, model->layers[k].workspace_bytes);
    arena_use(arena, data[node->in], k);
    arena_use(arena, data[node->out], k);
    arena_use(arena, model->wires[k].workspace, k);
    if (node->kind == NODE_ADD)
        arena_use(arena, data[node->in2], k);
    if (!training)
        return;
    arena_use(arena, model->wires[k].workspace, back_step(model, k));
    if (node->kind == NODE_CONVOLUTION || node->kind == NODE_NORM)
        arena_use(arena, data[node->in], back_step(model, k));
    if (node->kind == NODE_ADD)
        arena_use(arena, data[node->out], back_step(model, k));
}

struct parts { /* parts of a value's gradient: one for each node that reads the value, the last such node's first */
    uint32_t buffer[2], n;
};

struct backward_plan {   /* state while the backward pass is planned */
    struct parts *parts; /* [nvalue] */
    uint32_t *holders;   /* [buffers] how many nodes have yet to read each */
};

static uint32_t gradient_add(struct model *model, struct backward_plan *back, uint32_t value)
{
    const uint32_t buffer = arena_add(&model->arena, dnn_bytes(model->env.layouts[value]));

    back->holders[buffer] = 0;
    return buffer;
}

static void part_add(struct backward_plan *back, uint32_t value, uint32_t buffer)
{
    struct parts *parts = &back->parts[value];

    if (value == 0)
        return; /* the images need no gradient */
    assert(parts->n < 2);
    parts->buffer[parts->n++] = buffer;
    back->holders[buffer]++;
}

/*
 * Choose the buffer of the gradient of a node's input: that of its output's gradient if the node works in place and no
 * other node has yet to read it.
 */
static uint32_t wire_diff_in(struct model *model, struct backward_plan *back, const struct node *node,
                             uint32_t diff_out)
{
    if (node->in == 0)
        return ARENA_NONE;
    if (node->kind == NODE_ADD || (node->kind == NODE_NORM && back->holders[diff_out] == 0))
        return diff_out;
    return gradient_add(model, back, node->in);
}

static void wire_backward(struct model *model, struct backward_plan *back, uint32_t k)
{
    const struct node *node = &model->network->nodes[k];
    struct parts *parts = &back->parts[node->out];
    struct wires *wires = &model->wires[k];

    wires->diff_out = parts->buffer[0];
    wires->diff_more = parts->n > 1 ? parts->buffer[1] : ARENA_NONE;
    for (uint32_t p = 0; p < parts->n; p++)
        back->holders[parts->buffer[p]]--;
    assert(node->kind == NODE_NORM || back->holders[wires->diff_out] == 0);
    wires->diff_in = wire_diff_in(model, back, node, wires->diff_out);
    if (wires->diff_in != ARENA_NONE)
        part_add(back, node->in, wires->diff_in);
    if (node->kind == NODE_ADD)
        part_add(back, node->in2, wires->diff_in);
    arena_use(&model->arena, wires->diff_out, back_step(model, k));
    arena_use(&model->arena, wires->diff_more, back_step(model, k));
    arena_use(&model->arena, wires->diff_in, back_step(model, k));
}

static void wire(struct model *model)
{
    const struct network *net = model->network;
    const uint32_t logits = net->nvalue - 1, end = 2 * net->nnode;
    struct backward_plan back = { layer_memory(net->nvalue * sizeof *back.parts),
                                  layer_memory((size_t)4 * net->nvalue * sizeof *back.holders) };

    wire_value(model, 0);
    for (uint32_t k = 0; k < net->nnode; k++)
        wire_forward(model, k);
    /* The images stay for model_first_nonfinite(), the logits for the caller. */
    arena_use(&model->arena, model->data[0], end);
    arena_use(&model->arena, model->data[logits], end);
    if (model->options.training) {
        part_add(&back, logits, gradient_add(model, &back, logits));
        for (uint32_t k = net->nnode; k-- > 0;)
            wire_backward(model, &back, k);
    }
    free(back.parts);
    free(back.holders);
    arena_place(&model->arena);
}

/* Tell the layers where their buffers lie. */
static void connect(struct model *model)
{
    const struct arena *arena = &model->arena;

    for (uint32_t k = 0; k < model->network->nnode; k++) {
        struct layer *layer = &model->layers[k];
        const struct node *node = layer->node;
        const struct wires *wires = &model->wires[k];

        layer->in = arena_at(arena, model->data[node->in]);
        layer->out = arena_at(arena, model->data[node->out]);
        layer->workspace = arena_at(arena, wires->workspace);
        if (node->kind == NODE_ADD)
            layer->in2 = arena_at(arena, model->data[node->in2]);
        if (!model->options.training)
            continue;
        layer->diff_out = arena_at(arena, wires->diff_out);
        layer->diff_more = arena_at(arena, wires->diff_more);
        layer->diff_in = arena_at(arena, wires->diff_in);
    }
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
    wire(model);
    connect(model);
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
