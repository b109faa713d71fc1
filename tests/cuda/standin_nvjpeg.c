/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for nvJPEG over that for the driver (standin.h): libjpeg reads the JPEG on the calling thread into memory of
 * the state, and the stream copies it to the device's. It refuses what nvJPEG 13 was seen to refuse: four colours, 12
 * bits, arithmetic coding, files that are cut within their headers or, with BITSTREAM_STRICT, later. It ends the process
 * when a state or the file's bytes are used again before the stream has done with them.
 *
 * Environment:
 *   PLAIT_STANDIN_NVJPEG_VERSION      1000 times the major version and the minor one (13003)
 *   PLAIT_STANDIN_NVJPEG_CREATE       status of nvjpegCreateEx (0)
 *   PLAIT_STANDIN_NVJPEG_PROGRESSIVE  status of progressive files (0)
 *   PLAIT_STANDIN_NVJPEG_WIDER        pixels that nvjpegGetImageInfo adds to the width (0)
 */
#include "standin_numbers.h"

#include "cublas12.h"
#include "nvjpeg12.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>

#include <jpeglib.h>

#define PLAIT_X(name, symbol, result, arguments) EXPORT result standin_##name arguments __asm__(symbol);
NVJPEG12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X

EXPORT int64_t standin_nvjpeg_left(void); /* states and handles that were not destroyed */

struct handle {
    unsigned flags;
};

struct state {
    atomic_int busy; /* the stream has yet to copy its pixels */
    unsigned char *pixels;
    size_t bytes; /* of them, at most */
};

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
    int strict, damaged;
};

struct copy {
    struct state *state;
    unsigned char *to;
    size_t pitch, width, height;
    const unsigned char *file; /* whose bytes are still what they were: */
    size_t bytes;
    uint64_t hash;
};

static atomic_llong left;

int64_t standin_nvjpeg_left(void)
{
    return atomic_load(&left);
}

int standin_property(int which, int *out)
{
    const int version = (int)standin_setting("PLAIT_STANDIN_NVJPEG_VERSION", 13003);

    *out = which == BLAS_MAJOR_VERSION ? version / 1000 : which == BLAS_MINOR_VERSION ? version % 1000 : 2;
    return NVJPEG12_STATUS_SUCCESS;
}

int standin_create(int backend, const void *device_allocator, const void *pinned_allocator, unsigned flags, void **out)
{
    const int status = (int)standin_setting("PLAIT_STANDIN_NVJPEG_CREATE", 0);
    struct handle *h;

    if (!standin_has_context() || backend != NVJPEG12_BACKEND_DEFAULT || device_allocator != NULL ||
        pinned_allocator != NULL)
        return NVJPEG12_STATUS_NOT_INITIALIZED;
    if (status != 0)
        return status;
    h = calloc(1, sizeof *h);
    h->flags = flags;
    atomic_fetch_add(&left, 1);
    *out = h;
    return NVJPEG12_STATUS_SUCCESS;
}

int standin_destroy(void *handle)
{
    free(handle);
    atomic_fetch_sub(&left, 1);
    return NVJPEG12_STATUS_SUCCESS;
}

int standin_state_create(void *handle, void **out)
{
    if (handle == NULL)
        return NVJPEG12_STATUS_INVALID_PARAMETER;
    *out = calloc(1, sizeof(struct state));
    atomic_fetch_add(&left, 1);
    return NVJPEG12_STATUS_SUCCESS;
}

int standin_state_destroy(void *state)
{
    free(((struct state *)state)->pixels);
    free(state);
    atomic_fetch_sub(&left, 1);
    return NVJPEG12_STATUS_SUCCESS;
}

/* ---- On the calling thread ---- */

static void on_error(j_common_ptr jpeg)
{
    longjmp(((struct decoder *)jpeg->client_data)->failed, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    struct decoder *d = jpeg->client_data;

    d->damaged |= level < 0;
}

/* 0, or the status that refuses a file with this header. */
static int look(const struct jpeg_decompress_struct *j)
{
    if (j->num_components == 4)
        return NVJPEG12_STATUS_INVALID_PARAMETER;
    if (j->data_precision != 8 || j->arith_code)
        return NVJPEG12_STATUS_JPEG_NOT_SUPPORTED;
    return j->progressive_mode ? (int)standin_setting("PLAIT_STANDIN_NVJPEG_PROGRESSIVE", 0) : 0;
}

static int read_pixels(struct decoder *d, struct state *s)
{
    struct jpeg_decompress_struct *j = &d->jpeg;
    const int status = look(j);
    const size_t row = (size_t)j->image_width * 3, bytes = row * j->image_height;

    if (status != 0)
        return status;
    if (s->bytes < bytes) {
        free(s->pixels);
        s->pixels = malloc(bytes);
        s->bytes = bytes;
    }
    j->out_color_space = JCS_RGB;
    jpeg_start_decompress(j);
    while (j->output_scanline < j->output_height) {
        JSAMPROW at = s->pixels + row * j->output_scanline;
        jpeg_read_scanlines(j, &at, 1);
    }
    return d->damaged && d->strict ? NVJPEG12_STATUS_BAD_JPEG : 0;
}

/* With a state its pixels, else only the header. */
static int decode(struct decoder *d, struct state *s, const struct handle *h, const unsigned char *jpeg, size_t bytes)
{
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->jpeg.client_data = d;
    d->strict = (h->flags & NVJPEG12_FLAGS_BITSTREAM_STRICT) != 0;
    if (setjmp(d->failed) != 0)
        return NVJPEG12_STATUS_BAD_JPEG;
    jpeg_create_decompress(&d->jpeg);
    jpeg_mem_src(&d->jpeg, jpeg, bytes);
    jpeg_read_header(&d->jpeg, TRUE);
    d->jpeg.do_fancy_upsampling = (h->flags & NVJPEG12_FLAGS_UPSAMPLING_WITH_INTERPOLATION) != 0;
    return s != NULL ? read_pixels(d, s) : 0;
}

int standin_info(void *handle, const unsigned char *jpeg, size_t bytes, int *components, int *sampling, int widths[4],
                 int heights[4])
{
    struct decoder d = { .damaged = 0 };
    const int status = decode(&d, NULL, handle, jpeg, bytes);

    *components = d.jpeg.num_components;
    *sampling = -1; /* nobody asks */
    widths[0] = (int)d.jpeg.image_width + (int)standin_setting("PLAIT_STANDIN_NVJPEG_WIDER", 0);
    heights[0] = (int)d.jpeg.image_height;
    jpeg_destroy_decompress(&d.jpeg);
    return status;
}

/* ---- In the order of the stream ---- */

static uint64_t hash_of(const unsigned char *bytes, size_t n)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t k = 0; k < n; k++)
        hash = (hash ^ bytes[k]) * 1099511628211u;
    return hash;
}

static void copy(void *context)
{
    const struct copy *c = context;

    if (hash_of(c->file, c->bytes) != c->hash) {
        fprintf(stderr, "stand-in for nvJPEG: a file's bytes have changed before it was decoded\n");
        abort();
    }
    for (size_t y = 0; y < c->height; y++)
        memcpy(c->to + y * c->pitch, c->state->pixels + y * c->width * 3, c->width * 3);
    atomic_store(&c->state->busy, 0);
}

int standin_decode(void *handle, void *state, const unsigned char *jpeg, size_t bytes, int format,
                   struct nvjpeg12_image *to, void *stream)
{
    struct decoder d = { .damaged = 0 };
    struct state *s = state;
    standin_operate_function *operate;

    if (handle == NULL || s == NULL || !standin_has_context() || format != NVJPEG12_OUTPUT_RGBI)
        return NVJPEG12_STATUS_INVALID_PARAMETER;
    if (atomic_exchange(&s->busy, 1) != 0) {
        fprintf(stderr, "stand-in for nvJPEG: a state is used again before its stream has decoded\n");
        abort();
    }
    const int status = decode(&d, s, handle, jpeg, bytes);
    const struct copy c = { s,    to->channel[0], to->pitch[0],        d.jpeg.image_width, d.jpeg.image_height,
                            jpeg, bytes,          hash_of(jpeg, bytes) };
    const struct standin_access access = { c.to, (c.height - 1) * c.pitch + c.width * 3, 1 };
    jpeg_destroy_decompress(&d.jpeg);
    if (status != 0) {
        atomic_store(&s->busy, 0);
        return status;
    }
    *(void **)&operate = standin_driver("standin_operate");
    return operate != NULL && operate(stream, "nvJPEG's decoding", copy, &c, sizeof c, &access, 1) == 0
               ? NVJPEG12_STATUS_SUCCESS
               : NVJPEG12_STATUS_EXECUTION_FAILED;
}
