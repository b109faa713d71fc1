/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device computes a network's passes in memory of its own. This page is all that layers.c and model.c know of it;
 * device_cpu.c and dnn.c (oneDNN) implement it on CPUs, cuda/ on GPUs.
 *
 * Only the functions below touch a device's memory, unless kind->host says that it is the host's. Pointers are to the
 * device's memory, unless a comment says "host". Work runs in the order of the calls, and may run after the call has
 * returned; a function that returns a result to the host waits for it. No function allocates memory but create(),
 * alloc(), alloc_host() and those that make a layout, an operation, a graph or a decoder.
 *
 * A layout is how a tensor lies in memory. Activations and their gradients share the layout in which the device
 * convolves fastest, so none is reordered between layers. Weights have the layout that each convolution wants, and are
 * reordered from and to the caller's plain layout. An operation is made once and run often.
 *
 * A device that cannot do something, or has no memory left, ends the program with a message that names the remedy.
 *
 * Thread: a device and what it made belong to one thread; several threads may have one each.
 */
#ifndef PLAIT_TRAIN_DEVICE_H
#define PLAIT_TRAIN_DEVICE_H

#include "model.h"

struct image_decoder;
struct device_graph;

#define NORM_EPSILON 1e-5 /* of batch norm, as in torchvision */

/* ---- Layouts and operations ---- */

enum device_order {
    ORDER_FASTEST, /* of activations, as the device wants it */
    ORDER_PLAIN    /* row-major */
};

enum device_arg { /* of an operation */
                  ARG_SRC,
                  ARG_DST,
                  ARG_WEIGHTS,
                  ARG_BIAS,
                  ARG_MEAN,
                  ARG_VARIANCE,
                  ARG_SCALE,
                  ARG_SHIFT,
                  ARG_WORKSPACE, /* what the backward pass needs from the forward pass */
                  ARG_ADDEND,
                  ARG_DIFF_SRC,
                  ARG_DIFF_DST,
                  ARG_DIFF_MORE, /* second part of DIFF_DST; NULL: there is none */
                  ARG_DIFF_WEIGHTS,
                  ARG_DIFF_SCALE,
                  ARG_DIFF_SHIFT,
                  NARG
};

struct device_options {
    enum precision precision; /* of activations */
    unsigned threads;         /* of the host, that an operation uses */
    int number;               /* of a GPU */
    bool tf32;                /* fp32 convolutions and products may round their operands to TF32 */
    bool nondeterministic;    /* algorithms may be used whose sums differ in the last bits from run to run */
};

/* An implementation has more after these members. */
struct device {
    const struct device_kind *kind;
    size_t scratch;  /* bytes that operations need: the maximum over all made so far */
    void *stream;    /* the CUDA stream that has its work; NULL: the work is done when a function returns */
    char about[200]; /* for people, as "GPU 0 (NVIDIA H200), cuDNN 9.19.0" */
};

struct device_layout {
    size_t bytes;
};

struct device_op {
    struct device *device;
    const struct device_layout *layouts[NARG]; /* of the arguments; NULL: it has no such argument */
};

struct device_convolution {
    uint32_t n, in, out; /* channels */
    uint32_t height, width, kernel, stride, pad;
    bool images; /* input is the images: its layout is free, and it gets no gradient */
};

enum device_norm {
    NORM_BATCH, /* batch statistics: MEAN and VARIANCE are results */
    NORM_GIVEN, /* MEAN and VARIANCE are given, and constants in the backward pass */
    NORM_ONLY   /* as GIVEN, without a backward pass */
};

enum device_fused { /* with a batch norm */
                    FUSED_NOTHING,
                    FUSED_RELU,    /* DST = max(norm, 0) */
                    FUSED_ADD_RELU /* DST = max(norm + ADDEND, 0): the end of a residual block */
};

struct device_pool {
    uint32_t n, channels, height, width, kernel, stride, pad;
    bool average; /* false: max pooling */
};

struct device_images {
    uint32_t n, channels, height, width;
    bool bytes;                   /* else normalised floats */
    double mean[3], deviation[3]; /* of bytes, as fractions of 255 */
};

struct device_product { /* fp32: DST [rows][columns] = SRC [rows][inner] x WEIGHTS [inner][columns] */
    uint32_t rows, inner, columns;
    bool src_columns, weights_columns; /* lie as [inner][rows], [columns][inner] */
    bool bias;                         /* + BIAS [columns] */
    bool add;                          /* add to DST */
};

/* ---- What is no operation ---- */

struct elements { /* of tensors with the same layout */
    enum precision precision;
    size_t n;
};

struct device_sum { /* TO [columns] = or += the sums over the rows of FROM; of one row: a copy */
    void *to;
    enum precision type; /* of TO: 16 bits are rounded to nearest even */
    bool add;            /* fp32 only */
    const float *from;   /* [rows][columns] */
    size_t rows, columns;
};

struct loss { /* cross entropy of the softmax, with smoothed labels */
    uint32_t n, nclass;
    const float *logits;   /* [n][nclass] */
    const int32_t *labels; /* [n] -1: no image */
    double smoothing;
    double divisor;      /* of the gradient */
    const double *scale; /* of the gradient: one number; NULL: 1 */
};

/* to[k] += weight (factor towards[k] - to[k]) */
struct device_move {
    float *to;
    const float *towards;
    float factor, weight;
    size_t n;
};

struct device_kind {
    const char *name;
    bool host;  /* its memory is the host's */
    bool bytes; /* it takes images as bytes, and normalises them, too */

    struct device *(*create)(const struct device_options *options);
    void (*destroy)(struct device *device);     /* and all its memory, layouts and operations; NULL is allowed */
    void (*begin)(struct device *device);       /* a pass, on the calling thread */
    void (*synchronize)(struct device *device); /* wait until all work is done */

    /* Memory, zeroed and aligned for operations. alloc_host: of the host, from which images are copied fastest */
    void *(*alloc)(struct device *device, size_t bytes);
    void *(*alloc_host)(struct device *device, size_t bytes);
    /* They wait for all work before, and have copied when they return. */
    void (*copy_in)(struct device *device, void *to, const void *host, size_t bytes);
    void (*copy_out)(struct device *device, void *host, const void *from, size_t bytes);

    /* FASTEST: 4 dimensions: images, channels, height, width */
    const struct device_layout *(*layout)(struct device *device, enum device_order order, enum precision type,
                                          uint32_t ndim, const uint32_t *shape);

    /*
     * Graphs: what is put on the stream from record_begin() to record_end() is not run but recorded, and replay() runs
     * it: the same work on the same memory, by one call of the host. Meanwhile nothing is waited for, and no images or
     * results are copied. Work is recorded that has run before, since libraries may load code when it first runs.
     * destroy() frees graphs. NULL, all three: the device has none.
     */
    void (*record_begin)(struct device *device);
    struct device_graph *(*record_end)(struct device *device);
    void (*replay)(struct device *device, const struct device_graph *graph);

    /* Operations: inputs -> results. Arguments that one does not have are ignored. scratch: device->scratch bytes */
    void (*run)(struct device_op *op, void *const at[NARG], void *scratch);

    /* SRC, WEIGHTS -> DST */
    struct device_op *(*convolution)(struct device *device, const struct device_convolution *shape);
    /* SRC, SCALE, SHIFT, ADDEND -> DST, WORKSPACE (FUSED_RELU); SRC and DST may be the same with NORM_ONLY */
    struct device_op *(*norm)(struct device *device, const struct device_layout *layout, enum device_norm norm,
                              enum device_fused fused);
    /* SRC -> DST, WORKSPACE (max pooling, training) */
    struct device_op *(*pool)(struct device *device, const struct device_pool *shape, bool training);
    /* SRC, WEIGHTS, BIAS -> DST */
    struct device_op *(*product)(struct device *device, const struct device_product *shape);
    /* SRC -> DST, from one layout and type to another. add: add to DST */
    struct device_op *(*reorder)(struct device *device, const struct device_layout *from,
                                 const struct device_layout *to, bool add);
    /*
     * The backward form of a convolution, norm or pooling. A layout that both have is one pointer.
     *
     * convolution  DIFF_DST, WEIGHTS -> DIFF_SRC, or SRC, DIFF_DST -> DIFF_WEIGHTS: as `result` says
     * norm         SRC, MEAN, VARIANCE, SCALE, SHIFT, WORKSPACE, DIFF_DST -> DIFF_SRC, DIFF_SCALE, DIFF_SHIFT.
     *              DIFF_SRC may take the place of DIFF_DST.
     *              FUSED_ADD_RELU: first DIFF_DST becomes the gradient of ADDEND: DIFF_DST + DIFF_MORE where DST is
     *              above 0, else 0. DIFF_SRC may take the place of DST, not of DIFF_DST
     * pooling      DIFF_DST, WORKSPACE -> DIFF_SRC
     */
    struct device_op *(*back)(const struct device_op *forward, enum device_arg result);

    /*
     * Images and labels of the host. copy_images() may copy after it has returned; wait_images() waits until the host
     * may write both again.
     *
     * images  host: [n][height][width][channels]
     * to      in the layout given to images()
     * labels  host, and [n] of the device
     * scratch device->scratch bytes
     */
    struct device_op *(*images)(struct device *device, const struct device_images *shape,
                                const struct device_layout *to);
    void (*copy_images)(struct device_op *op, const void *images, const int32_t *labels, void *to, int32_t *to_labels,
                        void *scratch);
    void (*wait_images)(struct device *device);
    /*
     * Decodes JPEGs (data.h) to `pixels` squared, for at most `threads` at a time; one for each device. copy_images()
     * takes images of its memory, too. NULL: the device has none. destroy() frees it.
     */
    struct image_decoder *(*decoder)(struct device *device, uint32_t pixels, unsigned threads);

    void (*add)(struct device *device, struct elements e, void *a, const void *b); /* a = a + b */
    bool (*finite)(struct device *device, struct elements e, const void *a);       /* are all elements? */
    void (*sum)(struct device *device, const struct device_sum *sum);
    /* to[k] = factors[k] from[k] */
    void (*multiply)(struct device *device, float *to, const float *from, const double *factors, size_t n);
    void (*move)(struct device *device, const struct device_move *move);
    void (*loss)(struct device *device, const struct loss *loss, struct model_result *add);
    /* gradient: [n][nclass] of scale / divisor x the sum over the labelled images */
    void (*loss_back)(struct device *device, const struct loss *loss, float *gradient);
};

extern const struct device_kind device_cpu;
extern const struct device_kind device_cuda; /* cuda/device_cuda.c */

/* The number of the GPU of a machine's rank: they are spread over all that there are. */
int device_cuda_of(uint32_t rank);

/* Can oneDNN compute in bf16 here? Without emulation, which has half the speed of fp32? */
bool device_cpu_has_bf16(void);
bool device_cpu_bf16_fast(void);

#endif
