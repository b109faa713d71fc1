/* SPDX-License-Identifier: BSD-3-Clause */
/* One image: where a crop comes from, forms of JPEG, what is random, files that are broken. */
#include "train_draw.h"
#include "unit.h"

#include "../train/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { SIDE = 32 };

static void brown(uint32_t x, uint32_t y, uint32_t width, uint32_t height, unsigned char *rgb)
{
    (void)x, (void)y, (void)width, (void)height;
    memcpy(rgb, (unsigned char[]){ 150, 100, 50 }, 3);
}

static const struct form plain = { JCS_YCbCr, 2, false };

/* Results as 0 to 255. */
static struct image_options plain_options(enum transform transform)
{
    struct image_options o = image_defaults;

    o.pixels = SIDE;
    o.transform = transform;
    for (int c = 0; c < 3; c++) {
        o.mean[c] = 0;
        o.deviation[c] = 1 / 255.0;
    }
    return o;
}

static float image[SIDE][SIDE][3], other[SIDE][SIDE][3];

static void near(float value, double expected, double tolerance, const char *what)
{
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s: %g, expected %g", what, (double)value, expected);
}

/* ---- Where a crop comes from ---- */

/* Evaluation takes the middle 7/8 of the shorter side, whatever the size, whatever blocks are shrunk to. */
static void a_crop_for_evaluation_is_the_middle_of_any_size(void **state)
{
    static const uint32_t sizes[][2] = { { 33, 40 },    { 64, 48 },   { 100, 100 }, { 640, 479 }, { 301, 977 },
                                         { 1200, 800 }, { 1024, 31 }, { 17, 16 },   { 8, 300 } };
    const struct image_options o = plain_options(TRANSFORM_EVAL);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 4; k++) {
            const double width = sizes[i][0], height = sizes[i][1], side = fmin(width, height) * 7 / 8;
            struct jpeg j = compress(sizes[i][0], sizes[i][1], ramp, (struct form){ JCS_YCbCr, 1 + k / 2, k % 2 == 1 });
            assert_null(image_decode(j.data, j.n, &o, 1, 2, 3, &image[0][0][0]));
            for (int at = 2; at < SIDE - 2; at++) { /* not where the filter ends at the image's edge */
                const double x = (width - side) / 2 + (at + 0.5) * side / SIDE;
                const double y = (height - side) / 2 + (at + 0.5) * side / SIDE;
                near(image[5][at][0], 255 * x / width, 5 + 255 / width, "red");
                near(image[at][5][1], 255 * y / height, 5 + 255 / height, "green");
                near(image[at][at][2], 100, 4 + 40 / side, "blue");
            }
            free(j.data);
        }
}

struct seen { /* a crop of the ramp, read from its colours: parts of the image */
    double left, width, top, height;
};

static struct seen seen_of(float of[SIDE][SIDE][3])
{
    struct seen s;
    const double span = (SIDE - 9) / (double)SIDE; /* of the pixels 4 and SIDE - 5 */

    s.width = (of[16][SIDE - 5][0] - of[16][4][0]) / 255 / span;
    s.height = (of[SIDE - 5][16][1] - of[4][16][1]) / 255 / span;
    s.left = of[16][4][0] / 255 - 4.5 / SIDE * s.width;
    s.top = of[4][16][1] / 255 - 4.5 / SIDE * s.height;
    return s;
}

/* Areas, aspects and both directions lie within what was asked for and come near its ends. */
static void crops_for_training_are_of_all_areas_aspects_and_directions(void **state)
{
    const struct image_options o = plain_options(TRANSFORM_TRAIN);
    struct jpeg j = compress(400, 400, ramp, plain);
    double least = 1, most = 0, wide = 0, tall = 9, from = 1, to = 0;
    int flipped = 0;

    for (uint64_t sample = 0; sample < 400; sample++) {
        assert_null(image_decode(j.data, j.n, &o, 1, 0, sample, &image[0][0][0]));
        struct seen s = seen_of(image);
        if (s.width < 0) {
            flipped++;
            s.left += s.width;
            s.width = -s.width;
        }
        assert_true(s.left > -0.03 && s.left + s.width < 1.03 && s.top > -0.03 && s.top + s.height < 1.03);
        least = fmin(least, s.width * s.height);
        most = fmax(most, s.width * s.height);
        wide = fmax(wide, s.width / s.height);
        tall = fmin(tall, s.width / s.height);
        from = fmin(from, s.left + s.width / 2);
        to = fmax(to, s.left + s.width / 2);
        for (int x = 4; x < SIDE - 5; x++) /* straight */
            near(image[9][x + 1][0] - image[9][x][0], (image[9][SIDE - 5][0] - image[9][4][0]) / (SIDE - 9.0), 5,
                 "slope");
    }
    assert_true(flipped > 150 && flipped < 250);
    assert_true(least > 0.06 && least < 0.12 && most > 0.9 && most < 1.05);
    assert_true(wide > 1.28 && wide < 1.45 && tall < 0.78 && tall > 0.7);
    assert_true(from < 0.3 && to > 0.7);
    free(j.data);
}

/* A checkerboard finer than the result becomes grey: pixels that a crop has too many are averaged, none is dropped, whether
   the blocks shrink or not. */
static void fine(uint32_t x, uint32_t y, uint32_t width, uint32_t height, unsigned char *rgb)
{
    const uint32_t cell = width < 100 ? 1 : 2;

    memset(rgb, (x / cell + y / cell) % 2 == 0 ? 40 : 200, 3);
}

static void what_is_finer_than_the_result_is_averaged(void **state)
{
    static const uint32_t sizes[] = { 55, 60, 70, 250, 375, 500, 700, 1000 };
    const struct image_options o = plain_options(TRANSFORM_EVAL);

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct jpeg j = compress(sizes[k], sizes[k], fine, plain);
        assert_null(image_decode(j.data, j.n, &o, 0, 0, 0, &image[0][0][0]));
        for (int i = 0; i < SIDE * SIDE; i++)
            near(image[i / SIDE][i % SIDE][1], 120, 12, "mean");
        free(j.data);
    }
}

/* ---- Forms ---- */

static void greyscale_cmyk_ycck_rgb_and_progressive_files_are_read(void **state)
{
    static const struct form forms[] = { { JCS_YCbCr, 1, false },   { JCS_YCbCr, 2, true },
                                         { JCS_RGB, 1, false },     { JCS_CMYK, 1, false },
                                         { JCS_CMYK, 1, true },     { JCS_YCCK, 1, false },
                                         { JCS_YCCK, 2, false },    { JCS_GRAYSCALE, 1, false },
                                         { JCS_GRAYSCALE, 1, true } };
    struct image_options o = plain_options(TRANSFORM_TRAIN);

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (uint64_t sample = 0; sample < 8; sample++) {
            struct jpeg j = compress(200, 150, brown, forms[i]);
            assert_null(image_decode(j.data, j.n, &o, 0, 0, sample, &image[0][0][0]));
            const bool grey = forms[i].of_file == JCS_GRAYSCALE;
            near(image[9][9][0], 150, 4, "red");
            near(image[9][9][1], grey ? 150 : 100, 4, "green");
            near(image[9][9][2], grey ? 150 : 50, 4, "blue");
            free(j.data);
        }
}

/* ---- What is random ---- */

static void what_is_random_follows_from_seed_epoch_and_sample(void **state)
{
    struct image_options o = plain_options(TRANSFORM_TRAIN);
    struct jpeg j = compress(300, 200, ramp, plain);

    o.jitter = 0.4;
    for (uint64_t k = 0; k < 8; k++) {
        const uint64_t seed = 5 + (k & 1), sample = 7 + (k >> 2);
        const uint32_t epoch = 1 + (k >> 1 & 1);
        assert_null(image_decode(j.data, j.n, &o, 5, 1, 7, &image[0][0][0]));
        assert_null(image_decode(j.data, j.n, &o, seed, epoch, sample, &other[0][0][0]));
        assert_true((memcmp(image, other, sizeof image) == 0) == (k == 0));
    }
    free(j.data);
}

/* Of one colour all over: 0.299 r + 0.587 g + 0.114 b, times the brightness, stays; colours change by contrast and saturation. */
static void jitter_changes_brightness_contrast_and_saturation_as_far_as_asked(void **state)
{
    struct image_options o = plain_options(TRANSFORM_TRAIN);
    struct jpeg j = compress(64, 64, brown, plain),
                g = compress(64, 64, ramp, (struct form){ JCS_GRAYSCALE, 1, false });
    double least[3] = { 9, 9, 9 }, most[3] = { 0 };

    o.jitter = 0.3;
    o.least_area = 1;
    for (uint64_t sample = 0; sample < 300; sample++) {
        assert_null(image_decode(j.data, j.n, &o, 1, 0, sample, &image[0][0][0]));
        assert_null(image_decode(g.data, g.n, &o, 1, 0, sample, &other[0][0][0]));
        const float *p = image[9][9];
        const double brightness = (0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]) / 109.25;
        const double contrast = fabs(other[9][20][0] - other[9][12][0]) / (255 * 8.0 / SIDE) / brightness;
        const double factors[3] = { brightness, contrast, (p[0] - p[2]) / 100 / brightness / contrast };
        for (int i = 0; i < 3; i++) {
            least[i] = fmin(least[i], factors[i]);
            most[i] = fmax(most[i], factors[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        near((float)least[i], 0.7, 0.06, "the least factor");
        near((float)most[i], 1.3, 0.06, "the largest factor");
    }
    free(j.data);
    free(g.data);
}

/* (x / 255 - mean) / deviation */
static void colours_are_normalised(void **state)
{
    struct image_options o = image_defaults;
    struct jpeg j = compress(64, 64, brown, plain);

    o.pixels = SIDE;
    o.transform = TRANSFORM_EVAL;
    assert_null(image_decode(j.data, j.n, &o, 0, 0, 0, &image[0][0][0]));
    near(image[3][4][0], (150 / 255.0 - 0.485) / 0.229, 0.03, "red");
    near(image[3][4][1], (100 / 255.0 - 0.456) / 0.224, 0.03, "green");
    near(image[3][4][2], (50 / 255.0 - 0.406) / 0.225, 0.03, "blue");
    free(j.data);
}

/* ---- Broken files ---- */

static void is_broken(const void *data, size_t n, const char *says)
{
    const struct image_options o = plain_options(TRANSFORM_EVAL);
    unsigned char *exact = malloc(n > 0 ? n : 1); /* so that reading past its end is seen */

    memcpy(exact, data, n);
    const char *why = image_decode(exact, n, &o, 0, 0, 0, &image[0][0][0]);
    free(exact);
    if (why == NULL || strstr(why, says) == NULL)
        fail_msg("%zu bytes: %s; expected: %s", n, why == NULL ? "taken" : why, says);
}

static void what_is_no_jpeg_is_said_to_be_none(void **state)
{
    is_broken("", 0, "empty");
    is_broken("\xff", 1, "");
    is_broken("hello, I am a text", 18, "Not a JPEG file");
    is_broken("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "");
    is_broken("\xff\xd8\xff\xd9", 4, "");
}

/* Wherever it ends. */
static void a_truncated_file_is_broken(void **state)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg j = compress(90, 70, ramp, (struct form){ JCS_YCbCr, 2, progressive });
        for (unsigned long n = 1; n < j.n; n += 1 + n / 50)
            is_broken(j.data, n, "");
        is_broken(j.data, j.n - 2, "truncated");
        is_broken(j.data, j.n - 1, "truncated");
        free(j.data);
    }
}

/* The marker's last byte is `marker`; from `from`. */
static size_t find_marker(const struct jpeg *j, unsigned char marker, size_t from)
{
    for (size_t i = from; i + 1 < j->n; i++)
        if (j->data[i] == 0xff && j->data[i + 1] == marker)
            return i;
    fail_msg("no marker %02x", marker);
    return 0;
}

/* Bits that are no code, in the middle of the image, are not shown as grey. */
static void damage_inside_of_the_crop_is_broken(void **state)
{
    struct jpeg j = compress(90, 70, ramp, plain);
    const size_t scan = find_marker(&j, 0xda, 0) + 14;

    for (int i = 0; i < 8; i++)
        memcpy(j.data + scan + (j.n - scan) / 3 + 2 * i, "\xff", 2); /* ones */
    is_broken(j.data, j.n, "Corrupt JPEG data");
    memcpy(j.data + scan + (j.n - scan) / 2, "\xff\xd9", 2);
    is_broken(j.data, j.n, "Corrupt JPEG data");
    free(j.data);
}

/* A small file may say that it has 4 billion pixels; only its header is read. */
static void a_file_with_more_pixels_than_the_limit_is_broken(void **state)
{
    struct jpeg j = compress(90, 70, ramp, plain);
    const size_t frame = find_marker(&j, 0xc0, 0);

    memcpy(j.data + frame + 5, "\xff\xdc\xff\xdc", 4);
    is_broken(j.data, j.n, "65500 x 65500 pixels, above the limit of 67108864");
    free(j.data);
}

/* A progressive file with its first pass many times over. */
static void a_file_with_too_many_passes_is_broken(void **state)
{
    enum { TIMES = 150 };
    struct jpeg j = compress(64, 64, ramp, (struct form){ JCS_YCbCr, 1, true });
    const size_t start = find_marker(&j, 0xda, 0), end = find_marker(&j, 0xc4, start), n = end - start;
    unsigned char *all = malloc(j.n + TIMES * n), *at = all + start;

    memcpy(all, j.data, start);
    for (int i = 0; i < TIMES; i++, at += n)
        memcpy(at, j.data + start, n);
    memcpy(at, j.data + start, j.n - start);
    is_broken(all, j.n + TIMES * n, "more than 100 progressive passes");
    free(all);
    free(j.data);
}

/* ---- PNG ---- */

static void a_png_has_the_crop_and_the_colours_of_a_jpeg(void **state)
{
    for (int training = 0; training < 2; training++)
        for (unsigned channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            const struct image_options o = plain_options(training ? TRANSFORM_TRAIN : TRANSFORM_EVAL);
            struct jpeg p = compress_png(300, 200, channels), j = compress(300, 200, ramp, plain);
            assert_null(image_decode(p.data, p.n, &o, 1, 2, 3, &image[0][0][0]));
            assert_null(image_decode(j.data, j.n, &o, 1, 2, 3, &other[0][0][0]));
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++)
                    for (int c = 0; c < 3; c++)
                        near(image[y][x][c], other[y][x][channels == 1 ? 0 : c], 6, "a colour");
            free(p.data);
            free(j.data);
        }
}

/* Values in bytes are those of floats from 0 to 255, rounded to nearest: of both transforms and files, with jitter or not. */
static void bytes_are_the_floats_rounded(void **state)
{
    unsigned char bytes[SIDE * SIDE * 3 + 1];

    for (unsigned k = 0; k < 8 * 20; k++) {
        struct image_options o = plain_options(k & 1 ? TRANSFORM_TRAIN : TRANSFORM_EVAL);
        struct jpeg j = k & 2 ? compress_png(300, 200, 3) : compress(300, 200, k & 8 ? fine : ramp, plain);
        const uint64_t sample = k / 8;
        o.jitter = k & 4 ? 0.9 : 0; /* far enough to be cut at both ends */
        assert_null(image_decode(j.data, j.n, &o, 1, 2, sample, image));
        o.bytes = true;
        for (int c = 0; c < 3; c++) /* not used */
            o.mean[c] = o.deviation[c] = 0;
        assert_int_equal(image_size(&o), sizeof bytes - 1);
        bytes[sizeof bytes - 1] = 77;
        assert_null(image_decode(j.data, j.n, &o, 1, 2, sample, bytes));
        for (size_t i = 0; i < sizeof bytes - 1; i++)
            near((float)bytes[i], (double)(&image[0][0][0])[i], 0.5 + 1e-4, "a byte");
        assert_int_equal(bytes[sizeof bytes - 1], 77);
        free(j.data);
    }
}

static void a_png_that_is_truncated_damaged_or_too_large_is_broken(void **state)
{
    struct jpeg p = compress_png(90, 70, 3);

    for (unsigned long n = 8; n < p.n - 12; n += 7) /* all but the end mark */
        is_broken(p.data, n, "");
    p.data[p.n / 2] ^= 0x40;
    is_broken(p.data, p.n, "");
    free(p.data);
    p = compress_png(8200, 8200, 1);
    is_broken(p.data, p.n, "8200 x 8200 pixels, above the limit of 67108864");
    free(p.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crop_for_evaluation_is_the_middle_of_any_size),
        cmocka_unit_test(crops_for_training_are_of_all_areas_aspects_and_directions),
        cmocka_unit_test(what_is_finer_than_the_result_is_averaged),
        cmocka_unit_test(greyscale_cmyk_ycck_rgb_and_progressive_files_are_read),
        cmocka_unit_test(what_is_random_follows_from_seed_epoch_and_sample),
        cmocka_unit_test(jitter_changes_brightness_contrast_and_saturation_as_far_as_asked),
        cmocka_unit_test(colours_are_normalised),
        cmocka_unit_test(what_is_no_jpeg_is_said_to_be_none),
        cmocka_unit_test(a_truncated_file_is_broken),
        cmocka_unit_test(damage_inside_of_the_crop_is_broken),
        cmocka_unit_test(a_file_with_more_pixels_than_the_limit_is_broken),
        cmocka_unit_test(a_file_with_too_many_passes_is_broken),
        cmocka_unit_test(a_png_has_the_crop_and_the_colours_of_a_jpeg),
        cmocka_unit_test(bytes_are_the_floats_rounded),
        cmocka_unit_test(a_png_that_is_truncated_damaged_or_too_large_is_broken),
    };
    return cmocka_run_group_tests_name("train_image", tests, NULL, NULL);
}
