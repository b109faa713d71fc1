/* SPDX-License-Identifier: BSD-3-Clause */
/* A PNG to its pixels, by libpng. A part alone cannot be decoded, as a row is compressed from the one above it. */
#ifndef PLAIT_TRAIN_PNG_FILE_H
#define PLAIT_TRAIN_PNG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct png_pixels {
    uint32_t width, height;
    unsigned char *pixels; /* [height][width][4]: red, green, blue, and opacity, which nobody uses; free() it */
};

/** Does the file begin as a PNG does? */
bool png_is(const void *file, size_t bytes);

/**
 * Decode all of it. A file that is damaged or ends early is an error.
 *
 * Result: NULL, or the error (of this thread, until its next call); then out->pixels is NULL
 * Thread: any
 */
const char *png_decode(const void *file, size_t bytes, uint64_t most_pixels, struct png_pixels *out);

#endif
