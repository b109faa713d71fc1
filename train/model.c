/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "allocate.h"
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

static void fill(float *to, size_t n, float value)
{
    for (size_t k = 0; k < n; k++)
        to[k] = value;
}

static void create_layers(struct model *model)
{
    struct environment *env = &model->env;
    const struct network *net = model->network;
    const struct value *images = &net->values[0];
    struct device_images shape = { env->batch,    images->channels,     images->height,
                                   images->width, model->options.bytes, { 0 },
                                   { 0 } };

    memcpy(shape.mean, model->options.mean, sizeof shape.mean);
    memcpy(shape.deviation, model->options.deviation, sizeof shape.deviation);
    model->layers = allocate(net->nnode, sizeof *model->layers);
    env->layouts = allocate(net->nvalue, sizeof *env->layouts);
    for (uint32_t k = 0; k < net->nnode; k++)
        layer_create(&model->layers[k], env, &net->nodes[k]);
    model->images = env->device->kind->images(env->device, &shape, env->layouts[0]);
    env->scratch = env->device->kind->alloc(env->device, env->device->scratch);
    env->measured = env->device->kind->alloc(env->device, env->nstatistic * sizeof *env->measured);
    env->running = env->device->kind->alloc(env->device, env->nstatistic * sizeof *env->running);
    env->staging = env->device->kind->alloc(env->device, env->staged);
}

/* The running statistics of a network that has seen nothing. */
static void reset_statistics(struct model *model)
{
    float *running = allocate(model->env.nstatistic, sizeof *running);

    for (uint32_t k = 0; k < model->nstatistic; k++)
        fill(running + model->statistics[k].start, model->statistics[k].count, k % 2 == 0 ? 0 : 1);
    model->env.device->kind->copy_in(model->env.device, model->env.running, running,
                                     model->env.nstatistic * sizeof *running);
    free(running);
}

static void create_statistics(struct model *model)
{
    const struct network *net = model->network;
    struct device *device = model->env.device;
    const size_t count = model->env.nstatistic;
    double *unbias = allocate(count, sizeof *unbias);
    size_t at = 0;

    model->statistics = allocate(net->ntensor, sizeof *model->statistics);
    for (uint32_t t = 0; t < net->ntensor; t++)
        if (net->tensors[t].kind == TENSOR_NORM) { /* they lie as these do */
            const char *name = net->tensors[t].name, *dot = strrchr(name, '.');
            struct statistic *s = &model->statistics[model->nstatistic++];

            *s = (struct statistic){ .count = (uint32_t)net->tensors[t].count, .start = at };
            snprintf(s->name, sizeof s->name, "%.*s.running_%s", (int)(dot - name), name,
                     model->nstatistic % 2 != 0 ? "mean" : "var");
            at += s->count;
        }
    for (uint32_t k = 0; k < net->nnode; k++)
        layer_unbias(&model->layers[k], unbias);
    model->batch = device->kind->alloc(device, count * sizeof *model->batch);
    model->unbias = device->kind->alloc(device, count * sizeof *unbias);
    device->kind->copy_in(device, model->unbias, unbias, count * sizeof *unbias);
    free(unbias);
    reset_statistics(model);
}

/* A layer's gradients become ready together, the last layer's first. */
static void create_order(struct model *model)
{
    const struct network *net = model->network;
    uint32_t n = 0;

    model->order = allocate(net->ntensor, sizeof *model->order);
    for (uint32_t k = net->nnode; k-- > 0;)
        for (uint32_t t = net->nodes[k].ntensor; t-- > 0;)
            model->order[n++] = net->nodes[k].tensor + t;
}

struct model *model_create(const struct model_options *options)
{
    const struct device_options own = { .precision = options->precision, .threads = options->threads };
    struct device *device = options->device;
    struct network *network = network_create(options->name, options->nclass, options->pixels);
    struct model *model;

    if (network == NULL)
        return NULL;
    model = allocate(1, sizeof *model);
    model->options = *options;
    model->network = network;
    model->own_device = device == NULL;
    device = device == NULL ? device_cpu.create(&own) : device;
    model->env = (struct environment){ .device = device,
                                       .network = network,
                                       .precision = options->precision,
                                       .gradients = options->gradients,
                                       .batch = options->batch,
                                       .training = options->training,
                                       .sum = options->sum,
                                       .nsum = options->nsum,
                                       .context = options->context };
    create_layers(model);
    create_statistics(model);
    create_order(model);
    model->wires = allocate(network->nnode, sizeof *model->wires);
    model->data = allocate(network->nvalue, sizeof *model->data);
    model->labels = device->kind->alloc(device, options->batch * sizeof *model->labels);
    model->result = device->kind->alloc(device, sizeof *model->result);
    model->logits = allocate((size_t)options->batch * options->nclass, sizeof *model->logits);
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
    if (model->own_device)
        model->env.device->kind->destroy(model->env.device);
    arena_finish(&model->arena);
    free(model->env.layouts);
    free(model->layers);
    free(model->wires);
    free(model->data);
    free(model->statistics);
    free(model->order);
    free(model->logits);
    recording_destroy(model->recording);
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

const struct statistic *model_statistic(const struct model *model, uint32_t k)
{
    return &model->statistics[k];
}

size_t model_statistics_count(const struct model *model)
{
    return model->env.nstatistic;
}

float *model_running(const struct model *model)
{
    return model->env.running;
}

const float *model_batch(const struct model *model)
{
    return model->batch;
}

struct device *model_device(const struct model *model)
{
    return model->env.device;
}

struct model_memory model_memory(const struct model *model)
{
    return (struct model_memory){ .activations = model->arena.bytes,
                                  .weights = model->env.weights,
                                  .workspaces = model->env.device->scratch + model->env.staged };
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
        fill(to[0], tensor->count, node->in2 != 0 && zero_last ? 0 : 1);
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
    reset_statistics(model);
}

/* ---- Passes ---- */

static const struct layer *last_layer(const struct model *model)
{
    return &model->layers[model->network->nnode - 1];
}

struct work { /* arguments of a piece */
    const float *const *masters;
    const double *scale;
    void *const *gradients;
    bool accumulate;
    uint32_t first, end; /* nodes of the backward pass, which begins with the last one */
};

/* piece: NULL: the work is not the same in every step */
static void run_piece(struct model *model, struct piece *piece,
                      void (*put)(struct model *model, const struct work *work), const struct work *work)
{
    struct device *device = model->env.device;

    if (piece == NULL || !piece->ran) {
        put(model, work);
        if (piece != NULL)
            piece->ran = true;
        return;
    }
    if (piece->graph == NULL) {
        device->kind->record_begin(device);
        put(model, work);
        piece->graph = device->kind->record_end(device);
    }
    device->kind->replay(device, piece->graph);
}

static void put_refresh(struct model *model, const struct work *work)
{
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_refresh(&model->layers[k], work->masters);
}

void model_refresh(struct model *model, const float *const *masters)
{
    model->env.device->kind->begin(model->env.device);
    run_piece(model, piece_of_refresh(model, masters), put_refresh, &(struct work){ .masters = masters });
}

/* Its gradient is that of the mean. */
static struct loss loss_of(const struct model *model, const double *scale)
{
    return (struct loss){ .n = model->options.batch,
                          .nclass = model->options.nclass,
                          .logits = last_layer(model)->out,
                          .labels = model->labels,
                          .smoothing = model->smoothing,
                          .divisor = model->options.batch,
                          .scale = scale };
}

static void put_forward(struct model *model, const struct work *work)
{
    struct device *device = model->env.device;
    const struct loss loss = loss_of(model, NULL);

    (void)work;
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_forward(&model->layers[k], model->mode);
    device->kind->loss(device, &loss, model->result);
    if (model->mode == MODE_TRAIN)
        device->kind->multiply(device, model->batch, model->env.measured, model->unbias, model->env.nstatistic);
}

void model_forward(struct model *model, const void *images, const int32_t *labels, bool training, double smoothing)
{
    struct device *device = model->env.device;

    assert(!training || model->options.training);
    device->kind->begin(device);
    model->mode = training ? MODE_TRAIN : MODE_EVALUATE;
    model->smoothing = smoothing;
    device->kind->copy_images(model->images, images, labels, model->layers[0].in, model->labels, model->env.scratch);
    run_piece(model, piece_of_forward(model, training), put_forward, NULL);
}

void model_wait_images(struct model *model)
{
    model->env.device->kind->wait_images(model->env.device);
}

struct model_result model_result(struct model *model)
{
    struct device *device = model->env.device;
    struct model_result result;

    device->kind->copy_out(device, &result, model->result, sizeof result);
    device->kind->copy_in(device, model->result, &(struct model_result){ 0 }, sizeof result);
    return result;
}

const float *model_logits(const struct model *model)
{
    model->env.device->kind->copy_out(model->env.device, model->logits, last_layer(model)->out,
                                      (size_t)model->options.batch * model->options.nclass * sizeof *model->logits);
    return model->logits;
}

static void put_backward(struct model *model, const struct work *work)
{
    const struct loss loss = loss_of(model, work->scale);

    if (work->end == model->network->nnode)
        model->env.device->kind->loss_back(model->env.device, &loss, last_layer(model)->diff_out);
    for (uint32_t k = work->end; k-- > work->first;)
        layer_backward(&model->layers[k], work->gradients, work->accumulate);
}

void model_backward(struct model *model, const double *scale, void *const *gradients, bool accumulate,
                    void (*ready)(void *context, uint32_t tensor), void *context)
{
    struct recording *r = recording_of_backward(model, scale, gradients);
    struct work work = {
        .scale = scale, .gradients = gradients, .accumulate = accumulate, .end = model->network->nnode
    };

    assert(model->mode == MODE_TRAIN);
    model->env.device->kind->begin(model->env.device);
    for (uint32_t k = work.end; k-- > 0;) {
        if (r != NULL && !r->ends[k])
            continue;
        work.first = k;
        run_piece(model, r != NULL ? &r->backward[accumulate][k] : NULL, put_backward, &work);
        for (uint32_t n = work.end; ready != NULL && n-- > k;)
            for (uint32_t t = model->network->nodes[n].ntensor; t-- > 0;)
                ready(context, model->network->nodes[n].tensor + t);
        work.end = k;
    }
}

/* Buffers are reused during a pass, so repeat the pass and look at each value while it is there. */
const char *model_first_nonfinite(const struct model *model)
{
    const enum mode mode = model->mode == MODE_TRAIN ? MODE_AGAIN : MODE_EVALUATE;

    model->env.device->kind->begin(model->env.device);
    if (!model->env.device->kind->finite(model->env.device, layer_elements(&model->env, 0), model->layers[0].in))
        return "images";
    for (uint32_t k = 0; k < model->network->nnode; k++) {
        struct layer *layer = &model->layers[k];

        layer_forward(layer, mode);
        if (!model->env.device->kind->finite(model->env.device, layer_elements(&model->env, layer->node->out),
                                             layer->out))
            return layer->node->name;
    }
    return NULL;
}

/* ---- How fast ---- */

void model_convolve(struct model *model)
{
    model->env.device->kind->begin(model->env.device);
    for (uint32_t k = 0; k < model->network->nnode; k++)
        layer_convolve(&model->layers[k]);
    model->env.device->kind->synchronize(model->env.device);
}

size_t model_norm_bytes(const struct model *model)
{
    size_t bytes = 0;

    for (uint32_t k = 0; k < model->network->nnode; k++)
        if (model->network->nodes[k].kind == NODE_NORM)
            bytes += model->env.layouts[model->network->nodes[k].in]->bytes;
    return bytes;
}
