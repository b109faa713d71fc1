/* SPDX-License-Identifier: BSD-3-Clause */
#include "png_file.h"

#include <png.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char why[96]; /* text of the latest error */

bool png_is(const void *file, size_t bytes)
{
    return bytes >= 8 && memcmp(file, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static const char *fail(png_image *image, const char *text)
{
    snprintf(why, sizeof why, "%s", text);
    png_image_free(image);
    return why;
}

const char *png_decode(const void *file, size_t bytes, uint64_t most_pixels, struct png_pixels *out)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    char text[96];

    *out = (struct png_pixels){ 0 };
    if (!png_image_begin_read_from_memory(&image, file, bytes))
        return fail(&image, image.message);
    if ((uint64_t)image.width * image.height > most_pixels) {
        snprintf(text, sizeof text, "%u x %u pixels, above the limit of %llu", image.width, image.height,
                 (unsigned long long)most_pixels);
        return fail(&image, text);
    }
    image.format = PNG_FORMAT_RGBA;
    out->pixels = malloc(PNG_IMAGE_SIZE(image));
    if (out->pixels == NULL)
        return fail(&image, "no memory for its pixels");
    out->width = image.width;
    out->height = image.height;
    if (png_image_finish_read(&image, NULL, out->pixels, 0, NULL) && image.warning_or_error == 0)
        return NULL;
    free(out->pixels);
    out->pixels = NULL;
    return fail(&image, image.message);
}
