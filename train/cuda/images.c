/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images and labels from the host, on a stream of their own: those of the next pass come while the GPU computes. Each
 * batch goes to one of two slots, once the pass before the last one has read it.
 */
#include "cuda.h"

#include "../../cuda/driver.h"

static size_t pixels(const struct device_images *s)
{
    return (size_t)s->n * s->height * s->width * s->channels;
}

static size_t bytes(const struct device_images *s)
{
    return pixels(s) * (s->bytes ? 1 : sizeof(float));
}

static void copy(void *to, const void *from, size_t n, void *stream)
{
    cuda_must_call(plait_cuda.copy_async((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, n, stream),
                   "cannot copy images to the GPU");
}

static void record(void *event, void *stream)
{
    cuda_must_call(plait_cuda.event_record(event, stream), "cannot record an event on the GPU");
}

static void follow(void *stream, void *event)
{
    cuda_must_call(plait_cuda.stream_wait_event(stream, event, 0), "cannot wait for an event on the GPU");
}

static void *create_event(void)
{
    void *event = NULL;

    cuda_must_call(plait_cuda.event_create(&event, DRIVER_EVENT_SLEEP | DRIVER_EVENT_NO_TIMING),
                   "cannot create an event on the GPU");
    return event;
}

struct device_op *cuda_images(struct device *device, const struct device_images *shape, const struct device_layout *to)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_op *op = cuda_op_create(cuda, NULL);

    op->op.layouts[ARG_DST] = to;
    op->images.shape = *shape;
    for (unsigned k = 0; k < 2; k++)
        op->images.slots[k] = (struct cuda_slot){ .pixels = cuda_alloc(device, bytes(shape)),
                                                  .labels = cuda_alloc(device, shape->n * sizeof(int32_t)),
                                                  .copied = create_event(),
                                                  .read = create_event() };
    device->kind->synchronize(device); /* the slots are zeroed on another stream than images are copied on */
    if (cuda->most_images < shape->n) {
        cuda->most_images = shape->n;
        cuda->losses = cuda_alloc(device, kernel_loss_scratch(shape->n));
    }
    return &op->op;
}

void cuda_images_destroy(struct cuda_images *images)
{
    for (unsigned k = 0; k < 2; k++) {
        plait_cuda.event_destroy(images->slots[k].copied);
        plait_cuda.event_destroy(images->slots[k].read);
    }
}

/* To activations: bytes become x * factor - offset, as image.c has it for floats. */
static void convert(struct cuda *cuda, const struct device_images *s, const void *from, void *to)
{
    float factor[3], offset[3];

    if (!s->bytes) {
        kernel_convert(&cuda->launcher, pixels(s), PLAIT_FLOAT32, from, cuda->type, to, false);
        return;
    }
    for (unsigned c = 0; c < 3; c++) {
        factor[c] = (float)(1 / (255 * s->deviation[c]));
        offset[c] = (float)(s->mean[c] / s->deviation[c]);
    }
    kernel_images(&cuda->launcher, pixels(s), from, factor, offset, cuda->type, to);
}

void cuda_copy_images(struct device_op *device_op, const void *images, const int32_t *labels, void *to,
                      int32_t *to_labels, void *scratch)
{
    struct cuda *cuda = cuda_of(device_op->device);
    struct cuda_images *i = &((struct cuda_op *)device_op)->images;
    struct cuda_slot *slot = &i->slots[i->turn++ % 2];
    void *stream = cuda->device.stream;

    (void)scratch;
    follow(cuda->copies, slot->read);
    copy(slot->pixels, images, bytes(&i->shape), cuda->copies);
    copy(slot->labels, labels, i->shape.n * sizeof *labels, cuda->copies);
    record(slot->copied, cuda->copies);
    follow(stream, slot->copied);
    convert(cuda, &i->shape, slot->pixels, to);
    copy(to_labels, slot->labels, i->shape.n * sizeof *labels, stream);
    record(slot->read, stream);
    cuda->copied = slot->copied;
}

void cuda_wait_images(struct device *device)
{
    struct cuda *cuda = cuda_of(device);

    if (cuda->copied != NULL)
        cuda_must_call(plait_cuda.event_synchronize(cuda->copied), "cannot wait until images are copied");
}
