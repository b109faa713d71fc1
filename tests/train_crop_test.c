/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that decodes: here libjpeg decodes the whole image, and the kernels for GPUs crop it, as the host runs them.
 * Crops are the processor's; what the device does not decode, the processor does.
 */
#include "train_draw.h"
#include "unit.h"

#include "../train/cuda/kernels/host.h"
#include "../train/cuda/kernels/launch.h"
#include "../train/data.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 260 };

static struct {
    struct image_decoder decoder;
    uint32_t pixels, most_blocks;
    const char *refuses;
    unsigned decoded, put;
} device;

/* ---- The device ---- */

static void launch(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    (void)context;
    train_cuda_host_find(train_kernels[kernel].name)
        ->run(argument, blocks < device.most_blocks ? blocks : device.most_blocks);
}

static uint8_t *decode_whole(const void *jpeg, size_t bytes, uint32_t width, uint32_t height)
{
    struct jpeg_decompress_struct j;
    struct jpeg_error_mgr errors;
    uint8_t *pixels = malloc((size_t)width * height * 3);

    j.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&j);
    jpeg_mem_src(&j, jpeg, bytes);
    jpeg_read_header(&j, TRUE);
    assert_true(j.image_width == width && j.image_height == height);
    j.out_color_space = JCS_RGB;
    j.do_block_smoothing = FALSE;
    jpeg_start_decompress(&j);
    while (j.output_scanline < height) {
        JSAMPROW row = pixels + (size_t)j.output_scanline * width * 3;
        jpeg_read_scanlines(&j, &row, 1);
    }
    jpeg_destroy_decompress(&j);
    return pixels;
}

static const char *decode(struct image_decoder *decoder, const void *jpeg, size_t bytes, uint32_t width,
                          uint32_t height, const struct augmentation *a, void *out)
{
    static float values[MOST * MOST * 3];
    static double grey[MOST];
    const struct train_launcher l = { launch, NULL, 132 };

    assert_ptr_equal(decoder, &device.decoder);
    if (device.refuses != NULL)
        return device.refuses;
    device.decoded++;
    memset(values, 0x7f, sizeof values);
    memset(grey, 0x7f, sizeof grey);
    uint8_t *pixels = decode_whole(jpeg, bytes, width, height);
    kernel_crop(&l, &(struct train_crop){ .from = pixels,
                                          .to = out,
                                          .values = values,
                                          .grey = grey,
                                          .x = a->box.x,
                                          .y = a->box.y,
                                          .box_width = a->box.width,
                                          .box_height = a->box.height,
                                          .width = width,
                                          .height = height,
                                          .side = device.pixels,
                                          .flip = a->flip,
                                          .brightness = a->brightness,
                                          .contrast = a->contrast,
                                          .saturation = a->saturation });
    free(pixels);
    return NULL;
}

static void put(struct image_decoder *decoder, const void *image, size_t bytes, void *out)
{
    assert_ptr_equal(decoder, &device.decoder);
    device.put++;
    memcpy(out, image, bytes);
}

static struct image_options begin(uint32_t pixels, enum transform transform, double jitter)
{
    struct image_options o = image_defaults;

    memset(&device, 0, sizeof device);
    device.decoder.decode = decode;
    device.decoder.put = put;
    device.pixels = pixels;
    device.most_blocks = UINT32_MAX;
    o.pixels = pixels;
    o.transform = transform;
    o.jitter = jitter;
    o.bytes = true;
    return o;
}

/* ---- Crops ---- */

/* Edges and colours everywhere, none of them as fine as pixels. */
static void waves(uint32_t x, uint32_t y, uint32_t width, uint32_t height, unsigned char *rgb)
{
    (void)height;
    rgb[0] = (unsigned char)(x * 7 % 256 / 2 + (y / 9 % 2 != 0 ? 120 : 0));
    rgb[1] = (unsigned char)(255 * y / (height + 1));
    rgb[2] = (unsigned char)((x + y) * 255 / (width + height));
}

static struct {
    unsigned char image[MOST * MOST * 3 + 1], own[MOST * MOST * 3];
} seen;

struct apart { /* differences of two images, in 256ths of the range */
    int most;
    double mean;
};

static struct apart compare(const struct jpeg *j, const struct image_options *o, uint64_t sample)
{
    const size_t n = image_size(o);
    struct apart apart = { 0, 0 };
    const char *refused;

    seen.image[n] = 77;
    assert_null(image_decode_on(&device.decoder, j->data, j->n, o, 5, 6, sample, seen.image, &refused));
    assert_null(refused);
    assert_int_equal(seen.image[n], 77);
    assert_null(image_decode(j->data, j->n, o, 5, 6, sample, seen.own));
    for (size_t k = 0; k < n; k++) {
        const int d = abs(seen.image[k] - seen.own[k]);
        apart.most = d > apart.most ? d : apart.most;
        apart.mean += (double)d / (double)n;
    }
    return apart;
}

static const struct form forms[] = {
    { JCS_YCbCr, 2, false }, { JCS_YCbCr, 1, false }, { JCS_YCbCr, 2, true }, { JCS_GRAYSCALE, 1, false }
};

/*
 * The processor decodes at the full size, too: the box has less than twice the result's pixels. Sums that end in a half
 * may be rounded to either side.
 */
static void crops_are_the_processors(void **state)
{
    static const uint32_t sizes[][2] = { { 60, 44 }, { 33, 63 }, { 24, 24 }, { 9, 63 }, { 1, 1 } };

    for (unsigned s = 0; s < 5; s++)
        for (uint64_t sample = 0; sample < 12; sample++) {
            const struct jpeg j = compress(sizes[s][0], sizes[s][1], waves, forms[sample % 4]);
            const struct image_options o =
                begin(32, sample % 3 == 0 ? TRANSFORM_EVAL : TRANSFORM_TRAIN, sample % 2 == 0 ? 0.9 : 0);
            device.most_blocks = sample % 5 == 0 ? UINT32_MAX : sample % 5;
            const struct apart apart = compare(&j, &o, sample);
            if (apart.most > 1 || apart.mean > 2e-2)
                fail_msg("%u x %u, sample %d: at most %d, on average %g", sizes[s][0], sizes[s][1], (int)sample,
                         apart.most, apart.mean);
            free(j.data);
        }
    assert_int_equal(device.put, 0);
}

/* More threads than pixels of a row, and fewer. */
static void crops_of_any_side_are_the_processors(void **state)
{
    static const uint32_t sides[] = { 16, 255, 256, 257, MOST };

    for (unsigned s = 0; s < 5; s++) {
        const struct jpeg j = compress(300, 250, waves, forms[1]);
        const struct image_options o = begin(sides[s], TRANSFORM_TRAIN, 0.5);
        const struct apart apart = compare(&j, &o, s);
        assert_in_range(apart.most, 0, s == 0 ? 40 : 1);
        free(j.data);
    }
}

/* The filters differ if the processor decodes at a half to an eighth of the size. */
static void crops_of_large_images_are_near_the_processors(void **state)
{
    static const struct {
        uint32_t width, height, pixels;
        double mean;
    } cases[] = { { 500, 375, 32, 2 }, { 1200, 900, 32, 2 }, { 1200, 900, 224, 2 } };

    for (unsigned c = 0; c < 3; c++) {
        const struct jpeg j = compress(cases[c].width, cases[c].height, waves, forms[0]);
        const struct image_options o = begin(cases[c].pixels, TRANSFORM_TRAIN, 0);
        double mean = 0;
        for (uint64_t sample = 0; sample < 8; sample++)
            mean += compare(&j, &o, sample).mean / 8;
        print_message("%u x %u to %u: %.3f of 255 on average\n", cases[c].width, cases[c].height, cases[c].pixels,
                      mean);
        assert_true(mean < cases[c].mean);
        free(j.data);
    }
}

/* ---- What the device does not decode ---- */

static void is_the_processors(const struct jpeg *j, const char *says)
{
    const struct image_options o = begin(32, TRANSFORM_TRAIN, 0.2);
    const char *refused = NULL;

    device.refuses = strcmp(says, "the device refuses") == 0 ? says : NULL;
    assert_null(image_decode_on(&device.decoder, j->data, j->n, &o, 1, 2, 3, seen.image, &refused));
    assert_non_null(refused);
    assert_non_null(strstr(refused, says));
    assert_int_equal(device.put, 1);
    assert_int_equal(device.decoded, 0);
    assert_null(image_decode(j->data, j->n, &o, 1, 2, 3, seen.own));
    assert_memory_equal(seen.image, seen.own, image_size(&o));
    free(j->data);
}

static void what_the_device_does_not_decode_the_processor_does(void **state)
{
    static const J_COLOR_SPACE colours[] = { JCS_CMYK, JCS_YCCK, JCS_RGB };

    for (unsigned k = 0; k < 3; k++) {
        const struct jpeg j = compress(60, 50, ramp, (struct form){ colours[k], 1, false });
        is_the_processors(&j, "neither YCbCr nor grey");
    }
    const struct jpeg png = compress_png(60, 50, 3), j = compress(60, 50, ramp, forms[0]);
    is_the_processors(&png, "a PNG");
    is_the_processors(&j, "the device refuses");
}

/* With the processor's words. The device does not see files that are cut or that are too large. */
static void a_broken_file_is_broken_on_a_device_too(void **state)
{
    const struct jpeg j = compress(60, 50, waves, forms[0]);
    struct image_options o = begin(32, TRANSFORM_TRAIN, 0.2);
    const char *refused, *why;

    for (size_t n = 0; n < j.n; n += j.n / 5) {
        why = image_decode_on(&device.decoder, j.data, n, &o, 1, 2, 3, seen.image, &refused);
        assert_non_null(why);
        assert_non_null(refused);
        if (n == 0)
            assert_string_equal(why, "the file is empty");
    }
    o.most_pixels = 2999;
    why = image_decode_on(&device.decoder, j.data, j.n, &o, 1, 2, 3, seen.image, &refused);
    assert_non_null(why);
    assert_non_null(strstr(why, "above the limit"));
    assert_int_equal(device.decoded + device.put, 0);
    free(j.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_are_the_processors),
        cmocka_unit_test(crops_of_any_side_are_the_processors),
        cmocka_unit_test(crops_of_large_images_are_near_the_processors),
        cmocka_unit_test(what_the_device_does_not_decode_the_processor_does),
        cmocka_unit_test(a_broken_file_is_broken_on_a_device_too),
    };

    return cmocka_run_group_tests_name("train_crop", tests, NULL, NULL);
}
