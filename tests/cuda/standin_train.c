/* SPDX-License-Identifier: BSD-3-Clause */
/* The accesses of each kernel of the training program, as train/cuda/kernels/kernels.h says. */
#include "standin.h"

#include "../../train/cuda/kernels/kernels.h"

#include <string.h>

static uint64_t bytes_of(uint64_t n, uint32_t type)
{
    return n * plait_dtype_size((enum plait_dtype)type);
}

/* ---- Batch norm ---------------------------------------------------------------------------------------------- */

static uint64_t tensor(const struct train_norm *a)
{
    return bytes_of(a->cut.rows * a->cut.channels, a->cut.type);
}

static uint64_t channels(const struct train_norm *a)
{
    return a->cut.channels * sizeof(float);
}

static uint64_t partial(const struct train_norm *a)
{
    return a->cut.npart * 2 * a->cut.channels * sizeof(double);
}

static void reads_factors(struct at *at, const struct train_norm *a)
{
    reads(at, a->x, tensor(a));
    reads(at, a->mean, channels(a));
    reads(at, a->variance, channels(a));
    reads(at, a->scale, channels(a));
    reads(at, a->shift, channels(a));
}

static void uses_train_norm_sums(struct at *at, const struct train_norm *a)
{
    reads(at, a->x, tensor(a));
    writes(at, a->partial, partial(a));
}

static void uses_train_norm_combine(struct at *at, const struct train_norm *a)
{
    reads(at, a->partial, partial(a));
    reads(at, a->x, bytes_of(a->cut.channels, a->cut.type));
    writes(at, a->mean, channels(a));
    writes(at, a->variance, channels(a));
}

static void uses_train_norm_forward(struct at *at, const struct train_norm *a)
{
    reads_factors(at, a);
    reads(at, a->addend, tensor(a));
    writes(at, a->y, tensor(a));
}

static void uses_train_norm_back_sums(struct at *at, const struct train_norm *a)
{
    reads_factors(at, a);
    if (a->fused == TRAIN_ADD_RELU) {
        reads(at, a->y, tensor(a));
        reads(at, a->diff_more, tensor(a));
        writes(at, a->diff_y, tensor(a));
    } else {
        reads(at, a->diff_y, tensor(a));
    }
    writes(at, a->partial, partial(a));
}

static void uses_train_norm_back_combine(struct at *at, const struct train_norm *a)
{
    reads(at, a->partial, partial(a));
    reads(at, a->variance, channels(a));
    writes(at, a->diff_scale, channels(a));
    writes(at, a->diff_shift, channels(a));
}

static void uses_train_norm_back(struct at *at, const struct train_norm *a)
{
    reads_factors(at, a);
    reads(at, a->diff_y, tensor(a));
    if (a->share != 0) {
        reads(at, a->diff_scale, channels(a));
        reads(at, a->diff_shift, channels(a));
    }
    writes(at, a->diff_x, tensor(a));
}

/* ---- Pooling -------------------------------------------------------------------------------------------------- */

static uint64_t inputs(const struct train_pool *a, uint32_t images)
{
    return (uint64_t)images * a->height * a->width * a->channels;
}

static uint64_t outputs(const struct train_pool *a, uint32_t images)
{
    return (uint64_t)images * a->out_height * a->out_width * a->channels;
}

static void uses_train_pool_max(struct at *at, const struct train_pool *a)
{
    const uint32_t images = a->nrow / a->out_height;

    reads(at, a->from, bytes_of(inputs(a, images), a->type));
    writes(at, a->to, bytes_of(outputs(a, images), a->type));
    writes(at, a->won, outputs(a, images));
}

static void uses_train_pool_max_back(struct at *at, const struct train_pool *a)
{
    const uint32_t images = a->nrow / a->height;

    reads(at, a->from, bytes_of(outputs(a, images), a->type));
    reads(at, a->won, outputs(a, images));
    writes(at, a->to, bytes_of(inputs(a, images), a->type));
}

static void uses_train_pool_average(struct at *at, const struct train_pool *a)
{
    uses_train_pool_max(at, a); /* won is NULL */
}

static void uses_train_pool_average_back(struct at *at, const struct train_pool *a)
{
    uses_train_pool_max_back(at, a);
}

/* ---- Element by element ----------------------------------------------------------------------------------------- */

static void uses_train_add(struct at *at, const struct train_add *a)
{
    reads(at, a->b, bytes_of(a->n, a->type));
    writes(at, a->a, bytes_of(a->n, a->type));
}

static void uses_train_finite(struct at *at, const struct train_finite *a)
{
    if (a->clear == 0)
        reads(at, a->a, bytes_of(a->n, a->type));
    writes(at, a->result, sizeof *a->result);
}

static void uses_train_convert(struct at *at, const struct train_convert *a)
{
    reads(at, a->from, bytes_of(a->n, a->from_type));
    writes(at, a->to, bytes_of(a->n, a->to_type));
}

static void uses_train_images(struct at *at, const struct train_images *a)
{
    reads(at, a->from, a->n);
    writes(at, a->to, bytes_of(a->n, a->type));
}

static void uses_train_crop_resize(struct at *at, const struct train_crop *a)
{
    reads(at, a->from, (uint64_t)a->height * a->width * 3);
    writes(at, a->values, (uint64_t)a->side * a->side * 3 * sizeof *a->values);
    writes(at, a->grey, a->side * sizeof *a->grey);
}

static void uses_train_crop_colour(struct at *at, const struct train_crop *a)
{
    reads(at, a->values, (uint64_t)a->side * a->side * 3 * sizeof *a->values);
    reads(at, a->grey, a->side * sizeof *a->grey);
    writes(at, a->to, (uint64_t)a->side * a->side * 3);
}

static void uses_train_scale_vector(struct at *at, const struct train_vector *a)
{
    reads(at, a->from, a->n * sizeof *a->from);
    reads(at, a->factors, a->n * sizeof *a->factors);
    writes(at, a->to, a->n * sizeof *a->to);
}

static void uses_train_move_vector(struct at *at, const struct train_vector *a)
{
    uses_train_scale_vector(at, a); /* factors is NULL */
}

/* ---- Matrices --------------------------------------------------------------------------------------------------- */

static void uses_train_weights(struct at *at, const struct train_weights *a)
{
    const uint64_t n = (uint64_t)a->out * a->in * a->inner;

    reads(at, a->from, bytes_of(n, a->from_type));
    writes(at, a->to, bytes_of(n, a->to_type));
}

static void uses_train_sum_rows(struct at *at, const struct train_rows *a)
{
    reads(at, a->from, a->nrow * a->columns * sizeof *a->from);
    writes(at, a->to, bytes_of(a->columns, a->type));
}

static void uses_train_fill_rows(struct at *at, const struct train_rows *a)
{
    reads(at, a->from, a->columns * sizeof *a->from);
    writes(at, a->to, a->nrow * a->columns * sizeof(float));
}

/* ---- The loss --------------------------------------------------------------------------------------------------- */

static void reads_logits(struct at *at, const struct train_loss *a)
{
    reads(at, a->labels, a->n * sizeof *a->labels);
    reads(at, a->logits, (uint64_t)a->n * a->nclass * sizeof *a->logits);
}

static void uses_train_loss(struct at *at, const struct train_loss *a)
{
    reads_logits(at, a);
    writes(at, a->images, a->n * sizeof *a->images);
}

static void uses_train_loss_total(struct at *at, const struct train_loss *a)
{
    reads(at, a->images, a->n * sizeof *a->images);
    writes(at, a->result, sizeof *a->result);
}

static void uses_train_loss_back(struct at *at, const struct train_loss *a)
{
    reads_logits(at, a);
    reads(at, a->late, sizeof *a->late);
    writes(at, a->gradient, (uint64_t)a->n * a->nclass * sizeof *a->gradient);
}

bool train_accesses(struct at *at, const void *argument)
{
#define PLAIT_X(name, args)             \
    if (strcmp(at->what, #name) == 0) { \
        uses_##name(at, argument);      \
        return true;                    \
    }
    TRAIN_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
    return false;
}
