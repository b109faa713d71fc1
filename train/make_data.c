/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a small dataset of real JPEGs. A class is a shape with a pattern on it: "dotted-star". Colours, place, size,
 * direction, proportions, light, background (with its own pattern), lines and blots behind and in front of it, noise,
 * and the JPEG's size and quality are random, so that only shape and pattern together identify the class. Each image is
 * a function of (seed, half, number).
 */
#include "data.h"
#include "ending.h"
#include "random.h"
#include "shapes.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

/*
 * Use few patterns while there are enough shapes, so that each pattern occurs on several shapes and each shape with
 * several patterns.
 */
static uint32_t patterns_of(uint32_t nclass)
{
    uint32_t n = 2;

    while (n < NPATTERN && n * NSHAPE < nclass)
        n++;
    return n;
}

static const struct shape *shape_of(uint32_t label, uint32_t nclass)
{
    return &shapes[label / patterns_of(nclass)];
}

static const struct pattern *pattern_of(uint32_t label, uint32_t nclass)
{
    return &patterns[label % patterns_of(nclass)];
}

/* ---- A picture ---- */

struct colour {
    float of[3];
};

struct picture {
    uint32_t width, height;
    float *rgb; /* [height][width][3], 0 to 255 */
};

struct placed { /* what is drawn, where, and with what on it */
    float (*outside)(float u, float v);
    int (*lit)(float u, float v);
    float x, y, size;   /* middle and radius, in pixels */
    float cosine, sine; /* of the direction */
    float squeeze;      /* of v */
    float cells;        /* of the pattern along the radius */
    float pattern_cosine, pattern_sine, shift;
    struct colour colours[2];
};

static struct colour draw_colour(uint64_t *r)
{
    struct colour c;

    for (int i = 0; i < 3; i++)
        c.of[i] = (float)random_between(r, 10, 245);
    return c;
}

/* Another colour, whose lightness differs by at least `least`. */
static struct colour draw_contrast(uint64_t *r, struct colour to, float least)
{
    struct colour c;
    float light;

    do {
        c = draw_colour(r);
        light = 0.3F * (c.of[0] - to.of[0]) + 0.6F * (c.of[1] - to.of[1]) + 0.1F * (c.of[2] - to.of[2]);
    } while (fabsf(light) < least);
    return c;
}

static float smaller_side(const struct picture *p)
{
    return (float)(p->width < p->height ? p->width : p->height);
}

/* A random angle of at most this many radians from upright. */
static void draw_direction(uint64_t *r, double most, float *cosine, float *sine)
{
    const float angle = (float)random_between(r, -most, most);

    *cosine = cosf(angle);
    *sine = sinf(angle);
}

static void place(const struct picture *p, uint64_t *r, float least, float most, struct placed *out)
{
    out->size = (float)random_between(r, least, most) * smaller_side(p);
    out->x = (float)random_between(r, 0.4, 0.6) * (float)p->width;
    out->y = (float)random_between(r, 0.4, 0.6) * (float)p->height;
    out->squeeze = (float)random_between(r, 0.8, 1.25);
    out->cells = (float)random_between(r, 1.4, 2.4);
    out->shift = (float)random_between(r, 0, 1);
    draw_direction(r, 0.8, &out->cosine, &out->sine);
    draw_direction(r, 3.1415927, &out->pattern_cosine, &out->pattern_sine);
}

/* The colour of the figure at (u, v); JPEG softens the edges of the pattern. */
static const float *colour_at(const struct placed *t, float u, float v)
{
    const float a = t->cells * (t->pattern_cosine * u - t->pattern_sine * v) + t->shift;
    const float b = t->cells * (t->pattern_sine * u + t->pattern_cosine * v) + t->shift;

    return t->colours[t->lit(a, b)].of;
}

static void paint(const struct picture *p, const struct placed *t)
{
    const float reach = 1.5F * t->size * larger(1, t->squeeze);
    const uint32_t top = (uint32_t)larger(0, t->y - reach), left = (uint32_t)larger(0, t->x - reach);

    for (uint32_t y = top; y < p->height && (float)y < t->y + reach; y++)
        for (uint32_t x = left; x < p->width && (float)x < t->x + reach; x++) {
            const float dx = ((float)x + 0.5F - t->x) / t->size, dy = ((float)y + 0.5F - t->y) / t->size;
            const float u = t->cosine * dx - t->sine * dy, v = (t->sine * dx + t->cosine * dy) / t->squeeze;
            const float part = smaller(1, 0.5F - t->outside(u, v) * t->size); /* of the pixel that it covers */
            if (part <= 0)
                continue;
            const float *colour = colour_at(t, u, v);
            float *pixel = p->rgb + 3 * ((size_t)y * p->width + x);
            for (int i = 0; i < 3; i++)
                pixel[i] += part * (colour[i] - pixel[i]);
        }
}

static float everywhere(float u, float v)
{
    (void)u, (void)v;
    return -1;
}

/* Returns its approximate colour. */
static struct colour paint_background(const struct picture *p, uint64_t *r)
{
    struct placed t = { .outside = everywhere, .lit = patterns[random_below(r, NPATTERN)].lit };

    place(p, r, 0.4F, 0.8F, &t);
    t.x = (float)p->width / 2;
    t.y = (float)p->height / 2;
    t.size = 2 * (t.x + t.y);
    t.cells *= (float)random_between(r, 2, 6);
    t.colours[0] = draw_colour(r);
    t.colours[1] = t.colours[0];
    for (int i = 0; i < 3; i++) /* weak */
        t.colours[1].of[i] += (float)random_between(r, -30, 30);
    paint(p, &t);
    return t.colours[0];
}

static float line(float u, float v)
{
    return shape_box(u, v, 1, 0.06F);
}

static float blot(float u, float v)
{
    const float r = distance(u, v);

    return r < 0.65F ? r - 0.5F - 0.12F * sinf(3 * atan2f(u, v)) : r - 0.62F;
}

static void paint_clutter(const struct picture *p, uint64_t *r, uint32_t n, float least, float most)
{
    while (n-- > 0) {
        const bool is_line = random_below(r, 2) == 0;
        struct placed t = { .outside = is_line ? line : blot, .lit = pattern_striped };
        place(p, r, least, most, &t);
        t.x = (float)random_between(r, 0, p->width);
        t.y = (float)random_between(r, 0, p->height);
        t.size *= is_line ? 2 : 1;
        t.colours[0] = t.colours[1] = draw_colour(r);
        paint(p, &t);
    }
}

/* Light from one side, and noise. */
static void light(const struct picture *p, uint64_t *r)
{
    const float noise = (float)random_between(r, 2, 10), slope = (float)random_between(r, 0, 0.5);
    float along_x, along_y;

    draw_direction(r, 3.1415927, &along_x, &along_y);
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++) {
            const float side =
                along_x * ((float)x / (float)p->width - 0.5F) + along_y * ((float)y / (float)p->height - 0.5F);
            uint64_t bits = random_next(r);
            float *pixel = p->rgb + 3 * ((size_t)y * p->width + x);
            for (int i = 0; i < 3; i++, bits >>= 16)
                pixel[i] = pixel[i] * (1 + slope * side) + noise * ((float)(bits & 0xffff) / 32768 - 1);
        }
}

static void draw(const struct picture *p, const struct shape *shape, const struct pattern *pattern, uint64_t *r)
{
    struct placed t = { .outside = shape->outside, .lit = pattern->lit };

    const struct colour background = paint_background(p, r);
    paint_clutter(p, r, random_below(r, 5), 0.06F, 0.18F);
    place(p, r, 0.32F, 0.46F, &t);
    t.colours[0] = draw_contrast(r, background, 50);
    t.colours[1] = draw_contrast(r, t.colours[0], 70);
    paint(p, &t);
    paint_clutter(p, r, random_below(r, 3), 0.04F, 0.1F);
    light(p, r);
}

/* ---- Files ---- */

static void choose_form(struct jpeg_compress_struct *c, uint64_t *r)
{
    const uint32_t kind = random_below(r, 16);

    jpeg_set_quality(c, (int)random_between(r, 55, 96), TRUE);
    if (kind == 0)
        jpeg_set_colorspace(c, JCS_GRAYSCALE);
    else if (kind == 1)
        jpeg_simple_progression(c);
    else if (kind < 5)
        c->comp_info[0].h_samp_factor = c->comp_info[0].v_samp_factor = 1; /* colours in full detail */
}

/* *jpeg: free it. libjpeg's errors end the program with a message; the only one is lack of memory. */
static void compress(const struct picture *p, uint64_t *r, unsigned char **jpeg, unsigned long *bytes)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    JSAMPLE *row = allocate(p->width, 3);

    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, jpeg, bytes);
    c.image_width = p->width;
    c.image_height = p->height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    choose_form(&c, r);
    jpeg_start_compress(&c, TRUE);
    for (const float *from = p->rgb; c.next_scanline < c.image_height; from += 3 * (size_t)p->width) {
        for (size_t i = 0; i < 3 * (size_t)p->width; i++)
            row[i] = (JSAMPLE)smaller(255, larger(0, from[i] + 0.5F));
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
}

/* Returns false after a message. */
static bool write_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL && fwrite(data, 1, bytes, f) == bytes;

    if (f != NULL && fclose(f) != 0)
        ok = false;
    if (!ok)
        complain("%s: %s", path, strerror(errno));
    return ok;
}

static bool make_image(const char *path, uint32_t label, uint32_t nclass, uint32_t pixels, uint64_t key)
{
    uint64_t r = key;
    struct picture p = { .width = (uint32_t)(pixels * random_between(&r, 1, 1.5)),
                         .height = (uint32_t)(pixels * random_between(&r, 1, 1.5)) };
    unsigned char *jpeg = NULL;
    unsigned long bytes = 0;

    p.rgb = allocate((size_t)p.width * p.height, 3 * sizeof *p.rgb);
    draw(&p, shape_of(label, nclass), pattern_of(label, nclass), &r);
    compress(&p, &r, &jpeg, &bytes);
    const bool ok = write_file(path, jpeg, bytes);
    free(jpeg);
    free(p.rgb);
    return ok;
}

/* Returns true when it exists afterwards. */
static bool make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    complain("%s: %s", path, strerror(errno));
    return false;
}

/* path: [4096], of the i-th image */
static void name_image(char *path, const char *folder, const char *half, uint32_t nclass, uint32_t i)
{
    const uint32_t k = i % nclass;

    snprintf(path, 4096, "%s/%s/%s-%s/%06u.jpg", folder, half, pattern_of(k, nclass)->name, shape_of(k, nclass)->name,
             i / nclass);
}

/* A data set of the same files is drawn over. */
static bool may_draw(const char *folder, const char *half, uint32_t nclass, uint32_t count)
{
    char path[4096];
    uint32_t same = 0;
    glob_t found;

    snprintf(path, sizeof path, "%s/%s/*/*", folder, half);
    if (glob(path, GLOB_NOSORT, NULL, &found) != 0)
        return true;
    const size_t n = found.gl_pathc;
    globfree(&found);
    for (uint32_t i = 0; n == count && i < count; i++) {
        name_image(path, folder, half, nclass, i);
        same += access(path, F_OK) == 0;
    }
    return same == count ||
           complain("%s/%s: it has %zu files of another data set; they would be mixed with %u images of %u classes: "
                    "remove the folder, or name another one",
                    folder, half, n, count, nclass);
}

static bool make_half(const char *folder, const char *half, uint32_t nclass, uint32_t count, uint32_t pixels,
                      uint64_t key)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, half);
    if (!make_folder(path))
        return false;
    for (uint32_t k = 0; k < nclass; k++) {
        snprintf(path, sizeof path, "%s/%s/%s-%s", folder, half, pattern_of(k, nclass)->name,
                 shape_of(k, nclass)->name);
        if (!make_folder(path))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        name_image(path, folder, half, nclass, i);
        if (!make_image(path, i % nclass, nclass, pixels, random_stream(key, i, 0)))
            return false;
    }
    return true;
}

int make_data(const char *folder, uint32_t nclass, uint32_t train, uint32_t val, uint32_t pixels, uint64_t seed)
{
    const char *wrong = NULL;

    if (nclass < 2 || nclass > NSHAPE * NPATTERN)
        wrong = "classes must be 2 to 48";
    else if (train < nclass || val < nclass)
        wrong = "train and val each need at least one image of every class";
    else if (pixels < 16 || pixels > 4096)
        wrong = "pixels of a side must be 16 to 4096";
    if (wrong != NULL) {
        complain("%u classes, %u and %u images of %u pixels: %s", nclass, train, val, pixels, wrong);
        return 1;
    }
    const bool ok = may_draw(folder, "train", nclass, train) && may_draw(folder, "val", nclass, val) &&
                    make_folder(folder) &&
                    make_half(folder, "train", nclass, train, pixels, random_stream(seed, 0, 0)) &&
                    make_half(folder, "val", nclass, val, pixels, random_stream(seed, 1, 0));
    if (ok)
        printf("%s: %u images for training and %u for the test, of %u classes\n", folder, train, val, nclass);
    return ok ? 0 : 1;
}
