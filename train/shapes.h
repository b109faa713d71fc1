/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes and patterns that make_data.c draws. */
#ifndef PLAIT_TRAIN_SHAPES_H
#define PLAIT_TRAIN_SHAPES_H

#include <math.h>

enum { NSHAPE = 12, NPATTERN = 4 };

extern const struct shape {
    const char *name;
    float (*outside)(float u, float v); /* how far (u, v) lies outside; negative inside. Radius about 1 */
} shapes[NSHAPE];

extern const struct pattern {
    const char *name;
    int (*lit)(float u, float v); /* 0 or 1, in cells about 1 wide */
} patterns[NPATTERN];

float shape_box(float u, float v, float half_width, float half_height);
int pattern_striped(float u, float v);

/* Not fminf() and the like, which are function calls; there are no NaNs here. */
static inline float smaller(float a, float b)
{
    return a < b ? a : b;
}

static inline float larger(float a, float b)
{
    return a > b ? a : b;
}

static inline float distance(float u, float v)
{
    return sqrtf(u * u + v * v);
}

#endif
