/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts, and operations: each is a plan of cuDNN, a product of cuBLAS, or a few kernels. */
#include "cuda.h"

#include "product.h"

#include "allocate.h"
#include "network.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Layouts ---- */

const struct device_layout *cuda_layout(struct device *device, enum device_order order, enum precision type,
                                        uint32_t ndim, const uint32_t *shape)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_layout *l = allocate(1, sizeof *l);

    *l = (struct cuda_layout){ .order = order, .type = type, .shape = { 1, 1, 1, 1 }, .next = cuda->layouts };
    l->layout.bytes = precision_size(type);
    for (uint32_t d = 0; d < ndim; d++) {
        l->shape[d] = shape[d];
        l->layout.bytes *= shape[d];
    }
    cuda->layouts = l;
    return &l->layout;
}

static const struct device_layout *fastest(const struct cuda *cuda, uint32_t n, uint32_t channels, uint32_t height,
                                           uint32_t width)
{
    return cuda_layout((struct device *)(uintptr_t)&cuda->device, ORDER_FASTEST, cuda->options.precision, 4,
                       (uint32_t[]){ n, channels, height, width });
}

static const struct cuda_layout *of(const struct device_layout *layout)
{
    return (const struct cuda_layout *)layout;
}

/* ---- All operations ---- */

struct cuda_op *cuda_op_create(struct cuda *cuda,
                               void (*run)(const struct cuda_op *op, void *const at[NARG], void *scratch))
{
    struct cuda_op *op = allocate(1, sizeof *op);

    op->op.device = &cuda->device;
    op->run = run;
    op->next = cuda->ops;
    cuda->ops = op;
    return op;
}

static void need_scratch(struct cuda *cuda, size_t bytes)
{
    if (cuda->device.scratch < bytes)
        cuda->device.scratch = bytes;
}

void cuda_run(struct device_op *device_op, void *const at[NARG], void *scratch)
{
    const struct cuda_op *op = (const struct cuda_op *)device_op;

    op->run(op, at, scratch);
}

struct device_op *cuda_back(const struct device_op *device_op, enum device_arg result)
{
    const struct cuda_op *forward = (const struct cuda_op *)device_op;

    return forward->back(forward, result);
}

void cuda_operations_destroy(struct cuda *cuda)
{
    while (cuda->ops != NULL) {
        struct cuda_op *next = cuda->ops->next;

        if (cuda->ops->run == NULL)
            cuda_images_destroy(&cuda->ops->images);
        free(cuda->ops);
        cuda->ops = next;
    }
    while (cuda->layouts != NULL) {
        struct cuda_layout *next = cuda->layouts->next;

        free(cuda->layouts);
        cuda->layouts = next;
    }
}

/* ---- Convolutions ---- */

static struct cuda_op *plan(struct cuda *cuda, const struct device_convolution *shape, enum convolution_pass pass,
                            void (*run)(const struct cuda_op *op, void *const at[NARG], void *scratch))
{
    const struct convolution_wants wants = { .precision = cuda->options.precision,
                                             .tf32 = cuda->options.tf32,
                                             .nondeterministic = cuda->options.nondeterministic,
                                             .most_workspace = (size_t)1 << 30 };
    struct cuda_op *op = cuda_op_create(cuda, run);

    op->convolution = *shape;
    cuda_must(convolution_find(cuda->libraries, shape, pass, &wants, &op->plan));
    need_scratch(cuda, convolution_workspace(op->plan));
    return op;
}

static void run_forward(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    cuda_must(convolution_run(op->plan, at[ARG_SRC], at[ARG_WEIGHTS], at[ARG_DST], scratch));
}

static void run_back_data(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    cuda_must(convolution_run(op->plan, at[ARG_DIFF_SRC], at[ARG_WEIGHTS], at[ARG_DIFF_DST], scratch));
}

static void run_back_weights(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    cuda_must(convolution_run(op->plan, at[ARG_SRC], at[ARG_DIFF_WEIGHTS], at[ARG_DIFF_DST], scratch));
}

static struct device_op *convolution_back(const struct cuda_op *forward, enum device_arg result)
{
    struct cuda *cuda = cuda_of(forward->op.device);
    struct cuda_op *op;

    if (result == ARG_DIFF_SRC) {
        op = plan(cuda, &forward->convolution, CONVOLUTION_BACK_DATA, run_back_data);
        op->op.layouts[ARG_DIFF_SRC] = forward->op.layouts[ARG_SRC];
        op->op.layouts[ARG_WEIGHTS] = forward->op.layouts[ARG_WEIGHTS];
    } else {
        op = plan(cuda, &forward->convolution, CONVOLUTION_BACK_WEIGHTS, run_back_weights);
        op->op.layouts[ARG_SRC] = forward->op.layouts[ARG_SRC];
        op->op.layouts[ARG_DIFF_WEIGHTS] = forward->op.layouts[ARG_WEIGHTS];
    }
    op->op.layouts[ARG_DIFF_DST] = forward->op.layouts[ARG_DST];
    return &op->op;
}

struct device_op *cuda_convolution(struct device *device, const struct device_convolution *s)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_op *op = plan(cuda, s, CONVOLUTION_FORWARD, run_forward);

    op->back = convolution_back;
    op->op.layouts[ARG_SRC] = fastest(cuda, s->n, s->in, s->height, s->width);
    op->op.layouts[ARG_WEIGHTS] = fastest(cuda, s->out, s->in, s->kernel, s->kernel);
    op->op.layouts[ARG_DST] = fastest(cuda, s->n, s->out, network_pooled(s->height, s->kernel, s->stride, s->pad),
                                      network_pooled(s->width, s->kernel, s->stride, s->pad));
    return &op->op;
}

/* ---- Batch norm ---- */

_Static_assert((int)FUSED_RELU == (int)TRAIN_RELU && (int)FUSED_ADD_RELU == (int)TRAIN_ADD_RELU, "fused");

static struct kernel_norm norm_of(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    const struct cuda_layout *l = of(op->op.layouts[ARG_SRC]);

    return (struct kernel_norm){ .rows = (uint64_t)l->shape[0] * l->shape[2] * l->shape[3],
                                 .channels = l->shape[1],
                                 .type = cuda_type(l->type),
                                 .fused = (enum train_fused)op->norm.fused,
                                 .x = at[ARG_SRC],
                                 .addend = at[ARG_ADDEND],
                                 .y = at[ARG_DST],
                                 .diff_y = at[ARG_DIFF_DST],
                                 .diff_more = at[ARG_DIFF_MORE],
                                 .diff_x = at[ARG_DIFF_SRC],
                                 .mean = at[ARG_MEAN],
                                 .variance = at[ARG_VARIANCE],
                                 .scale = at[ARG_SCALE],
                                 .shift = at[ARG_SHIFT],
                                 .diff_scale = at[ARG_DIFF_SCALE],
                                 .diff_shift = at[ARG_DIFF_SHIFT],
                                 .scratch = scratch };
}

static void run_norm(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    const struct train_launcher *launcher = &cuda_of(op->op.device)->launcher;
    const struct kernel_norm n = norm_of(op, at, scratch);

    if (op->norm.norm == NORM_BATCH)
        kernel_norm_measure(launcher, &n);
    kernel_norm_forward(launcher, &n);
}

static void run_norm_back(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    const struct train_launcher *launcher = &cuda_of(op->op.device)->launcher;
    const struct kernel_norm n = norm_of(op, at, scratch);

    kernel_norm_back_sums(launcher, &n);
    kernel_norm_back(launcher, &n, op->norm.norm == NORM_BATCH ? (double)n.rows : 0);
}

static struct device_op *norm_back(const struct cuda_op *forward, enum device_arg result)
{
    struct cuda_op *op = cuda_op_create(cuda_of(forward->op.device), run_norm_back);

    (void)result;
    op->norm = forward->norm;
    op->op.layouts[ARG_SRC] = op->op.layouts[ARG_DIFF_SRC] = op->op.layouts[ARG_DIFF_DST] =
        forward->op.layouts[ARG_SRC];
    if (op->norm.fused == FUSED_ADD_RELU)
        op->op.layouts[ARG_DST] = op->op.layouts[ARG_DIFF_MORE] = forward->op.layouts[ARG_DST];
    return &op->op;
}

struct device_op *cuda_norm(struct device *device, const struct device_layout *layout, enum device_norm norm,
                            enum device_fused fused)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_op *op = cuda_op_create(cuda, run_norm);
    const uint32_t *shape = of(layout)->shape;

    op->norm = (struct cuda_norm){ norm, fused };
    op->back = norm_back;
    op->op.layouts[ARG_SRC] = op->op.layouts[ARG_DST] = layout;
    op->op.layouts[ARG_ADDEND] = fused == FUSED_ADD_RELU ? layout : NULL;
    need_scratch(cuda, kernel_norm_scratch((uint64_t)shape[0] * shape[2] * shape[3], shape[1], cuda->type));
    return &op->op;
}

/* ---- Pooling ---- */

static void run_pool(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    (void)scratch;
    kernel_pool_forward(&cuda_of(op->op.device)->launcher, &op->pool, at[ARG_SRC], at[ARG_DST],
                        op->op.layouts[ARG_WORKSPACE] != NULL ? at[ARG_WORKSPACE] : NULL);
}

static void run_pool_back(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    (void)scratch;
    kernel_pool_back(&cuda_of(op->op.device)->launcher, &op->pool, at[ARG_DIFF_DST],
                     op->op.layouts[ARG_WORKSPACE] != NULL ? at[ARG_WORKSPACE] : NULL, at[ARG_DIFF_SRC]);
}

static struct device_op *pool_back(const struct cuda_op *forward, enum device_arg result)
{
    struct cuda_op *op = cuda_op_create(cuda_of(forward->op.device), run_pool_back);

    (void)result;
    op->pool = forward->pool;
    op->op.layouts[ARG_WORKSPACE] = forward->op.layouts[ARG_WORKSPACE];
    op->op.layouts[ARG_DIFF_SRC] = forward->op.layouts[ARG_SRC];
    op->op.layouts[ARG_DIFF_DST] = forward->op.layouts[ARG_DST];
    return &op->op;
}

/* Of bytes, of which two are a number of 16 bits. */
static const struct device_layout *bytes_layout(struct device *device, size_t bytes)
{
    const uint32_t halves = (uint32_t)((bytes + 1) / 2);

    return cuda_layout(device, ORDER_PLAIN, PRECISION_FP16, 1, &halves);
}

struct device_op *cuda_pool(struct device *device, const struct device_pool *s, bool training)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_op *op = cuda_op_create(cuda, run_pool);

    op->pool = (struct kernel_pool){ s->n,      s->channels, s->height,  s->width,  s->kernel,
                                     s->stride, s->pad,      cuda->type, s->average };
    op->back = pool_back;
    op->op.layouts[ARG_SRC] = fastest(cuda, s->n, s->channels, s->height, s->width);
    op->op.layouts[ARG_DST] = fastest(cuda, s->n, s->channels, network_pooled(s->height, s->kernel, s->stride, s->pad),
                                      network_pooled(s->width, s->kernel, s->stride, s->pad));
    if (training && !s->average)
        op->op.layouts[ARG_WORKSPACE] = bytes_layout(device, kernel_pool_workspace(&op->pool));
    return &op->op;
}

/* ---- Products ---- */

static void run_product(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    struct cuda *cuda = cuda_of(op->op.device);
    const struct device_product *s = &op->product;

    (void)scratch;
    if (s->bias)
        kernel_fill_rows(&cuda->launcher, s->rows, s->columns, at[ARG_BIAS], at[ARG_DST]);
    cuda_must(product_run(cuda->libraries, s, cuda->options.tf32, at[ARG_SRC], at[ARG_WEIGHTS], at[ARG_DST]));
}

struct device_op *cuda_product(struct device *device, const struct device_product *shape)
{
    struct cuda_op *op = cuda_op_create(cuda_of(device), run_product);

    op->product = *shape;
    return &op->op;
}

/* ---- Reorders ---- */

static void run_reorder(const struct cuda_op *op, void *const at[NARG], void *scratch)
{
    const struct train_launcher *launcher = &cuda_of(op->op.device)->launcher;
    const struct cuda_layout *from = op->reorder.from, *to = op->reorder.to;
    const struct kernel_weights w = { from->shape[0], from->shape[1], from->shape[2] * from->shape[3] };
    const enum plait_dtype from_type = cuda_type(from->type), to_type = cuda_type(to->type);

    (void)scratch;
    if (from->order == to->order)
        kernel_convert(launcher, (uint64_t)w.out * w.in * w.inner, from_type, at[ARG_SRC], to_type, at[ARG_DST],
                       op->reorder.add);
    else if (to->order == ORDER_FASTEST)
        kernel_weights(launcher, &w, from_type, at[ARG_SRC], to_type, at[ARG_DST]);
    else
        kernel_weights_back(launcher, &w, from_type, at[ARG_SRC], to_type, at[ARG_DST], op->reorder.add);
}

struct device_op *cuda_reorder(struct device *device, const struct device_layout *from, const struct device_layout *to,
                               bool add)
{
    struct cuda_op *op = cuda_op_create(cuda_of(device), run_reorder);

    assert(!add || (of(to)->order == ORDER_PLAIN && of(to)->type == PRECISION_FP32));
    op->reorder = (struct cuda_reorder){ of(from), of(to), add };
    op->op.layouts[ARG_SRC] = from;
    op->op.layouts[ARG_DST] = to;
    return &op->op;
}
