/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a JPEG or PNG to a crop, normalised or in bytes. Parts of a JPEG beside the crop are not decoded. If the crop is
 * larger than the result, blocks are transformed at a half, a quarter or an eighth of their size, so that the crop
 * keeps at least the result's pixels. Columns and rows beside the crop are decompressed but not transformed, and rows
 * below it are not read.
 */
#include "data.h"
#include "ending.h"
#include "png_file.h"
#include "random.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

const struct image_options image_defaults = {
    .pixels = 224,
    .transform = TRANSFORM_TRAIN,
    .least_area = 0.08,
    .most_area = 1,
    .mean = { 0.485, 0.456, 0.406 },
    .deviation = { 0.229, 0.224, 0.225 },
    .most_pixels = 1 << 26,
};

/* ---- What is random ---- */

/* The centre, with the allowed aspect ratio that is nearest to the image's. */
static struct box central_box(double width, double height, double least_aspect, double most_aspect)
{
    const double aspect = fmin(fmax(width / height, least_aspect), most_aspect);
    const double w = fmin(width, height * aspect), h = fmin(height, width / aspect);

    return (struct box){ (width - w) / 2, (height - h) / 2, w, h };
}

/* Random area and aspect ratio (Szegedy et al. 2015), in whole pixels; after ten that do not fit, the centre. */
static struct box random_box(const struct image_options *o, double width, double height, uint64_t *r)
{
    const double most_aspect = 4.0 / 3;

    for (int i = 0; i < 10; i++) {
        const double area = width * height * random_between(r, o->least_area, o->most_area);
        const double aspect = exp(random_between(r, -log(most_aspect), log(most_aspect)));
        const double w = rint(sqrt(area * aspect)), h = rint(sqrt(area / aspect));
        const double x = random_between(r, 0, 1), y = random_between(r, 0, 1);
        if (w >= 1 && h >= 1 && w <= width && h <= height)
            return (struct box){ floor(x * (width - w + 1)), floor(y * (height - h + 1)), w, h };
    }
    return central_box(width, height, 1 / most_aspect, most_aspect);
}

static struct augmentation draw_augmentation(const struct image_options *o, double width, double height, uint64_t key)
{
    struct augmentation a = { .brightness = 1, .contrast = 1, .saturation = 1 };
    uint64_t r = key;

    if (o->transform == TRANSFORM_EVAL) {
        const double side = fmin(width, height) * 7 / 8;
        a.box = (struct box){ (width - side) / 2, (height - side) / 2, side, side };
        return a;
    }
    a.box = random_box(o, width, height, &r);
    a.flip = random_below(&r, 2) == 1;
    a.brightness = (float)random_between(&r, 1 - o->jitter, 1 + o->jitter);
    a.contrast = (float)random_between(&r, 1 - o->jitter, 1 + o->jitter);
    a.saturation = (float)random_between(&r, 1 - o->jitter, 1 + o->jitter);
    return a;
}

/* ---- The part of the image that is decoded ---- */

struct part { /* of the scaled image: columns left to right - 1, rows top to bottom - 1 */
    uint32_t left, right;
    uint32_t top, bottom;
    unsigned char *pixels; /* [bottom - top][right - left][4], the fourth unused */
};

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    struct part part;
};

static _Thread_local char why[JMSG_LENGTH_MAX]; /* text of the latest error */

static struct decoder *decoder_of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

_Noreturn static void on_error(j_common_ptr jpeg)
{
    jpeg->err->format_message(jpeg, why);
    longjmp(decoder_of(jpeg)->failed, 1);
}

/* libjpeg continues after damage; here an image is either complete or broken. */
static void on_message(j_common_ptr jpeg, int level)
{
    static const int damage[] = { JWRN_JPEG_EOF,       JWRN_HIT_MARKER,  JWRN_HUFF_BAD_CODE,
                                  JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC, JWRN_NOT_SEQUENTIAL };

    for (size_t i = 0; level < 0 && i < sizeof damage / sizeof *damage; i++)
        if (jpeg->err->msg_code == damage[i])
            on_error(jpeg);
}

static void prepare(struct decoder *d)
{
    d->jpeg.client_data = d;
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
}

_Noreturn static void refuse(struct decoder *d, const char *text)
{
    snprintf(why, sizeof why, "%s", text);
    longjmp(d->failed, 1);
}

/* A progressive file may have any number of scans over all its pixels. */
static void on_progress(j_common_ptr jpeg)
{
    enum { MOST_PASSES = 100 };

    if (decoder_of(jpeg)->jpeg.input_scan_number > MOST_PASSES)
        refuse(decoder_of(jpeg), "more than 100 progressive passes");
}

/* Is there an end-of-image marker after the headers? A truncated file may be complete as far as the crop goes. */
static bool has_end(const struct jpeg_source_mgr *source)
{
    const unsigned char *data = source->next_input_byte;

    for (size_t i = source->bytes_in_buffer; i >= 2; i--)
        if (data[i - 2] == 0xff && data[i - 1] == JPEG_EOI)
            return true;
    return false;
}

static void read_header(struct decoder *d, const struct image_options *o, const void *jpeg, size_t bytes)
{
    jpeg_mem_src(&d->jpeg, jpeg, bytes);
    jpeg_read_header(&d->jpeg, TRUE);
    const uint64_t pixels = (uint64_t)d->jpeg.image_width * d->jpeg.image_height;
    if (pixels > o->most_pixels) {
        snprintf(why, sizeof why, "%u x %u pixels, above the limit of %llu", d->jpeg.image_width, d->jpeg.image_height,
                 (unsigned long long)o->most_pixels);
        longjmp(d->failed, 1);
    }
    if (!has_end(d->jpeg.src))
        refuse(d, "truncated: it has no end-of-image marker");
}

/* By how much blocks may shrink while the box still has the result's pixels. */
static unsigned shrink(const struct box *box, uint32_t pixels)
{
    unsigned by = 8;

    while (by > 1 && fmin(box->width, box->height) < (double)by * pixels)
        by /= 2;
    return by;
}

/* The range that the filter reads along a side: `reach` pixels around the box, within the image. */
static void around(double start, double length, uint32_t pixels, uint32_t n, uint32_t *from, uint32_t *to)
{
    const double reach = fmax(1, length / pixels);

    *from = (uint32_t)fmax(0, floor(start - reach));
    *to = (uint32_t)fmin(n, ceil(start + length + reach));
    if (*from >= *to)
        *from = *to - 1;
}

/* Convert CMYK, which Adobe's programs write inverted, to RGB. */
static void cmyk_to_rgb(unsigned char *row, uint32_t n, bool inverted)
{
    for (unsigned char *p = row; p < row + 4 * (size_t)n; p += 4)
        for (int i = 0; i < 3; i++) {
            const unsigned light = inverted ? p[i] : 255u - p[i], key = inverted ? p[3] : 255u - p[3];
            p[i] = (unsigned char)((light * key + 127) / 255);
        }
}

/* Decode the box, whose coordinates become those of the scaled image. */
static void decode_part(struct decoder *d, struct box *box, uint32_t pixels)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    struct part *p = &d->part;
    const unsigned by = shrink(box, pixels);
    const bool cmyk = j->num_components == 4;

    *box = (struct box){ box->x / by, box->y / by, box->width / by, box->height / by };
    j->scale_num = 1;
    j->scale_denom = by;
    j->out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
    j->do_block_smoothing = FALSE;
    jpeg_start_decompress(j);

    around(box->y, box->height, pixels, j->output_height, &p->top, &p->bottom);
    around(box->x, box->width, pixels, j->output_width, &p->left, &p->right);
    JDIMENSION left = p->left, width = p->right - p->left;
    jpeg_crop_scanline(j, &left, &width); /* starts at a block boundary, so further left */
    p->left = left;
    p->right = left + width;
    p->pixels = malloc(4 * (size_t)width * (p->bottom - p->top));
    if (p->pixels == NULL)
        refuse(d, "no memory for its pixels");
    if (p->top > 0)
        jpeg_skip_scanlines(j, p->top);
    while (j->output_scanline < p->bottom) {
        JSAMPROW row = p->pixels + 4 * (size_t)width * (j->output_scanline - p->top);
        jpeg_read_scanlines(j, &row, 1);
        if (cmyk)
            cmyk_to_rgb(row, width, j->saw_Adobe_marker);
    }
}

/* ---- Resizing: a triangle as wide as what a pixel of the result covers, at least two pixels ---- */

struct taps {               /* filter weights of each pixel along one side of the result */
    uint32_t *from, *count; /* [n] */
    float *weights;         /* [n][room], each row sums to 1 */
    uint32_t room;
};

static void taps_finish(struct taps *t)
{
    free(t->from);
    free(t->count);
    free(t->weights);
}

/* Pixels first to last - 1 exist; `from` counts from first. */
static struct taps taps_of(double start, double length, uint32_t n, uint32_t first, uint32_t last)
{
    const double step = length / n, reach = fmax(1, step);
    struct taps t = { .room = (uint32_t)(2 * reach) + 3 };

    t.from = allocate(n, sizeof *t.from);
    t.count = allocate(n, sizeof *t.count);
    t.weights = allocate((size_t)n * t.room, sizeof *t.weights);
    for (uint32_t i = 0; i < n; i++) {
        const double middle = start + (i + 0.5) * step;
        const uint32_t from = (uint32_t)fmin(fmax(first, floor(middle - reach)), last - 1);
        const uint32_t to = (uint32_t)fmax(from + 1, fmin(last, ceil(middle + reach)));
        float *w = t.weights + (size_t)i * t.room;
        double sum = 0;
        for (uint32_t k = from; k < to; k++)
            sum += fmax(0, 1 - fabs((k + 0.5 - middle) / reach));
        for (uint32_t k = from; k < to; k++)
            w[k - from] = sum > 0 ? (float)(fmax(0, 1 - fabs((k + 0.5 - middle) / reach)) / sum) : k == from;
        t.from[i] = from - first;
        t.count[i] = to - from;
    }
    return t;
}

typedef float pixel __attribute__((vector_size(16)));

/* One row at the result's height, over the part's columns. line: [width] pixels of 4 */
static void add_rows(const struct part *p, const struct taps *t, uint32_t i, float *line)
{
    const size_t n = 4 * (size_t)(p->right - p->left);
    const unsigned char *row = p->pixels + n * t->from[i];
    const float *w = t->weights + (size_t)i * t->room;

    for (size_t k = 0; k < n; k++)
        line[k] = w[0] * row[k];
    for (uint32_t tap = 1; tap < t->count[i]; tap++) {
        row += n;
        for (size_t k = 0; k < n; k++)
            line[k] += w[tap] * row[k];
    }
}

struct scale { /* result = factor x sum - offset */
    pixel factor, offset;
};

/* One row of the result. out: [n][3] */
static void add_columns(const pixel *line, const struct taps *t, uint32_t n, bool flip, const struct scale *scale,
                        float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const pixel *from = line + t->from[i];
        const float *w = t->weights + (size_t)i * t->room;
        float *to = out + 3 * (size_t)(flip ? n - 1 - i : i);
        pixel sum = w[0] * from[0];
        for (uint32_t tap = 1; tap < t->count[i]; tap++)
            sum += w[tap] * from[tap];
        sum = sum * scale->factor - scale->offset;
        to[0] = sum[0];
        to[1] = sum[1];
        to[2] = sum[2];
    }
}

/* out: [pixels][pixels][3] */
static void resize(const struct part *p, const struct box *box, uint32_t pixels, bool flip, const struct scale *scale,
                   float *out)
{
    struct taps rows = taps_of(box->y, box->height, pixels, p->top, p->bottom);
    struct taps columns = taps_of(box->x, box->width, pixels, p->left, p->right);
    pixel *line = aligned_alloc(sizeof *line, (p->right - p->left) * sizeof *line);

    if (line == NULL)
        give_up(ENDING_ERROR, "no memory for a row of an image");
    for (uint32_t y = 0; y < pixels; y++) {
        add_rows(p, &rows, y, (float *)line);
        add_columns(line, &columns, pixels, flip, scale, out + 3 * (size_t)pixels * y);
    }
    free(line);
    taps_finish(&rows);
    taps_finish(&columns);
}

/* ---- Colours ---- */

static float grey(const float *rgb)
{
    return 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2];
}

static float mean_grey(const float *image, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += grey(image + 3 * i);
    return (float)(sum / (double)n);
}

/* From 0 to 255 to the normalised range. */
static struct scale normalisation(const struct image_options *o)
{
    struct scale s = { { 0 }, { 0 } };

    for (int c = 0; c < 3; c++) {
        s.factor[c] = (float)(1 / (255 * o->deviation[c]));
        s.offset[c] = (float)(o->mean[c] / o->deviation[c]);
    }
    return s;
}

/* Brightness scales all values, contrast acts around the mean grey, saturation around each pixel's grey. */
static void jitter(float *image, size_t n, const struct augmentation *a, const struct scale *scale)
{
    const float both = a->brightness * a->contrast;
    const float own = a->saturation * both, of_grey = (1 - a->saturation) * both;
    const float shift = (1 - a->contrast) * a->brightness * mean_grey(image, n);

    for (float *p = image; p < image + 3 * n; p += 3) {
        const float add = of_grey * grey(p) + shift;
        for (int c = 0; c < 3; c++) {
            const float x = own * p[c] + add, positive = x > 0 ? x : 0;
            p[c] = (positive < 255 ? positive : 255) * scale->factor[c] - scale->offset[c];
        }
    }
}

/* The part of the image, its scaled box and what else is to be done to it; false: why tells. */
static bool decode(struct decoder *d, const void *jpeg, size_t bytes, const struct image_options *o, uint64_t key,
                   struct augmentation *out)
{
    if (setjmp(d->failed) != 0)
        return false;
    jpeg_create_decompress(&d->jpeg);
    d->progress.progress_monitor = on_progress;
    d->jpeg.progress = &d->progress;
    read_header(d, o, jpeg, bytes);
    *out = draw_augmentation(o, d->jpeg.image_width, d->jpeg.image_height, key);
    decode_part(d, &out->box, o->pixels);
    return true;
}

static const char *decode_jpeg(const void *jpeg, size_t bytes, const struct image_options *o, uint64_t key,
                               struct part *part, struct augmentation *out)
{
    struct decoder d = { 0 };

    prepare(&d);
    const bool ok = decode(&d, jpeg, bytes, o, key, out);
    jpeg_destroy_decompress(&d.jpeg);
    *part = d.part;
    return ok ? NULL : why;
}

static const char *decode_png(const void *png, size_t bytes, const struct image_options *o, uint64_t key,
                              struct part *part, struct augmentation *out)
{
    struct png_pixels all;
    const char *error = png_decode(png, bytes, o->most_pixels, &all);

    if (error != NULL)
        return error;
    *out = draw_augmentation(o, all.width, all.height, key);
    *part = (struct part){ .right = all.width, .bottom = all.height, .pixels = all.pixels };
    return NULL;
}

/* ---- The whole ---- */

static size_t values_of(const struct image_options *o)
{
    return 3 * (size_t)o->pixels * o->pixels;
}

size_t image_size(const struct image_options *o)
{
    return values_of(o) * (o->bytes ? 1 : sizeof(float));
}

/* out: [pixels][pixels][3] normalised or, with bytes, 0 to 255 */
static void transform(const struct part *part, const struct augmentation *a, const struct image_options *o, float *out)
{
    const bool jitters = o->transform == TRANSFORM_TRAIN && o->jitter > 0;
    const struct scale none = { { 1, 1, 1 }, { 0 } }, last = o->bytes ? none : normalisation(o);

    resize(part, &a->box, o->pixels, a->flip, jitters ? &none : &last, out);
    if (jitters)
        jitter(out, (size_t)o->pixels * o->pixels, a, &last);
}

/* From 0 to 255, which sums of weights may exceed by a rounding. */
static void round_all(const float *from, size_t n, unsigned char *to)
{
    for (size_t i = 0; i < n; i++) {
        const int value = (int)(from[i] + 0.5F);
        to[i] = (unsigned char)(value < 255 ? value : 255);
    }
}

static void transform_to_bytes(const struct part *part, const struct augmentation *a, const struct image_options *o,
                               unsigned char *out)
{
    float *values = malloc(values_of(o) * sizeof *values);

    if (values == NULL)
        give_up(ENDING_ERROR, "no memory for the pixels of an image");
    transform(part, a, o, values);
    round_all(values, values_of(o), out);
    free(values);
}

const char *image_decode(const void *file, size_t bytes, const struct image_options *o, uint64_t seed, uint32_t epoch,
                         uint64_t sample, void *out)
{
    const uint64_t key = random_stream(seed, epoch, sample);
    struct part part = { 0 };
    struct augmentation a;

    if (bytes == 0)
        return "the file is empty";
    const char *error = (png_is(file, bytes) ? decode_png : decode_jpeg)(file, bytes, o, key, &part, &a);
    if (error == NULL && o->bytes)
        transform_to_bytes(&part, &a, o, out);
    else if (error == NULL)
        transform(&part, &a, o, out);
    free(part.pixels);
    return error;
}

/* ---- On a device ---- */

/* The size and the crop of a JPEG, for a device. Returns NULL, or why the device cannot decode it. */
static const char *look(struct decoder *d, const void *jpeg, size_t bytes, const struct image_options *o, uint64_t key,
                        struct augmentation *out)
{
    if (setjmp(d->failed) != 0)
        return why;
    jpeg_create_decompress(&d->jpeg);
    read_header(d, o, jpeg, bytes);
    if (d->jpeg.jpeg_color_space != JCS_YCbCr && d->jpeg.jpeg_color_space != JCS_GRAYSCALE)
        return "its colours are neither YCbCr nor grey";
    *out = draw_augmentation(o, d->jpeg.image_width, d->jpeg.image_height, key);
    return NULL;
}

static const char *decode_on(struct image_decoder *decoder, const void *jpeg, size_t bytes,
                             const struct image_options *o, uint64_t key, void *out)
{
    struct decoder d = { 0 };
    struct augmentation a;

    prepare(&d);
    const char *refused = look(&d, jpeg, bytes, o, key, &a);
    const uint32_t width = d.jpeg.image_width, height = d.jpeg.image_height;
    jpeg_destroy_decompress(&d.jpeg);
    return refused != NULL ? refused : decoder->decode(decoder, jpeg, bytes, width, height, &a, out);
}

const char *image_decode_on(struct image_decoder *decoder, const void *file, size_t bytes,
                            const struct image_options *o, uint64_t seed, uint32_t epoch, uint64_t sample, void *out,
                            const char **refused)
{
    *refused = bytes == 0            ? "it is empty"
               : png_is(file, bytes) ? "it is a PNG"
                                     : decode_on(decoder, file, bytes, o, random_stream(seed, epoch, sample), out);
    if (*refused == NULL)
        return NULL;
    void *image = malloc(image_size(o));
    if (image == NULL)
        give_up(ENDING_ERROR, "no memory for the pixels of an image");
    const char *error = image_decode(file, bytes, o, seed, epoch, sample, image);
    if (error == NULL)
        decoder->put(decoder, image, image_size(o), out);
    free(image);
    return error;
}
