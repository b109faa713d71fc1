/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches of the kernels. Each function launches one to three of them, one after the other in a stream, through the
 * caller's launch(). It waits for nothing and allocates nothing.
 *
 * Activations are NHWC, dense. type: PLAIT_FLOAT32, PLAIT_BFLOAT16 or PLAIT_FLOAT16. Arithmetic is in float32, and
 * rounding to nearest even; long sums are in float64 over partial sums of at most 64 numbers. Pointers are to the
 * device's memory, aligned to their elements. If all pointers of a call are on 16-byte boundaries, and the channels are
 * a multiple of 16 bytes, accesses are 16 bytes wide: so it is for memory from cuMemAlloc() and the networks' channels.
 *
 * Results are the same bits in every run, on any number of multiprocessors. A sum's shape depends on the tensor's shape
 * and on the width of accesses.
 */
#ifndef PLAIT_TRAIN_CUDA_LAUNCH_H
#define PLAIT_TRAIN_CUDA_LAUNCH_H

#include "kernels.h"

/* In the order of enum train_kernel. */
struct train_kernel_info {
    const char *name;
    size_t bytes; /* of the argument */
};
extern const struct train_kernel_info train_kernels[TRAIN_NKERNEL];

struct train_launcher {
    /* Launch `blocks` blocks of TRAIN_THREADS threads, in stream order. The argument is copied before it returns. */
    void (*launch)(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument);
    void *context;
    uint32_t multiprocessors;
};

/* ---- Batch norm ---- */

struct kernel_norm {
    uint64_t rows; /* images x height x width */
    uint32_t channels;
    enum plait_dtype type; /* of x to diff_x; the others are float32 [channels] */
    enum train_fused fused;
    const void *x, *addend; /* [rows][channels]; so are the next four */
    void *y;
    void *diff_y;
    const void *diff_more; /* NULL: as zeros */
    void *diff_x;
    float *mean, *variance; /* biased */
    const float *scale, *shift;
    float *diff_scale, *diff_shift;
    void *scratch; /* kernel_norm_scratch() bytes, aligned to 16, until the call's work is done */
};

size_t kernel_norm_scratch(uint64_t rows, uint32_t channels, enum plait_dtype type);
/* x -> mean, variance; with scratch */
void kernel_norm_measure(const struct train_launcher *l, const struct kernel_norm *n);
/*
 * x, mean, variance, scale, shift, addend -> y, which may be x: (x - mean) / sqrt(variance + NORM_EPSILON) * scale +
 * shift; RELU: or 0 where that is below; ADD_RELU: the same of the sum with the addend
 */
void kernel_norm_forward(const struct train_launcher *l, const struct kernel_norm *n);
/*
 * x, diff_y, mean, variance, scale, shift -> diff_scale, diff_shift; with scratch. ADD_RELU: y and diff_more, too, and
 * diff_y becomes the gradient of the addend, as kernel_norm_back() wants it
 */
void kernel_norm_back_sums(const struct train_launcher *l, const struct kernel_norm *n);
/*
 * x, diff_y, mean, variance, scale, shift, diff_scale, diff_shift -> diff_x, which may be y, or without a residual sum
 * diff_y.
 *
 * count  number of values in mean and variance, which depend on x: rows, or those of all ranks, whose sums diff_scale
 *        and diff_shift then are. 0: mean and variance are constants
 */
void kernel_norm_back(const struct train_launcher *l, const struct kernel_norm *n, double count);

/* ---- Pooling ---- */

struct kernel_pool {
    uint32_t n, channels, height, width; /* of the input */
    uint32_t kernel, stride, pad;        /* maximum: kernel is at most 16; pad is less than kernel */
    enum plait_dtype type;
    bool average; /* without the padding; else the maximum, where a NaN wins */
};

/* Bytes of won, for maxima. */
size_t kernel_pool_workspace(const struct kernel_pool *p);
/* won: NULL if there is no backward pass, or for averages */
void kernel_pool_forward(const struct train_launcher *l, const struct kernel_pool *p, const void *x, void *y,
                         uint8_t *won);
void kernel_pool_back(const struct train_launcher *l, const struct kernel_pool *p, const void *diff_y,
                      const uint8_t *won, void *diff_x);

/* ---- Element by element ---- */

/* a += b */
void kernel_add(const struct train_launcher *l, enum plait_dtype type, uint64_t n, void *a, const void *b);
/* *result = 1 if an element is infinite or a NaN, else 0 */
void kernel_infinite(const struct train_launcher *l, enum plait_dtype type, uint64_t n, const void *a,
                     uint32_t *result);
/* to = from, or with add to (float32) += from. They do not overlap, but may be equal if the types are. */
void kernel_convert(const struct train_launcher *l, uint64_t n, enum plait_dtype from_type, const void *from,
                    enum plait_dtype to_type, void *to, bool add);
/* n bytes of images with 3 channels -> from * factor[channel] - offset[channel] */
void kernel_images(const struct train_launcher *l, uint64_t n, const uint8_t *from, const float factor[3],
                   const float offset[3], enum plait_dtype type, void *to);
/* Both kernels of struct train_crop, whose box lies in the image */
void kernel_crop(const struct train_launcher *l, const struct train_crop *crop);
/* to[k] = (float)(from[k] * factors[k]); to may be from */
void kernel_scale_vector(const struct train_launcher *l, uint64_t n, const float *from, const double *factors,
                         float *to);
/* to[k] += weight * (factor * towards[k] - to[k]) */
void kernel_move_vector(const struct train_launcher *l, uint64_t n, float *to, const float *towards, float weight,
                        float factor);

/* ---- Matrices ---- */

/* struct device_sum of train/device.h: to [columns] = or (float32) += the sums over the rows of from */
void kernel_sum_rows(const struct train_launcher *l, uint64_t nrow, uint64_t columns, const float *from,
                     enum plait_dtype type, void *to, bool add);
/* Each row of to [nrow][columns] = from [columns] */
void kernel_fill_rows(const struct train_launcher *l, uint64_t nrow, uint64_t columns, const float *from, float *to);

struct kernel_weights { /* of a convolution; inner: height x width */
    uint32_t out, in, inner;
};

/* [out][in][inner] -> [out][inner][in] */
void kernel_weights(const struct train_launcher *l, const struct kernel_weights *w, enum plait_dtype from_type,
                    const void *from, enum plait_dtype to_type, void *to);
/* [out][inner][in] -> [out][in][inner]; add: to (float32) += */
void kernel_weights_back(const struct train_launcher *l, const struct kernel_weights *w, enum plait_dtype from_type,
                         const void *from, enum plait_dtype to_type, void *to, bool add);

/* ---- The loss ---- */

struct kernel_loss { /* struct loss of train/device.h */
    uint32_t n, nclass;
    const float *logits;   /* [n][nclass] */
    const int32_t *labels; /* [n] -1: no image; classes are not checked */
    double smoothing;
};

size_t kernel_loss_scratch(uint32_t n);
/* Adds to *result. scratch: kernel_loss_scratch() bytes, aligned to 16 */
void kernel_loss(const struct train_launcher *l, const struct kernel_loss *loss, struct train_loss_sums *result,
                 void *scratch);
/* gradient [n][nclass] of (factor x *scale x the sum over the labelled images); scale: NULL is 1 */
void kernel_loss_back(const struct train_launcher *l, const struct kernel_loss *loss, double factor,
                      const double *scale, float *gradient);

#endif
