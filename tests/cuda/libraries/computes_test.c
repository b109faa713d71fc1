/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Convolutions and products on the stand-ins, bit for bit what the plain reference says: inputs are multiples of 1/64, so
 * that all sums are exact. It shows that shapes, layouts, pointers and passes are told to the libraries as they are meant.
 */
#include "convolution.h"
#include "network.h"
#include "product.h"
#include "use.h"

#include "../../random.h"
#include "../../train_reference.h"
#include "../standin_numbers.h"

#include <stdio.h>

/* A multiple of 1/64 between -1 and 1: exact in bf16 and fp16. */
static double draw(uint64_t *state)
{
    return (double)random_below(state, 129) / 64 - 1;
}

/* ---- Tensors in the GPU's layout ---- */

static size_t size_of(enum precision precision)
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

static void put(void *to, size_t at, enum precision precision, double value)
{
    if (precision == PRECISION_FP32)
        ((float *)to)[at] = (float)value;
    else
        ((uint16_t *)to)[at] = precision == PRECISION_BF16 ? to_bf16((float)value) : to_fp16((float)value);
}

/* From [n][channels][height][width] to [n][height][width][channels]. */
static void *channels_last(const double *from, const uint32_t d[4], enum precision precision)
{
    const size_t count = (size_t)d[0] * d[1] * d[2] * d[3];
    void *to = calloc(count, size_of(precision));

    assert_non_null(to);
    for (size_t k = 0; k < count; k++) {
        const size_t w = k % d[3], h = k / d[3] % d[2], c = k / d[3] / d[2] % d[1], n = k / d[3] / d[2] / d[1];
        put(to, ((n * d[2] + h) * d[3] + w) * d[1] + c, precision, from[k]);
    }
    return to;
}

/* ---- A convolution by the reference: a network of one node ---- */

struct lone {
    struct network network;
    struct node node;
    struct value values[4]; /* images, input, output, logits */
    struct tensor tensor;
    struct reference *reference;
    uint32_t x[4], w[4], y[4];
};

static void lone_create(struct lone *l, const struct device_convolution *s, uint64_t *state)
{
    const uint32_t height = network_pooled(s->height, s->kernel, s->stride, s->pad);
    const uint32_t width = network_pooled(s->width, s->kernel, s->stride, s->pad);

    *l = (struct lone){ .node = { .kind = NODE_CONVOLUTION,
                                  .in = 1,
                                  .out = 2,
                                  .kernel = s->kernel,
                                  .stride = s->stride,
                                  .pad = s->pad,
                                  .ntensor = 1 },
                        .values = { { 3, s->height, s->width },
                                    { s->in, s->height, s->width },
                                    { s->out, height, width },
                                    { 1, 1, 1 } },
                        .tensor = { .kind = TENSOR_WEIGHT,
                                    .ndim = 4,
                                    .shape = { s->out, s->in, s->kernel, s->kernel },
                                    .count = (size_t)s->out * s->in * s->kernel * s->kernel },
                        .x = { s->n, s->in, s->height, s->width },
                        .w = { s->out, s->in, s->kernel, s->kernel },
                        .y = { s->n, s->out, height, width } };
    l->network = (struct network){ &l->node, l->values, &l->tensor, 1, 4, 1 };
    l->reference = reference_create(&l->network, s->n);
    for (size_t k = 0; k < reference_count(l->reference, 1); k++)
        l->reference->values[1][k] = draw(state);
    for (size_t k = 0; k < l->tensor.count; k++)
        l->reference->tensors[0][k] = draw(state);
    reference_forward(l->reference, true);
    for (size_t k = 0; k < reference_count(l->reference, 2); k++)
        l->reference->gradients[2][k] = draw(state);
    reference_backward(l->reference);
}

/* ---- The same on the stand-ins ---- */

static size_t bytes_of(const uint32_t d[4], enum precision precision)
{
    return (size_t)d[0] * d[1] * d[2] * d[3] * size_of(precision);
}

struct tensors { /* of a pass, on the host: what it is given and what is expected */
    void *x, *w, *y;
};

static struct tensors tensors_of(const struct lone *l, enum convolution_pass pass, enum precision precision)
{
    const struct reference *r = l->reference;

    return (struct tensors){
        .x = channels_last(pass == CONVOLUTION_BACK_DATA ? r->gradients[1] : r->values[1], l->x, precision),
        .w = channels_last(pass == CONVOLUTION_BACK_WEIGHTS ? r->diffs[0] : r->tensors[0], l->w, precision),
        .y = channels_last(pass == CONVOLUTION_FORWARD ? r->values[2] : r->gradients[2], l->y, precision),
    };
}

/* On the GPU; what is a result has something else there. */
static void *place_of(const struct place *p, const void *host, size_t bytes, bool is_result)
{
    char *garbage = malloc(bytes);
    void *memory;

    assert_non_null(garbage);
    memset(garbage, 0x7f, bytes);
    memory = upload(p, is_result ? garbage : host, bytes);
    free(garbage);
    return memory;
}

static void expect(const struct place *p, void *memory, const void *expected, size_t bytes, const char *what)
{
    char *got = malloc(bytes);

    assert_non_null(got);
    download(p, got, memory, bytes);
    if (memcmp(got, expected, bytes) != 0)
        fail_msg("%s", what);
    free(got);
}

static void run_pass(struct place *p, const struct lone *l, const struct device_convolution *shape,
                     enum convolution_pass pass, enum precision precision)
{
    const struct convolution_wants wants = { precision, false, false, (size_t)1 << 20 };
    const struct tensors t = tensors_of(l, pass, precision);
    const size_t x = bytes_of(l->x, precision), w = bytes_of(l->w, precision), y = bytes_of(l->y, precision);
    struct convolution *c;
    char what[160];
    void *workspace;

    GOOD(convolution_find(p->libraries, shape, pass, &wants, &c));
    GOOD(gpu_alloc(&p->gpu, convolution_workspace(c), &workspace));
    void *at_x = place_of(p, t.x, x, pass == CONVOLUTION_BACK_DATA);
    void *at_w = place_of(p, t.w, w, pass == CONVOLUTION_BACK_WEIGHTS);
    void *at_y = place_of(p, t.y, y, pass == CONVOLUTION_FORWARD);
    GOOD(convolution_run(c, at_x, at_w, at_y, workspace));
    snprintf(what, sizeof what, "%u x %ux%ux%u to %u, %ux%u/%u, pass %d, precision %d", shape->n, shape->height,
             shape->width, shape->in, shape->out, shape->kernel, shape->kernel, shape->stride, (int)pass,
             (int)precision);
    expect(p, at_x, t.x, x, what);
    expect(p, at_w, t.w, w, what);
    expect(p, at_y, t.y, y, what);
    gpu_free(workspace);
    free(t.x);
    free(t.w);
    free(t.y);
}

static void run_all(struct place *p, const struct device_convolution *shape, uint64_t *state)
{
    struct lone l;

    lone_create(&l, shape, state);
    for (int pass = CONVOLUTION_FORWARD; pass <= CONVOLUTION_BACK_WEIGHTS; pass++)
        for (int precision = PRECISION_FP32; precision <= PRECISION_FP16; precision++)
            run_pass(p, &l, shape, (enum convolution_pass)pass, (enum precision)precision);
    reference_destroy(l.reference);
}

static void convolutions_of_resnet20_are_those_of_the_reference(void **state)
{
    struct network *network = network_create("resnet20", 10, 32);
    struct place p;
    uint64_t random = 1;
    struct device_convolution before = { 0 };

    place_open(&p, PRECISION_BF16);
    for (uint32_t k = 0; k < network->nnode; k++) {
        const struct node *node = &network->nodes[k];
        const struct value in = network->values[node->in], out = network->values[node->out];
        const struct device_convolution shape = {
            2, in.channels, out.channels, in.height, in.width, node->kernel, node->stride, node->pad, node->in == 0
        };
        if (node->kind != NODE_CONVOLUTION || memcmp(&shape, &before, sizeof shape) == 0)
            continue;
        before = shape;
        run_all(&p, &shape, &random);
    }
    place_close(&p);
    network_destroy(network);
}

static void convolutions_of_other_networks_are_those_of_the_reference(void **state)
{
    static const struct device_convolution shapes[] = {
        { 2, 3, 64, 31, 31, 7, 2, 3, true },   { 3, 64, 16, 9, 7, 1, 2, 0, false },
        { 1, 32, 24, 14, 14, 3, 1, 1, false }, { 2, 16, 32, 15, 13, 3, 2, 1, false },
        { 5, 8, 8, 1, 1, 1, 1, 0, false },     { 1, 5, 7, 6, 11, 3, 2, 1, false },
        { 2, 128, 64, 7, 7, 1, 1, 0, false },
    };
    struct place p;
    uint64_t random = 2;

    place_open(&p, PRECISION_BF16);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        run_all(&p, &shapes[k], &random);
    place_close(&p);
}

/* ---- Products ---- */

static void fill(float *to, size_t n, uint64_t *state)
{
    for (size_t k = 0; k < n; k++)
        to[k] = (float)draw(state);
}

static float element(const float *from, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns, bool by_columns)
{
    return from[by_columns ? (size_t)column * rows + row : (size_t)row * columns + column];
}

static void multiply(struct place *p, const struct device_product *s, uint64_t *state)
{
    enum { MOST = 4096 };
    static float src[MOST], weights[MOST], dst[MOST];
    const size_t n = (size_t)s->rows * s->columns;

    fill(src, (size_t)s->rows * s->inner, state);
    fill(weights, (size_t)s->inner * s->columns, state);
    fill(dst, n, state);
    if (!s->add && !s->bias)
        memset(dst, 0xff, sizeof dst); /* NaN */
    void *at_src = upload(p, src, (size_t)s->rows * s->inner * 4);
    void *at_weights = upload(p, weights, (size_t)s->inner * s->columns * 4), *at_dst = upload(p, dst, n * 4);
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t c = 0; c < s->columns; c++) {
            double sum = s->add || s->bias ? dst[r * s->columns + c] : 0;
            for (uint32_t k = 0; k < s->inner; k++)
                sum += (double)element(src, r, k, s->rows, s->inner, s->src_columns) *
                       (double)element(weights, k, c, s->inner, s->columns, s->weights_columns);
            dst[r * s->columns + c] = (float)sum;
        }
    GOOD(product_run(p->libraries, s, false, at_src, at_weights, at_dst));
    expect(p, at_dst, dst, n * 4, "a product");
    gpu_free(at_src);
    gpu_free(at_weights);
}

static void products_of_all_forms_are_those_of_plain_loops(void **state)
{
    static const uint32_t sizes[][3] = { { 5, 7, 3 }, { 1, 64, 10 }, { 10, 8, 64 }, { 1, 1, 1 }, { 33, 17, 49 } };
    struct place p;
    uint64_t random = 3;

    place_open(&p, PRECISION_FP32);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int form = 0; form < 16; form++) {
            const struct device_product s = { sizes[k][0],     sizes[k][1],     sizes[k][2],    (form & 1) != 0,
                                              (form & 2) != 0, (form & 4) != 0, (form & 8) != 0 };
            multiply(&p, &s, &random);
        }
    place_close(&p);
}

/* 1 + 2^-12 is 1 in TF32. */
static void inputs_are_rounded_to_tf32_only_on_request(void **state)
{
    const struct device_convolution shape = { 1, 1, 1, 1, 1, 1, 1, 0, false };
    const struct device_product product = { .rows = 1, .inner = 1, .columns = 1 };
    const float fine = 1 + 0x1p-12f, one = 1;
    struct place p;
    float got = 0;

    place_open(&p, PRECISION_FP32);
    void *x = upload(&p, &fine, 4), *w = upload(&p, &one, 4);
    for (int tf32 = 0; tf32 < 2; tf32++) {
        const struct convolution_wants wants = { PRECISION_FP32, tf32 != 0, false, 8192 };
        const float expected = tf32 != 0 ? 1 : fine;
        struct convolution *c;
        void *y = upload(&p, &got, 4), *dst = upload(&p, &got, 4), *workspace;
        GOOD(convolution_find(p.libraries, &shape, CONVOLUTION_FORWARD, &wants, &c));
        GOOD(gpu_alloc(&p.gpu, convolution_workspace(c), &workspace));
        GOOD(convolution_run(c, x, w, y, workspace));
        expect(&p, y, &expected, 4, "a convolution in TF32, or not");
        GOOD(product_run(p.libraries, &product, tf32 != 0, x, w, dst));
        expect(&p, dst, &expected, 4, "a product in TF32, or not");
        gpu_free(workspace);
    }
    place_close(&p);
}

/* DST of an operation of the device on one number, with 1 as its weight. */
static float run_on(struct device *d, struct device_op *op, float src)
{
    const float one = 1;
    float dst = 0;
    void *at[NARG] = { NULL }, *scratch = d->kind->alloc(d, d->scratch);

    at[ARG_SRC] = d->kind->alloc(d, sizeof src);
    at[ARG_WEIGHTS] = d->kind->alloc(d, sizeof one);
    at[ARG_DST] = d->kind->alloc(d, sizeof dst);
    d->kind->copy_in(d, at[ARG_SRC], &src, sizeof src);
    d->kind->copy_in(d, at[ARG_WEIGHTS], &one, sizeof one);
    d->kind->run(op, at, scratch);
    d->kind->copy_out(d, &dst, at[ARG_DST], sizeof dst);
    return dst;
}

static void a_device_rounds_to_tf32_only_on_request(void **state)
{
    const struct device_convolution shape = { 1, 1, 1, 1, 1, 1, 1, 0, false };
    const struct device_product product = { .rows = 1, .inner = 1, .columns = 1 };
    const float fine = 1 + 0x1p-12f;

    for (int tf32 = 0; tf32 < 2; tf32++) {
        struct device *d =
            device_cuda.create(&(struct device_options){ .precision = PRECISION_FP32, .tf32 = tf32 != 0 });
        const float expected = tf32 != 0 ? 1 : fine;
        assert_true(run_on(d, d->kind->convolution(d, &shape), fine) == expected);
        assert_true(run_on(d, d->kind->product(d, &product), fine) == expected);
        d->kind->destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_resnet20_are_those_of_the_reference),
        cmocka_unit_test(convolutions_of_other_networks_are_those_of_the_reference),
        cmocka_unit_test(products_of_all_forms_are_those_of_plain_loops),
        cmocka_unit_test(inputs_are_rounded_to_tf32_only_on_request),
        cmocka_unit_test(a_device_rounds_to_tf32_only_on_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
