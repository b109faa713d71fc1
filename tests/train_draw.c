/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_draw.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

void ramp(uint32_t x, uint32_t y, uint32_t width, uint32_t height, unsigned char *rgb)
{
    rgb[0] = (unsigned char)((255 * (2 * x + 1)) / (2 * width));
    rgb[1] = (unsigned char)((255 * (2 * y + 1)) / (2 * height));
    rgb[2] = 100;
}

/* Adobe's programs write CMYK inverted, and libjpeg marks such files as theirs. */
static void put_pixel(const struct jpeg_compress_struct *c, unsigned char *at, const unsigned char *rgb)
{
    memcpy(at, rgb, 3);
    if (c->input_components == 4)
        at[3] = 255;
    if (c->input_components == 1)
        at[0] = rgb[0];
}

struct jpeg compress(uint32_t width, uint32_t height, draw_fn *draw, struct form form)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg out = { NULL, 0 };
    const bool cmyk = form.of_file == JCS_CMYK || form.of_file == JCS_YCCK, grey = form.of_file == JCS_GRAYSCALE;
    unsigned char *row = malloc(4 * (size_t)width);

    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out.data, &out.n);
    c.image_width = width;
    c.image_height = height;
    c.input_components = cmyk ? 4 : grey ? 1 : 3;
    c.in_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, form.of_file);
    jpeg_set_quality(&c, 95, TRUE);
    c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = form.sampling;
    if (form.progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            unsigned char rgb[3];
            draw(x, y, width, height, rgb);
            put_pixel(&c, row + (size_t)x * (size_t)c.input_components, rgb);
        }
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return out;
}

struct jpeg compress_png(uint32_t width, uint32_t height, unsigned channels)
{
    png_image i = { .version = PNG_IMAGE_VERSION, .width = width, .height = height };
    unsigned char *rows = malloc((size_t)width * height * channels), rgba[4];
    png_alloc_size_t n = 0;

    i.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            ramp(x, y, width, height, rgba);
            rgba[3] = 128;
            memcpy(rows + ((size_t)y * width + x) * channels, rgba, channels);
        }
    assert_int_not_equal(png_image_write_get_memory_size(i, n, 0, rows, 0, NULL), 0);
    struct jpeg out = { malloc(n), n };
    assert_int_not_equal(png_image_write_to_memory(&i, out.data, &n, 0, rows, 0, NULL), 0);
    out.n = n;
    free(rows);
    return out;
}
