/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUs as a device (device.h), on one stream of its own:
 *
 *     device_cuda.c   memory, copies, what is no operation
 *     operations.c    layouts and operations, in terms of what follows
 *     images.c        images and labels from the host
 *     decoder.c       JPEGs by nvJPEG
 *     graph.c         CUDA graphs
 *
 *     gpu.h           a GPU through CUDA's driver
 *     convolution.h   convolutions by cuDNN
 *     product.h       matrix products by cuBLAS
 *     kernels/        kernels for everything else
 */
#ifndef PLAIT_TRAIN_CUDA_CUDA_H
#define PLAIT_TRAIN_CUDA_CUDA_H

#include "convolution.h"
#include "gpu.h"
#include "kernels/launch.h"

struct cuda_layout {
    struct device_layout layout;
    enum device_order order; /* FASTEST: [shape 0][shape 2][shape 3][shape 1] */
    enum precision type;
    uint32_t shape[4]; /* 1 beyond the dimensions */
    struct cuda_layout *next;
};

struct cuda_norm {
    enum device_norm norm;
    enum device_fused fused;
};

struct cuda_reorder {
    const struct cuda_layout *from, *to;
    bool add;
};

struct cuda_slot { /* where images wait on the GPU */
    void *pixels;
    int32_t *labels;
    void *copied; /* event: the copy has ended */
    void *read;   /* event: the pass has read it */
};

struct cuda_images {
    struct device_images shape;
    struct cuda_slot slots[2];
    unsigned turn;
};

struct cuda_op {
    struct device_op op;
    struct cuda_op *next;
    void (*run)(const struct cuda_op *op, void *const at[NARG], void *scratch);
    struct device_op *(*back)(const struct cuda_op *forward, enum device_arg result); /* NULL: it has no such form */
    struct convolution *plan;
    union {
        struct device_convolution convolution;
        struct cuda_norm norm;
        struct kernel_pool pool;
        struct device_product product;
        struct cuda_reorder reorder;
        struct cuda_images images;
    };
};

struct cuda_block { /* of memory */
    void *memory;
    bool host;
    struct cuda_block *next;
};

struct cuda_decoder;

struct cuda {
    struct device device;
    struct device_options options;
    enum plait_dtype type; /* of activations */
    struct gpu gpu;
    struct libraries *libraries;
    struct train_launcher launcher;
    void **modules; /* [nmodule] of device code */
    uint32_t nmodule;
    void *functions[TRAIN_NKERNEL];
    struct cuda_layout *layouts;
    struct cuda_op *ops;
    struct cuda_block *blocks;
    struct device_graph *graphs;
    uint32_t *infinite; /* result of finite() */
    void *losses;       /* scratch memory of the loss, for at most */
    uint32_t most_images;
    void *copies;                 /* a stream: images come while the GPU computes */
    void *copied;                 /* event: the latest images have been copied; NULL: there were none */
    struct cuda_decoder *decoder; /* NULL: processors decode */
};

static inline struct cuda *cuda_of(struct device *device)
{
    return (struct cuda *)device;
}

/** End the program with this error, unless it is NULL. */
void cuda_must(const char *why);
/** The same for a status of the driver: what was tried. */
void cuda_must_call(int status, const char *what);

enum plait_dtype cuda_type(enum precision precision);

/* ---- Functions of the device, as device.h has them ---- */

void *cuda_alloc(struct device *device, size_t bytes);

const struct device_layout *cuda_layout(struct device *device, enum device_order order, enum precision type,
                                        uint32_t ndim, const uint32_t *shape);
void cuda_run(struct device_op *op, void *const at[NARG], void *scratch);
struct device_op *cuda_convolution(struct device *device, const struct device_convolution *shape);
struct device_op *cuda_norm(struct device *device, const struct device_layout *layout, enum device_norm norm,
                            enum device_fused fused);
struct device_op *cuda_pool(struct device *device, const struct device_pool *shape, bool training);
struct device_op *cuda_product(struct device *device, const struct device_product *shape);
struct device_op *cuda_reorder(struct device *device, const struct device_layout *from, const struct device_layout *to,
                               bool add);
struct device_op *cuda_back(const struct device_op *forward, enum device_arg result);

struct device_op *cuda_images(struct device *device, const struct device_images *shape, const struct device_layout *to);
void cuda_copy_images(struct device_op *op, const void *images, const int32_t *labels, void *to, int32_t *to_labels,
                      void *scratch);
void cuda_wait_images(struct device *device);
struct image_decoder *cuda_decoder(struct device *device, uint32_t pixels, unsigned threads);

void cuda_record_begin(struct device *device);
struct device_graph *cuda_record_end(struct device *device);
void cuda_replay(struct device *device, const struct device_graph *graph);

/* ---- Shared by these files ---- */

/** An operation that destroy() frees. */
struct cuda_op *cuda_op_create(struct cuda *cuda,
                               void (*run)(const struct cuda_op *op, void *const at[NARG], void *scratch));
void cuda_launch(const struct cuda *cuda, void *stream, enum train_kernel kernel, uint32_t blocks,
                 const void *argument);
void cuda_decoder_destroy(struct cuda_decoder *decoder); /* when its threads have ended; NULL is allowed */
void cuda_images_destroy(struct cuda_images *images);
void cuda_graphs_destroy(struct cuda *cuda);
/** The end of an error's text: what helps while this thread records a graph, else "". */
const char *cuda_graph_remedy(void);
/** Layouts and operations. */
void cuda_operations_destroy(struct cuda *cuda);

#endif
