/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the device code when there was no nvcc. */
#include "images.h"

const struct plait_cuda_image train_cuda_images[] = { { 0 } };
const char train_cuda_images_by[] = "no nvcc";
