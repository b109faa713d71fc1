/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions of the stand-in for cuDNN, as plainly as their meaning: NHWC, weights [out][height][width][in]. */
#ifndef PLAIT_TESTS_STANDIN_CONVOLVE_H
#define PLAIT_TESTS_STANDIN_CONVOLVE_H

#include <stdint.h>

enum direction { TO_Y, TO_X, TO_W };

struct convolve {
    enum direction direction;
    int type;                 /* of cuDNN: of all tensors */
    int tf32;                 /* inputs lose the last 13 bits */
    int reversed;             /* sums over the images run backwards */
    int64_t x[4], w[4], y[4]; /* images, channels, height, width; out, in, height, width; as x */
    int64_t pad[2], stride[2];
    void *at_x, *at_w, *at_y;
};

/* context: a struct convolve */
void convolve(void *context);
int64_t convolve_size(int type); /* bytes of an element */

#endif
