/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JPEGs by nvJPEG, for the loader's threads. A thread takes a lane, which is a stream with an image's memory; decodes,
 * crops, and sleeps until the image is there. So a batch is complete when the loader hands it over, as with processors.
 * The file's bytes are there until the image is, whatever nvJPEG does with them.
 *
 * nvJPEG's default backend chooses how it decodes: all by kernels, or Huffman codes by this thread and the rest by
 * kernels. image_decode_on() gives refused images to the processor.
 */
#include "cuda.h"

#include "../../cuda/driver.h"
#include "cublas12.h"
#include "data.h"
#include "find.h"
#include "nvjpeg12.h"

#include "allocate.h"
#include "program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLDEST_NVJPEG = 1201, /* 12.1, which interpolates colours as libjpeg-turbo does */
    FLAGS = NVJPEG12_FLAGS_BITSTREAM_STRICT | NVJPEG12_FLAGS_UPSAMPLING_WITH_INTERPOLATION,
    FIRST_ROOM = 3 << 20 /* bytes of an image, until a larger one comes */
};

struct lane {
    struct cuda_decoder *decoder;
    struct train_launcher launcher; /* on its stream */
    void *stream;
    void *done;    /* event: the image is there */
    void *state;   /* nvJPEG's */
    void *pixels;  /* of a whole image */
    size_t room;   /* bytes of them */
    void *scratch; /* of the crop: its grey, then its values */
    struct lane *next;
};

struct cuda_decoder {
    struct image_decoder decoder;
    struct cuda *cuda;
    struct nvjpeg_functions nvjpeg;
    char file[512], version[24];
    void *handle;
    uint32_t pixels;
    struct lane *lanes; /* [nlane] */
    unsigned nlane;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct lane *idle;
};

/* ---- nvJPEG ---- */

static const struct find_symbol symbols[] = {
#define PLAIT_X(name, symbol, result, arguments) { symbol, offsetof(struct nvjpeg_functions, name) },
    NVJPEG12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
};

static const char *remedy(const struct gpu *gpu)
{
    return gpu->driver < 13000 ? "pip install nvidia-nvjpeg-cu12, or use --decoder cpu"
                               : "pip install nvidia-nvjpeg, or use --decoder cpu";
}

/* NULL: it went well. */
static const char *why_of(const struct cuda_decoder *d, const char *call, int status)
{
    const char *text = "an unknown status";

#define PLAIT_X(name, value, for_people) \
    if (status == (value))               \
        text = for_people;
    NVJPEG12_STATUS_LIST(PLAIT_X)
#undef PLAIT_X
    return status == NVJPEG12_STATUS_SUCCESS
               ? NULL
               : plait_cuda_say("%s of nvJPEG %s: status %d: %s", call, d->version, status, text);
}

static const char *check(struct cuda_decoder *d, const char *missing)
{
    int major = 0, minor = 0, patch = 0;

    if (missing != NULL)
        return plait_cuda_say("%s has no %s: nvJPEG 12.1 or newer is needed: %s", d->file, missing,
                              remedy(&d->cuda->gpu));
    d->nvjpeg.property(BLAS_MAJOR_VERSION, &major);
    d->nvjpeg.property(BLAS_MINOR_VERSION, &minor);
    d->nvjpeg.property(BLAS_PATCH_LEVEL, &patch);
    snprintf(d->version, sizeof d->version, "%d.%d.%d", major, minor, patch);
    if (100 * major + minor < OLDEST_NVJPEG)
        return plait_cuda_say("%s is nvJPEG %s, and 12.1 or newer is needed: %s", d->file, d->version,
                              remedy(&d->cuda->gpu));
    return NULL;
}

/* That of CUDA 13 needs a driver of CUDA 13. */
static const char *load(struct cuda_decoder *d)
{
    const bool newer = d->cuda->gpu.driver >= 13000;
    struct found f = find_library(newer ? "libnvjpeg.so.13" : "libnvjpeg.so.12", NULL);

    if (f.handle == NULL && newer) {
        const struct found older = find_library("libnvjpeg.so.12", NULL);
        f = older.handle != NULL ? older : f;
    }
    if (f.handle == NULL)
        return plait_cuda_say("there is no nvJPEG 12 or 13 for this driver here, which decodes JPEGs on GPUs: %s: %s",
                              f.why, remedy(&d->cuda->gpu));
    snprintf(d->file, sizeof d->file, "%s", f.file);
    return check(d, find_symbols(f.handle, symbols, sizeof symbols / sizeof *symbols, &d->nvjpeg));
}

/* ---- Lanes ---- */

static void launch(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    const struct lane *lane = context;

    cuda_launch(lane->decoder->cuda, lane->stream, kernel, blocks, argument);
}

static size_t scratch(const struct cuda_decoder *d)
{
    return d->pixels * sizeof(double) + (size_t)d->pixels * d->pixels * 3 * sizeof(float);
}

/* Room for a whole image, which stays. It grows by powers of two. */
static const char *make_room(struct lane *lane, size_t bytes)
{
    size_t room = FIRST_ROOM;
    void *pixels = NULL;

    while (room < bytes)
        room *= 2;
    if (room <= lane->room)
        return NULL;
    const char *why = gpu_alloc(&lane->decoder->cuda->gpu, room, &pixels);
    if (why != NULL)
        return why;
    gpu_free(lane->pixels);
    lane->pixels = pixels;
    lane->room = room;
    return NULL;
}

/* Before a step's kernels: each image is little work, and late ones hold up a step. */
static const char *lane_init(struct lane *lane, struct cuda_decoder *d)
{
    const struct cuda *cuda = d->cuda;
    const char *why;

    lane->decoder = d;
    lane->launcher = (struct train_launcher){ launch, lane, cuda->launcher.multiprocessors };
    cuda_must_call(plait_cuda.stream_create(&lane->stream, DRIVER_STREAM_NON_BLOCKING, DRIVER_STREAM_FIRST),
                   "cuStreamCreateWithPriority");
    cuda_must_call(plait_cuda.event_create(&lane->done, DRIVER_EVENT_SLEEP | DRIVER_EVENT_NO_TIMING), "cuEventCreate");
    why = gpu_alloc(&cuda->gpu, scratch(d), &lane->scratch);
    if (why == NULL)
        why = make_room(lane, FIRST_ROOM);
    if (why == NULL)
        why = why_of(d, "nvjpegJpegStateCreate", d->nvjpeg.state_create(d->handle, &lane->state));
    return why;
}

static void lane_finish(struct lane *lane)
{
    lane->decoder->nvjpeg.state_destroy(lane->state);
    plait_cuda.event_destroy(lane->done);
    plait_cuda.stream_destroy(lane->stream);
    gpu_free(lane->pixels);
    gpu_free(lane->scratch);
}

static struct lane *take(struct cuda_decoder *d)
{
    pthread_mutex_lock(&d->lock);
    while (d->idle == NULL)
        pthread_cond_wait(&d->given, &d->lock);
    struct lane *lane = d->idle;
    d->idle = lane->next;
    pthread_mutex_unlock(&d->lock);
    cuda_must(gpu_use(&d->cuda->gpu));
    return lane;
}

static void give(struct lane *lane)
{
    struct cuda_decoder *d = lane->decoder;

    pthread_mutex_lock(&d->lock);
    lane->next = d->idle;
    d->idle = lane;
    pthread_cond_signal(&d->given);
    pthread_mutex_unlock(&d->lock);
}

/* Sleep until its work is done. */
static void await(const struct lane *lane)
{
    cuda_must_call(plait_cuda.event_record(lane->done, lane->stream), "cuEventRecord");
    cuda_must_call(plait_cuda.event_synchronize(lane->done), "cuEventSynchronize");
}

/* ---- struct image_decoder ---- */

static void *alloc(struct image_decoder *decoder, size_t bytes)
{
    struct device *device = &((struct cuda_decoder *)decoder)->cuda->device;
    void *memory = cuda_alloc(device, bytes);

    device->kind->synchronize(device); /* it is zeroed on another stream than images are decoded on */
    return memory;
}

static const char *decode_whole(struct lane *lane, const void *jpeg, size_t bytes, uint32_t width, uint32_t height)
{
    const struct cuda_decoder *d = lane->decoder;
    struct nvjpeg12_image to = { .channel = { lane->pixels }, .pitch = { (size_t)width * 3 } };
    int components, sampling, widths[4] = { 0 }, heights[4] = { 0 };
    const char *why = why_of(d, "nvjpegGetImageInfo",
                             d->nvjpeg.info(d->handle, jpeg, bytes, &components, &sampling, widths, heights));

    if (why == NULL && ((uint32_t)widths[0] != width || (uint32_t)heights[0] != height))
        why = "nvJPEG sees another size in it"; /* for which there is no room */
    if (why != NULL)
        return why;
    return why_of(d, "nvjpegDecode",
                  d->nvjpeg.decode(d->handle, lane->state, jpeg, bytes, NVJPEG12_OUTPUT_RGBI, &to, lane->stream));
}

static void crop(const struct lane *lane, uint32_t width, uint32_t height, const struct augmentation *a, void *out)
{
    const uint32_t side = lane->decoder->pixels;
    struct train_crop c = { .from = lane->pixels, .to = out, .grey = lane->scratch };

    c.values = (float *)(void *)(c.grey + side);
    c.x = a->box.x;
    c.y = a->box.y;
    c.box_width = a->box.width;
    c.box_height = a->box.height;
    c.width = width;
    c.height = height;
    c.side = side;
    c.flip = a->flip;
    c.brightness = a->brightness;
    c.contrast = a->contrast;
    c.saturation = a->saturation;
    kernel_crop(&lane->launcher, &c);
}

static const char *decode(struct image_decoder *decoder, const void *jpeg, size_t bytes, uint32_t width,
                          uint32_t height, const struct augmentation *a, void *out)
{
    struct lane *lane = take((struct cuda_decoder *)decoder);
    const char *why = make_room(lane, (size_t)width * height * 3);

    if (why == NULL)
        why = decode_whole(lane, jpeg, bytes, width, height);
    if (why == NULL)
        crop(lane, width, height, a, out);
    await(lane); /* nvJPEG may have begun what it then refused */
    give(lane);
    return why;
}

static void put(struct image_decoder *decoder, const void *image, size_t bytes, void *out)
{
    struct lane *lane = take((struct cuda_decoder *)decoder);

    cuda_must_call(plait_cuda.copy_async((cu_address)(uintptr_t)out, (cu_address)(uintptr_t)image, bytes, lane->stream),
                   "cuMemcpyAsync");
    await(lane);
    give(lane);
}

/* ---- The whole ---- */

static const char *create(struct cuda_decoder *d)
{
    const char *why = load(d);

    if (why == NULL)
        why = why_of(d, "nvjpegCreateEx", d->nvjpeg.create(NVJPEG12_BACKEND_DEFAULT, NULL, NULL, FLAGS, &d->handle));
    for (unsigned k = 0; k < d->nlane && why == NULL; k++) {
        why = lane_init(&d->lanes[k], d);
        d->lanes[k].next = d->idle;
        d->idle = &d->lanes[k];
    }
    return why;
}

struct image_decoder *cuda_decoder(struct device *device, uint32_t pixels, unsigned threads)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_decoder *d = allocate(1, sizeof *d);
    const size_t length = strlen(device->about);

    *d = (struct cuda_decoder){
        .decoder = { .alloc = alloc, .decode = decode, .put = put }, .cuda = cuda, .pixels = pixels, .nlane = threads
    };
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->given, NULL);
    d->lanes = allocate(threads, sizeof *d->lanes);
    const char *why = create(d);
    if (why != NULL)
        give_up(1, "--decoder nvjpeg: %s", why);
    d->decoder.memory = threads * (FIRST_ROOM + scratch(d));
    snprintf(device->about + length, sizeof device->about - length, ", nvJPEG %s", d->version);
    cuda->decoder = d;
    return &d->decoder;
}

void cuda_decoder_destroy(struct cuda_decoder *d)
{
    if (d == NULL)
        return;
    for (unsigned k = 0; k < d->nlane; k++)
        lane_finish(&d->lanes[k]);
    d->nvjpeg.destroy(d->handle);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->given);
    free(d->lanes);
    free(d);
}
