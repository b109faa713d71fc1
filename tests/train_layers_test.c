/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each layer agrees with the plain reference, forward and backward, on random shapes:
 *
 *     train_layers_test [cuda]    on processors, or on the first GPU
 */
#include "layers.h"
#include "random.h"
#include "train_reference.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NDRAW = 12 };

static const struct device_kind *kind;

/* ---- Random numbers ---- */

static uint32_t draw(uint64_t *state, uint32_t from, uint32_t to)
{
    return from + (uint32_t)(random_next(state) % (to - from + 1));
}

/* A multiple of 1/64 between -1 and 1: exact in bf16. */
static double draw_value(uint64_t *state)
{
    return (double)draw(state, 0, 128) / 64 - 1;
}

/* ---- A network of one node, between values 1 (and 2) and its output; around them the images and logits of all ---- */

enum part { PART_CONVOLUTION, PART_NORM, PART_END, PART_LARGEST, PART_AVERAGE, PART_PRODUCT, NPART };

static const struct {
    enum node_kind kind;
    bool end; /* of a block: adds value 2 */
} parts[NPART] = { { NODE_CONVOLUTION, false }, { NODE_NORM, false },    { NODE_NORM, true },
                   { NODE_LARGEST, false },     { NODE_AVERAGE, false }, { NODE_PRODUCT, false } };

struct lone {
    struct network network;
    struct node node;
    struct value values[5];
    struct tensor tensors[2];
};

enum { IMAGES, IN, IN2, OUT, LOGITS };

static void lone_tensor(struct lone *l, uint32_t k, uint32_t ndim, const uint32_t *shape)
{
    l->tensors[k] = (struct tensor){ .ndim = ndim, .count = 1 };
    for (uint32_t d = 0; d < ndim; d++) {
        l->tensors[k].shape[d] = shape[d];
        l->tensors[k].count *= shape[d];
    }
    l->network.ntensor = l->node.ntensor = k + 1;
}

static void lone_window(struct lone *l, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    const struct value in = l->values[l->node.in];

    l->node.kernel = kernel;
    l->node.stride = stride;
    l->node.pad = pad;
    l->values[OUT].height = network_pooled(in.height, kernel, stride, pad);
    l->values[OUT].width = network_pooled(in.width, kernel, stride, pad);
}

static void lone_init(struct lone *l, enum part part, uint64_t *state)
{
    static const uint32_t kernels[] = { 1, 3, 7 };
    const uint32_t kernel = kernels[draw(state, 0, 2)], height = draw(state, 3, 15), width = draw(state, 3, 15);
    const struct value in = { 16 * draw(state, 1, 4), height, width };

    const enum node_kind node = parts[part].kind;

    *l = (struct lone){ .node = { .kind = node, .in = IN, .out = OUT, .relu = draw(state, 0, 1) } };
    if (parts[part].end)
        l->node.in2 = IN2, l->node.relu = true;
    l->network = (struct network){ &l->node, l->values, l->tensors, 1, 5, 0 };
    l->values[IMAGES] = (struct value){ 3, height, width };
    l->values[IN] = l->values[IN2] = l->values[OUT] = in;
    l->values[LOGITS] = (struct value){ 1, 1, 1 };
    if (node == NODE_CONVOLUTION) {
        if (draw(state, 0, 3) == 0)
            l->node.in = IMAGES;
        l->values[OUT].channels = 16 * draw(state, 1, 4);
        lone_window(l, kernel, draw(state, 1, 2), kernel / 2);
        lone_tensor(l, 0, 4, (uint32_t[]){ l->values[OUT].channels, l->values[l->node.in].channels, kernel, kernel });
    } else if (node == NODE_NORM) {
        lone_tensor(l, 0, 1, &in.channels);
        lone_tensor(l, 1, 1, &in.channels);
    } else if (node == NODE_LARGEST) {
        lone_window(l, 3, 2, 1);
    } else if (node == NODE_AVERAGE) {
        l->values[IN].width = height;
        lone_window(l, height, 1, 0);
    } else if (node == NODE_PRODUCT) {
        l->values[IN] = (struct value){ in.channels, 1, 1 };
        l->values[LOGITS] = (struct value){ draw(state, 2, 20), 1, 1 };
        l->node.out = LOGITS;
        lone_tensor(l, 0, 2, (uint32_t[]){ l->values[LOGITS].channels, in.channels });
        lone_tensor(l, 1, 1, &l->values[LOGITS].channels);
    }
}

/* ---- The layer and the reference side by side ---- */

struct pair {
    struct lone lone;
    struct environment env;
    struct layer layer;
    struct reference *reference;
    const struct device_layout *layouts[5];
    float *masters[2], *gradients[2];
};

static void *memory(struct pair *p, size_t bytes)
{
    return kind->alloc(p->env.device, bytes);
}

/* A value in fp32, [n][channels][height][width]; the logits lie so. */
static const struct device_layout *plain(struct pair *p, uint32_t value)
{
    const struct value *v = &p->lone.values[value];

    return kind->layout(p->env.device, ORDER_PLAIN, PRECISION_FP32, 4,
                        (uint32_t[]){ p->env.batch, v->channels, v->height, v->width });
}

/* From plain doubles to a value's layout and back. */
static void put(struct pair *p, uint32_t value, const double *from, void *to)
{
    const size_t n = reference_count(p->reference, value);
    float *values = malloc(n * sizeof *values), *there = value == LOGITS ? to : memory(p, n * sizeof *values);

    for (size_t k = 0; k < n; k++)
        values[k] = (float)from[k];
    kind->copy_in(p->env.device, there, values, n * sizeof *values);
    if (value != LOGITS)
        kind->run(kind->reorder(p->env.device, plain(p, value), p->env.layouts[value], false),
                  (void *[NARG]){ [ARG_SRC] = there, [ARG_DST] = to }, p->env.scratch);
    free(values);
}

static double difference(const float *ours, const double *wanted, size_t n)
{
    double error = 0, norm = 0;

    for (size_t k = 0; k < n; k++) {
        error += (ours[k] - wanted[k]) * (ours[k] - wanted[k]);
        norm += wanted[k] * wanted[k];
    }
    return sqrt(error) / (sqrt(norm) + 1e-6 * (double)n);
}

static double tolerance(const struct pair *p)
{
    return p->env.precision != PRECISION_FP32 ? 1e-2 : kind->host ? 1e-5 : 1e-4;
}

static void check_tensor(const struct pair *p, const char *what, const float *ours, const double *wanted, size_t n)
{
    const double error = difference(ours, wanted, n);

    if (!(error <= tolerance(p)))
        fail_msg("%s differs by %g", what, error);
}

/* A value as plain fp32. free() it. */
static float *get(struct pair *p, uint32_t value, void *ours)
{
    const size_t n = reference_count(p->reference, value);
    float *values = malloc(n * sizeof *values), *there = value == LOGITS ? ours : memory(p, n * sizeof *values);

    if (value != LOGITS)
        kind->run(kind->reorder(p->env.device, p->env.layouts[value], plain(p, value), false),
                  (void *[NARG]){ [ARG_SRC] = ours, [ARG_DST] = there }, p->env.scratch);
    kind->copy_out(p->env.device, values, there, n * sizeof *values);
    return values;
}

static void check_value(struct pair *p, const char *what, uint32_t value, void *ours, const double *wanted)
{
    float *values = get(p, value, ours);

    check_tensor(p, what, values, wanted, reference_count(p->reference, value));
    free(values);
}

/* Rounding to 16 bits decides about a ReLU whose input is nearly 0, and so about its gradient: the reference follows. */
static void follow_relu(struct pair *p)
{
    const uint32_t out = p->lone.node.out;
    double *wanted = p->reference->values[out];
    float *ours = get(p, out, p->layer.out);

    for (size_t k = 0; p->env.precision != PRECISION_FP32 && k < reference_count(p->reference, out); k++)
        if ((ours[k] > 0) != (wanted[k] > 0)) {
            assert_true(fabs(ours[k]) < 0.02 && fabs(wanted[k]) < 0.02);
            wanted[k] = ours[k];
        }
    free(ours);
}

static void fill(double *to, size_t n, uint64_t *state)
{
    for (size_t k = 0; k < n; k++)
        to[k] = draw_value(state);
}

static void pair_fill(struct pair *p, uint64_t *state)
{
    struct reference *r = p->reference;

    fill(r->values[p->lone.node.in], reference_count(r, p->lone.node.in), state);
    fill(r->values[IN2], reference_count(r, IN2), state);
    fill(r->gradients[p->lone.node.out], reference_count(r, p->lone.node.out), state);
    for (uint32_t t = 0; t < p->lone.network.ntensor; t++) {
        const size_t n = p->lone.tensors[t].count;
        float *values = malloc(n * sizeof *values);

        fill(r->tensors[t], n, state);
        for (size_t k = 0; k < n; k++)
            values[k] = (float)r->tensors[t][k];
        p->masters[t] = memory(p, n * sizeof(float));
        p->gradients[t] = memory(p, n * sizeof(float));
        kind->copy_in(p->env.device, p->masters[t], values, n * sizeof *values);
        free(values);
    }
}

static void pair_connect(struct pair *p)
{
    struct layer *l = &p->layer;
    const struct node *node = &p->lone.node;
    const struct device_layout **layouts = p->env.layouts;

    p->env.scratch = memory(p, p->env.device->scratch + (1 << 20)); /* and what reorders of this test need */
    p->env.measured = memory(p, p->env.nstatistic * sizeof(float));
    p->env.running = memory(p, p->env.nstatistic * sizeof(float));
    p->env.staging = memory(p, p->env.staged);
    l->in = memory(p, layouts[node->in]->bytes);
    l->in2 = memory(p, layouts[IN2]->bytes);
    l->out = memory(p, layouts[node->out]->bytes);
    l->diff_out = memory(p, layouts[node->out]->bytes);
    l->diff_more = node->in2 != 0 ? memory(p, layouts[node->out]->bytes) : NULL;
    l->diff_in = node->in == IMAGES ? NULL : node->in2 != 0 ? l->out : memory(p, layouts[node->in]->bytes);
    l->workspace = memory(p, l->workspace_bytes);
}

static void pair_create(struct pair *p, enum part part, enum precision precision, uint64_t *state)
{
    memset(p, 0, sizeof *p);
    lone_init(&p->lone, part, state);
    p->env =
        (struct environment){ .device = kind->create(&(struct device_options){ .precision = precision, .threads = 1 }),
                              .network = &p->lone.network,
                              .layouts = p->layouts,
                              .precision = precision,
                              .batch = draw(state, 1, 4),
                              .training = true };
    p->reference = reference_create(&p->lone.network, p->env.batch);
    for (uint32_t k = IN; k <= IN2; k++) {
        const struct value v = p->lone.values[k];

        p->layouts[k] = kind->layout(p->env.device, ORDER_FASTEST, precision, 4,
                                     (uint32_t[]){ p->env.batch, v.channels, v.height, v.width });
    }
    layer_create(&p->layer, &p->env, &p->lone.node);
    pair_connect(p);
    pair_fill(p, state);
}

static void pair_destroy(struct pair *p)
{
    layer_destroy(&p->layer);
    kind->destroy(p->env.device);
    reference_destroy(p->reference);
}

static void pair_forward(struct pair *p)
{
    const struct node *node = &p->lone.node;

    put(p, node->in, p->reference->values[node->in], p->layer.in);
    put(p, IN2, p->reference->values[IN2], p->layer.in2);
    layer_refresh(&p->layer, (const float *const *)p->masters);
    layer_forward(&p->layer, MODE_TRAIN);
    reference_forward(p->reference, true);
    check_value(p, "the output", node->out, p->layer.out, p->reference->values[node->out]);
    if (node->relu)
        follow_relu(p);
}

/* A network that is trained may be evaluated, too: a norm with running statistics, in place. */
static void pair_evaluate(struct pair *p)
{
    const struct node *node = &p->lone.node;
    const uint32_t channels = p->lone.values[node->out].channels;
    float *running = malloc(p->env.nstatistic * sizeof *running);
    void *out = p->layer.out;

    if (node->kind != NODE_NORM) {
        free(running);
        return;
    }
    for (uint32_t c = 0; c < channels; c++) {
        running[c] = (float)(p->reference->running_mean[0][c] = (double)c / 64 - 0.5);
        running[channels + c] = (float)(p->reference->running_variance[0][c] = 1 + (double)c / 64);
    }
    kind->copy_in(p->env.device, p->env.running, running, p->env.nstatistic * sizeof *running);
    p->layer.out = p->layer.in;
    layer_forward(&p->layer, MODE_EVALUATE);
    reference_forward(p->reference, false);
    check_value(p, "the output of an evaluation", node->out, p->layer.out, p->reference->values[node->out]);
    p->layer.out = out;
    free(running);
}

/* A block's end gets its gradient in one part, or in two that cancel to the half. */
static void put_gradient(struct pair *p)
{
    const uint32_t out = p->lone.node.out;
    double *half = malloc(reference_count(p->reference, out) * sizeof *half);

    put(p, out, p->reference->gradients[out], p->layer.diff_out);
    for (size_t k = 0; k < reference_count(p->reference, out); k++) {
        half[k] = p->reference->gradients[out][k] * -0.5;
        if (p->layer.diff_more != NULL)
            p->reference->gradients[out][k] *= 0.5;
    }
    if (p->layer.diff_more != NULL)
        put(p, out, half, p->layer.diff_more);
    free(half);
}

static void pair_backward(struct pair *p)
{
    const struct node *node = &p->lone.node;

    put_gradient(p);
    layer_backward(&p->layer, (void *const *)p->gradients, false);
    reference_backward(p->reference);
    if (p->layer.diff_in != NULL)
        check_value(p, "the gradient of the input", node->in, p->layer.diff_in, p->reference->gradients[node->in]);
    if (node->in2 != 0)
        check_value(p, "the gradient of the shortcut", node->in2, p->layer.diff_out,
                    p->reference->gradients[node->in2]);
    for (uint32_t t = 0; t < p->lone.network.ntensor; t++) {
        const size_t n = p->lone.tensors[t].count;
        float *values = malloc(n * sizeof *values);

        kind->copy_out(p->env.device, values, p->gradients[t], n * sizeof *values);
        check_tensor(p, "the gradient of a tensor", values, p->reference->diffs[t], n);
        free(values);
    }
}

static const char *const precision_names[] = { "fp32", "bf16", "fp16" };

static void check_part(enum part part, enum precision precision)
{
    for (uint64_t seed = 1; seed <= NDRAW; seed++) {
        uint64_t state = seed;
        struct pair p;

        pair_create(&p, part, precision, &state);
        if (seed % 2 == 0)
            p.layer.diff_more = NULL;
        print_message("part %d seed %d %s: %u images of %u x %u x %u, kernel %u, stride %u\n", part, (int)seed,
                      precision_names[precision], p.env.batch, p.lone.values[p.lone.node.in].channels,
                      p.lone.values[IN].height, p.lone.values[IN].width, p.lone.node.kernel, p.lone.node.stride);
        pair_forward(&p);
        pair_backward(&p);
        pair_evaluate(&p);
        pair_destroy(&p);
    }
}

static void check_all(enum precision precision)
{
    for (int part = 0; part < NPART; part++)
        check_part((enum part)part, precision);
}

static void every_layer_agrees_in_bf16(void **state)
{
    if (kind->host && !device_cpu_has_bf16()) {
        print_message("oneDNN needs AVX-512 for bf16\n");
        skip();
    }
    check_all(PRECISION_BF16);
}

static void every_layer_agrees_in_fp16(void **state)
{
    if (kind->host) {
        print_message("fp16 needs a GPU\n");
        skip();
    }
    check_all(PRECISION_FP16);
}

static void convolutions_agree_with_the_reference(void **state)
{
    check_part(PART_CONVOLUTION, PRECISION_FP32);
}

static void norms_agree_with_the_reference(void **state)
{
    check_part(PART_NORM, PRECISION_FP32);
}

static void ends_of_blocks_agree_with_the_reference(void **state)
{
    check_part(PART_END, PRECISION_FP32);
}

static void pooling_agrees_with_the_reference(void **state)
{
    check_part(PART_LARGEST, PRECISION_FP32);
    check_part(PART_AVERAGE, PRECISION_FP32);
}

static void products_agree_with_the_reference(void **state)
{
    check_part(PART_PRODUCT, PRECISION_FP32);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_agree_with_the_reference),
        cmocka_unit_test(norms_agree_with_the_reference),
        cmocka_unit_test(ends_of_blocks_agree_with_the_reference),
        cmocka_unit_test(pooling_agrees_with_the_reference),
        cmocka_unit_test(products_agree_with_the_reference),
        cmocka_unit_test(every_layer_agrees_in_bf16),
        cmocka_unit_test(every_layer_agrees_in_fp16),
    };

    kind = argc > 1 && strcmp(argv[1], "cuda") == 0 ? &device_cuda : &device_cpu;
    return cmocka_run_group_tests_name("train_layers", tests, NULL, NULL);
}
