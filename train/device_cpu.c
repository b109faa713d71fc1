/* SPDX-License-Identifier: BSD-3-Clause */
/* CPUs as a device, whose memory is the host's: operations by oneDNN (dnn.c), loops (elementwise.c, loss.c). */
#include "dnn.h"
#include "elementwise.h"
#include "loss.h"

#include "allocate.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *cpu_alloc(struct device *device, size_t bytes)
{
    struct dnn *dnn = dnn_of(device);
    struct dnn_block *block = allocate(1, sizeof *block);

    *block = (struct dnn_block){ .bytes = bytes > 0 ? bytes : 1, .next = dnn->blocks };
    block->memory = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->memory == MAP_FAILED)
        give_up(1, "no memory for %zu bytes of the model; use a smaller --micro", bytes);
    madvise(block->memory, block->bytes, MADV_HUGEPAGE); /* fewer page faults, where the system allows huge pages */
    dnn->blocks = block;
    return block->memory;
}

static void cpu_destroy(struct device *device)
{
    struct dnn_block *next;

    if (device == NULL)
        return;
    for (struct dnn_block *block = dnn_of(device)->blocks; block != NULL; block = next) {
        next = block->next;
        munmap(block->memory, block->bytes);
        free(block);
    }
    dnn_destroy(device);
}

/* Work is done when a function returns. */
static void cpu_wait(struct device *device)
{
    (void)device;
}

static void cpu_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
}

static struct elements output_of(const struct device_op *op)
{
    const enum precision precision = dnn_of(op->device)->type == dnnl_bf16 ? PRECISION_BF16 : PRECISION_FP32;

    return (struct elements){ precision, op->layouts[ARG_DST]->bytes / precision_size(precision) };
}

/* oneDNN's batch norm has no residual sum: it is a pass after it, and one before its backward form. */
static void cpu_run(struct device_op *op, void *const at[NARG], void *scratch)
{
    const unsigned threads = dnn_of(op->device)->threads;

    if (op->layouts[ARG_DIFF_MORE] != NULL)
        elements_back_relu(output_of(op), threads, at[ARG_DIFF_DST], at[ARG_DIFF_MORE], at[ARG_DST]);
    dnn_run(op, at, scratch);
    if (op->layouts[ARG_ADDEND] != NULL)
        elements_add_relu(output_of(op), threads, at[ARG_DST], at[ARG_ADDEND]);
}

static void cpu_add(struct device *device, struct elements e, void *a, const void *b)
{
    elements_add(e, dnn_of(device)->threads, a, b);
}

static void cpu_copy_images(struct device_op *op, const void *images, const int32_t *labels, void *to,
                            int32_t *to_labels, void *scratch)
{
    memcpy(to_labels, labels, dnn_images_count(op) * sizeof *labels);
    dnn_run(op, (void *[NARG]){ [ARG_SRC] = (void *)(uintptr_t)images, [ARG_DST] = to }, scratch);
}

static bool cpu_finite(struct device *device, struct elements e, const void *a)
{
    (void)device;
    return elements_finite(e, a);
}

const struct device_kind device_cpu = {
    .name = "cpu",
    .host = true,
    .create = dnn_create,
    .destroy = cpu_destroy,
    .begin = dnn_begin,
    .synchronize = cpu_wait,
    .alloc = cpu_alloc,
    .alloc_host = cpu_alloc,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .layout = dnn_layout,
    .run = cpu_run,
    .convolution = dnn_convolution,
    .norm = dnn_norm,
    .pool = dnn_pool,
    .product = dnn_product,
    .reorder = dnn_reorder,
    .back = dnn_back,
    .images = dnn_images,
    .copy_images = cpu_copy_images,
    .wait_images = cpu_wait,
    .add = cpu_add,
    .finite = cpu_finite,
    .sum = elements_sum,
    .multiply = elements_multiply,
    .move = elements_move,
    .loss = loss_forward,
    .loss_back = loss_backward,
};
