/* SPDX-License-Identifier: BSD-3-Clause */
/* Images that tests draw, as files in memory. */
#ifndef PLAIT_TESTS_TRAIN_DRAW_H
#define PLAIT_TESTS_TRAIN_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

struct form { /* of a JPEG */
    J_COLOR_SPACE of_file;
    int sampling; /* of colours: 1 or 2 */
    bool progressive;
};

struct jpeg {
    unsigned char *data;
    unsigned long n;
};

typedef void draw_fn(uint32_t x, uint32_t y, uint32_t width, uint32_t height, unsigned char *rgb);

/* Red grows from left to right, green downwards, blue is 100. */
void ramp(uint32_t x, uint32_t y, uint32_t width, uint32_t height, unsigned char *rgb);

/* The caller frees data. */
struct jpeg compress(uint32_t width, uint32_t height, draw_fn *draw, struct form form);
/* A PNG of ramp() with `channels` of 8 bits: grey, red, green and blue, or these with half the opacity. */
struct jpeg compress_png(uint32_t width, uint32_t height, unsigned channels);

#endif
