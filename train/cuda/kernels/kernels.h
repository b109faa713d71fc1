/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The training program's device kernels: names and arguments. launch.h says what they compute, and launches them.
 *
 * Every kernel takes one argument, a struct below by value, and blocks of TRAIN_THREADS. Any number of blocks gives the
 * same bits: each block takes units block, block + number of blocks, and so on, and sums have the shape of the data.
 * None waits, and none uses atomics. Pointers are to the device's memory.
 *
 * type  enum plait_dtype: PLAIT_FLOAT32, PLAIT_BFLOAT16 or PLAIT_FLOAT16
 * wide  all arrays are accessed in units of 16 bytes
 */
#ifndef PLAIT_TRAIN_CUDA_KERNELS_H
#define PLAIT_TRAIN_CUDA_KERNELS_H

#include "../../../cuda/kernels/kernels.h"

/* name, struct of the argument. */
#define TRAIN_KERNEL_LIST(X)               \
    X(train_norm_sums, train_norm)         \
    X(train_norm_combine, train_norm)      \
    X(train_norm_forward, train_norm)      \
    X(train_norm_back_sums, train_norm)    \
    X(train_norm_back_combine, train_norm) \
    X(train_norm_back, train_norm)         \
    X(train_pool_max, train_pool)          \
    X(train_pool_max_back, train_pool)     \
    X(train_pool_average, train_pool)      \
    X(train_pool_average_back, train_pool) \
    X(train_add, train_add)                \
    X(train_finite, train_finite)          \
    X(train_convert, train_convert)        \
    X(train_images, train_images)          \
    X(train_crop_resize, train_crop)       \
    X(train_crop_colour, train_crop)       \
    X(train_weights, train_weights)        \
    X(train_sum_rows, train_rows)          \
    X(train_fill_rows, train_rows)         \
    X(train_scale_vector, train_vector)    \
    X(train_move_vector, train_vector)     \
    X(train_loss, train_loss)              \
    X(train_loss_total, train_loss)        \
    X(train_loss_back, train_loss)

enum train_kernel {
#define PLAIT_X(name, args) TRAIN_KERNEL_##name,
    TRAIN_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
        TRAIN_NKERNEL
};

enum {
    TRAIN_THREADS = 256, /* of a block, of every kernel */
    TRAIN_LINES = 4,     /* lines of 16 bytes that a thread has in flight */
    TRAIN_TILE = 4096,   /* most elements of a tile of train_weights */
    TRAIN_COMBINED = 4   /* channels of a block of train_norm_combine */
};

/*
 * Rows of channels, cut into units: a tile of channels in a part of the rows. A block's threads are 1 << across columns
 * of lines, over which each row of threads takes every (TRAIN_THREADS >> across)-th row of the part, `each` in all.
 */
struct train_cut {
    uint64_t rows;
    uint64_t npart; /* of the rows */
    uint32_t channels;
    uint32_t ntile;
    uint32_t across;
    uint32_t each;
    uint32_t type;
    uint32_t wide;
};

enum train_fused { TRAIN_NOTHING, TRAIN_RELU, TRAIN_ADD_RELU }; /* enum device_fused of train/device.h */

/*
 * Batch norm. partial: [npart][2][channels] sums of a part.
 *
 * train_norm_sums          sums of x - first and of its square, where first is x's first row -> partial
 * train_norm_combine       partial -> mean, variance. Units: TRAIN_COMBINED channels; so is the next but one
 * train_norm_forward       x, addend (ADD_RELU) -> y, which may be x
 * train_norm_back_sums     sums of g and g (x - mean) -> partial. RELU: g is diff_y where y is above 0, else 0.
 *                          ADD_RELU: g = diff_y + diff_more (NULL: as zeros) where y is above 0, else 0, -> diff_y
 * train_norm_back_combine  partial -> diff_shift, diff_scale
 * train_norm_back          diff_x = factor (g - share x (diff_shift + normalised x times diff_scale)); may be diff_y
 *
 * With RELU y is computed again from x. With ADD_RELU it is read: the next layers keep it, while a block with a
 * convolution in its shortcut would have to keep the addend.
 */
struct train_norm {
    struct train_cut cut;
    const void *x;
    const void *addend;
    void *y;
    void *diff_y;
    const void *diff_more;
    void *diff_x;
    float *mean;
    float *variance;
    const float *scale;
    const float *shift;
    float *diff_scale;
    float *diff_shift;
    double *partial;
    float share;    /* 1 / number of values in the statistics; 0: they are constants */
    uint32_t fused; /* enum train_fused */
};

/*
 * Pooling. Units: rows of the output, backward of the input. Forward: from the input, to the output; backward: from the
 * output's gradient, to the input's. won: for each element of the output the element of the window that is its maximum:
 * the first one, or a NaN; forward it may be NULL
 */
struct train_pool {
    const void *from;
    void *to;
    uint8_t *won;
    uint32_t nrow;
    uint32_t channels;
    uint32_t height, width; /* of the input */
    uint32_t out_height, out_width;
    uint32_t kernel, stride, pad;
    uint32_t type;
    uint32_t wide;
};

/* a += b */
struct train_add {
    void *a;
    const void *b;
    uint64_t n;
    uint32_t type;
    uint32_t wide;
};

/* Writes 1 where an element of a is infinite or a NaN, else nothing; clear: writes 0 and reads nothing. */
struct train_finite {
    const void *a;
    uint32_t *result;
    uint64_t n;
    uint32_t type;
    uint32_t wide;
    uint32_t clear;
};

/* to = from, in another type; add: to += from, of float32 */
struct train_convert {
    void *to;
    const void *from;
    uint64_t n;
    uint32_t to_type;
    uint32_t from_type;
    uint32_t add;
    uint32_t wide; /* in units of 8 elements, of both */
};

/* to[k] = from[k] * factor[k % 3] - offset[k % 3] */
struct train_images {
    void *to;
    const uint8_t *from;
    uint64_t n;
    float factor[3];
    float offset[3];
    uint32_t type;
    uint32_t wide;
};

/*
 * A box of an image to `side` squared, as train/image.c makes it of the whole image: with the same filter, in the same
 * order. Units: rows of the result.
 *
 * train_crop_resize  from -> values, and their grey, summed over each row
 * train_crop_colour  values, grey -> to, rounded to nearest
 */
struct train_crop {
    const uint8_t *from; /* [height][width][3] */
    uint8_t *to;         /* [side][side][3] */
    float *values;       /* [side][side][3] */
    double *grey;        /* [side] */
    double x, y, box_width, box_height;
    uint32_t width, height;
    uint32_t side;
    uint32_t flip;
    float brightness, contrast, saturation;
};

/*
 * [out][in][inner] (plain) to [out][inner][in], or back; add: to += from, of float32. Units: tiles of `tile` of the in
 * and all inner, of at most TRAIN_TILE elements; with tile 1 there may be more.
 */
struct train_weights {
    void *to;
    const void *from;
    uint32_t out, in, inner;
    uint32_t tile;
    uint32_t ntile; /* of one of out */
    uint32_t to_type;
    uint32_t from_type;
    uint32_t to_plain;
    uint32_t add;
};

/*
 * train_sum_rows: to = or += the sums over the rows of from. Units: 32 columns. train_fill_rows: each row of to
 * (float32) = from [columns]. Units: rows
 */
struct train_rows {
    void *to;
    const float *from;
    uint64_t nrow;
    uint64_t columns;
    uint32_t type; /* of to */
    uint32_t add;
};

/*
 * train_scale_vector: to[k] = (float)(from[k] * factors[k]); to may be from.
 * train_move_vector: to[k] += weight * (factor * from[k] - to[k])
 */
struct train_vector {
    float *to;
    const float *from;
    const double *factors;
    uint64_t n;
    float weight;
    float factor;
};

struct train_loss_sums {
    double loss;
    uint64_t n, top1, top5;
};

/*
 * Cross entropy. train_loss: of each image -> images. train_loss_total: adds them to result; one block.
 * train_loss_back: gradient. Units: images
 */
struct train_loss {
    const float *logits;   /* [n][nclass] */
    const int32_t *labels; /* [n] -1: no image */
    struct train_loss_sums *images;
    struct train_loss_sums *result;
    float *gradient;
    const double *late; /* another factor; NULL: 1 */
    double factor;
    double smoothing;
    uint32_t n;
    uint32_t nclass;
};

#endif
