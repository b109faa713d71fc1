/* SPDX-License-Identifier: BSD-3-Clause */
/* The device code of the kernels as data (cuda/kernels/images.h). Empty where there was no nvcc. */
#ifndef PLAIT_TRAIN_CUDA_IMAGES_H
#define PLAIT_TRAIN_CUDA_IMAGES_H

#include "../../../cuda/kernels/images.h"

extern const struct plait_cuda_image train_cuda_images[];
extern const char train_cuda_images_by[];

#endif
