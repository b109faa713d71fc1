/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of the device code where there is no nvcc: what no GPU loads. */
#include "kernels/images.h"

const struct plait_cuda_image plait_cuda_images[] = { { "none", "", 1 }, { NULL, NULL, 0 } };
