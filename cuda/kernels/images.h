/* SPDX-License-Identifier: BSD-3-Clause */
/* The device code as data for cuModuleLoadData(): a fat binary or PTX. */
#ifndef PLAIT_CUDA_IMAGES_H
#define PLAIT_CUDA_IMAGES_H

#include <stddef.h>

struct plait_cuda_image {
    const char *name; /* of the source: "reduce" */
    const void *data; /* PTX is text that ends with a 0 */
    size_t bytes;
};

/* Each kernel is in one of these images. The last has no name. */
extern const struct plait_cuda_image plait_cuda_images[];

/* The compiler: "nvcc of CUDA 13.0 (PTX 9.0)". */
extern const char plait_cuda_images_by[];

#endif
