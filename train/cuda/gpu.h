/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A GPU through CUDA's driver (cuda/driver.h): its primary context, one stream, memory.
 *
 * Functions return NULL, or an error text with its remedy, valid until the thread's next one.
 */
#ifndef PLAIT_TRAIN_CUDA_GPU_H
#define PLAIT_TRAIN_CUDA_GPU_H

#include "model.h"

struct gpu {
    int number;          /* as CUDA_VISIBLE_DEVICES leaves it */
    int capability;      /* 90: compute capability 9.0 */
    int multiprocessors; /* SMs */
    int driver;          /* newest CUDA of the driver; 13000: 13.0 */
    char name[96];       /* such as "NVIDIA H200" */
    size_t free;         /* bytes of its memory when it was opened */
    void *context;       /* the primary one, which is shared with CUDA's runtime */
    void *stream;        /* waits for no other stream */
};

/** Load the driver, and count its GPUs: one or more. */
const char *gpu_count(int *out);

/** Load the driver, check that this GPU computes in `precision`, make its context current on this thread. */
const char *gpu_open(int number, enum precision precision, struct gpu *out);
/** When all its work is done. Zeros: nothing to close. */
void gpu_close(struct gpu *gpu);

/** Make its context current on this thread. */
const char *gpu_use(const struct gpu *gpu);

/** Memory of the GPU, not zeroed; 256-byte aligned. The context is current. */
const char *gpu_alloc(const struct gpu *gpu, size_t bytes, void **out);
void gpu_free(void *memory); /* NULL is allowed */

#endif
