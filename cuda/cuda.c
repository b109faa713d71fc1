/* SPDX-License-Identifier: BSD-3-Clause */
/* The plug-in for NVIDIA GPUs: lib/plugin/device.h over CUDA's driver. */
#include "gpu_memory.h"
#include "optim.h"
#include "pack.h"

#include "../lib/plugin/device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct plait_event {
    struct gpu *gpu;
    void *event;
};

/* There may be a driver without a GPU. */
static const char *current(int *device, int *n)
{
    const char *why = plait_cuda_why(plait_cuda.device_count(n), "cuDeviceGetCount");

    if (why == NULL && *n == 0)
        why = plait_cuda_say("the driver has no GPU");
    return why == NULL ? plait_cuda_current(device) : why;
}

static const char *use(int device)
{
    struct gpu *gpu;

    return plait_cuda_gpu(device, &gpu);
}

static const char *finish(int device)
{
    struct gpu *gpu;
    const char *why = plait_cuda_gpu(device, &gpu);

    if (why == NULL)
        CALL(gpu, "cuCtxSynchronize", plait_cuda.context_synchronize());
    return why;
}

static const char *identify(int device, unsigned char uuid[16])
{
    return plait_cuda_why(plait_cuda.device_uuid((cu_uuid *)uuid, device), "cuDeviceGetUuid");
}

/* ---- Queues ----------------------------------------------------------------------------------------- */

/* The device of the current context. */
static const char *device_of_context(void *context, int *device)
{
    void *popped;
    const char *why = plait_cuda_why(plait_cuda.context_push(context), "cuCtxPushCurrent");

    if (why != NULL)
        return why;
    why = plait_cuda_why(plait_cuda.context_device(device), "cuCtxGetDevice");
    if (plait_cuda.context_pop(&popped) != DRIVER_OK)
        plait_cuda.context_pop(&popped);
    return why;
}

/* CUDA's handles of the legacy default stream and of the per-thread default stream. */
#define LEGACY     ((void *)1)
#define PER_THREAD ((void *)2)

/* Numbers for streams whose own cannot be queried, beyond those that the driver assigns. */
#define NAMELESS (1ULL << 63)
static _Atomic unsigned long long nameless = NAMELESS;

/*
 * The identity of a stream: the caller may create another stream with the same handle, but not with the same number.
 * The driver gives no number for a captured stream, and the query would invalidate the capture, so it gets a unique
 * number.
 */
static const char *number_of(void *stream, uint64_t *out)
{
    const bool may_be_captured = stream != NULL && stream != LEGACY;
    int status = DRIVER_CAPTURE_NONE;
    unsigned long long id = 0;
    const char *why = NULL;

    if (may_be_captured)
        why = plait_cuda_why(plait_cuda.stream_capture(stream, &status, &id), "cuStreamGetCaptureInfo");
    if (why == NULL && status != DRIVER_CAPTURE_NONE)
        id = atomic_fetch_add(&nameless, 1);
    else if (why == NULL)
        why = plait_cuda_why(plait_cuda.stream_id(stream, &id), "cuStreamGetId");
    *out = id + 1;
    return why;
}

/* The same for a stream, with its number. */
static const char *check_stream(struct plait_queue *q, void **context, int *device)
{
    const char *why = plait_cuda_why(plait_cuda.stream_context(q->stream, context),
                                     "it is no CUDA stream (destroyed?): cuStreamGetCtx");

    if (why == NULL)
        why = number_of(q->stream, &q->id);
    if (why == NULL && (q->gpu == NULL || *context != q->gpu->context))
        why = device_of_context(*context, device);
    return why;
}

static const char *take_stream(struct plait_queue *q, int wanted)
{
    void *context = NULL;
    int device = wanted;
    const char *why = NULL;

    if (q->stream == PER_THREAD)
        return plait_cuda_say("cudaStreamPerThread is another stream in each thread: create one");
    if (wanted >= 0)
        why = plait_cuda_gpu(wanted, &q->gpu);
    if (why == NULL)
        INSIDE(q->gpu, why = check_stream(q, &context, &device));
    if (why == NULL && wanted >= 0 && device != wanted)
        why = plait_cuda_say("it is a stream of GPU %d, not of GPU %d", device, wanted);
    if (why == NULL && q->gpu == NULL)
        why = plait_cuda_gpu(device, &q->gpu);
    if (why == NULL && context != q->gpu->context)
        why =
            plait_cuda_say("it is of another context than GPU %d's primary one, which cudaSetDevice() gives: create a "
                           "stream there",
                           device);
    return why;
}

static const char *make_stream(struct plait_queue *q, int priority, int device)
{
    unsigned long long id = 0;
    const char *why = plait_cuda_gpu(device, &q->gpu);

    if (why == NULL)
        CALL(q->gpu, "cuStreamCreateWithPriority",
             plait_cuda.stream_create(&q->stream, DRIVER_STREAM_NON_BLOCKING, priority));
    if (why != NULL)
        return why;
    CALL(q->gpu, "cuStreamGetId", plait_cuda.stream_id(q->stream, &id));
    q->id = id + 1;
    const char *failed = why;
    if (failed != NULL)
        TWICE(q->gpu, "cuStreamDestroy", plait_cuda.stream_destroy(q->stream));
    return failed;
}

/*
 * Streams share a few hardware queues, in which a wait blocks everything behind it. Streams of another priority have
 * separate queues.
 */
static const char *open_queue(enum plait_queue_kind kind, void *native, int device, struct plait_queue **out)
{
    struct plait_queue *q = calloc(1, sizeof *q);
    const char *why = q == NULL ? plait_cuda_say("out of memory for a stream") : NULL;

    if (why == NULL) {
        q->stream = native;
        q->own = kind != PLAIT_QUEUE_THEIRS;
        if (q->own)
            why = make_stream(q, kind == PLAIT_QUEUE_URGENT ? DRIVER_STREAM_FIRST : DRIVER_STREAM_NORMAL, device);
        else
            why = take_stream(q, device);
    }
    if (why == NULL)
        *out = q;
    else
        free(q);
    return why;
}

static void close_queue(struct plait_queue *q)
{
    const char *why;

    if (q != NULL && q->own)
        TWICE(q->gpu, "cuStreamDestroy", plait_cuda.stream_destroy(q->stream));
    free(q);
}

static int device_of(const struct plait_queue *q)
{
    return q->gpu->device;
}

static uint64_t id_of(const struct plait_queue *q)
{
    return q->id;
}

static const char *drain(struct plait_queue *q)
{
    const char *why;

    TWICE(q->gpu, "cuStreamSynchronize", plait_cuda.stream_synchronize(q->stream));
    return why;
}

static const char *query(struct plait_queue *q, bool *done)
{
    int error = DRIVER_OK;
    const char *why;

    INSIDE(q->gpu, error = plait_cuda.stream_query(q->stream));
    *done = error == DRIVER_OK;
    return why != NULL || error == DRIVER_NOT_READY ? why : plait_cuda_why(error, "cuStreamQuery");
}

static const char *capturing(struct plait_queue *q, uint64_t *capture)
{
    int status = DRIVER_CAPTURE_NONE;
    unsigned long long id = 0;
    const char *why;

    PUT(q->gpu, "cuStreamGetCaptureInfo", plait_cuda.stream_capture(q->stream, &status, &id));
    *capture = status != DRIVER_CAPTURE_NONE ? id + 1 : 0;
    return why;
}

enum { MOST_VALUES = 254 }; /* of one call, in which a flag's wait and its reset stay together */

static cu_mem_op value_of(uint32_t operation, uint64_t address, uint32_t value, uint32_t how)
{
    return (cu_mem_op){ .item = { operation, address, value, how, 0 } };
}

static const char *signals(struct plait_queue *q, const struct plait_signal *s, size_t n)
{
    cu_mem_op values[MOST_VALUES];
    unsigned m = 0;
    const char *why = NULL;

    for (size_t i = 0; i < n && why == NULL; i++) {
        switch (s[i].what) {
        case PLAIT_SIGNAL_SET:
            values[m++] = value_of(DRIVER_VALUE_WRITE, s[i].address, s[i].value, 0);
            break;
        case PLAIT_SIGNAL_AWAIT:
            values[m++] = value_of(DRIVER_VALUE_WAIT, s[i].address, s[i].value, DRIVER_WAIT_EQ);
            values[m++] = value_of(DRIVER_VALUE_WRITE, s[i].address, 0, 0);
            break;
        case PLAIT_SIGNAL_REACH:
            values[m++] = value_of(DRIVER_VALUE_WAIT, s[i].address, s[i].value, DRIVER_WAIT_GEQ);
            break;
        }
        if (m + 2 <= MOST_VALUES && i + 1 < n)
            continue;
        PUT(q->gpu, "cuStreamBatchMemOp", plait_cuda.stream_values(q->stream, m, values, 0));
        m = 0;
    }
    return why;
}

static const char *copies(struct plait_queue *q, const struct plait_copy *copy, size_t n)
{
    struct plait_cuda_copies a = { .n = 0 };
    uint64_t chunks = 0;
    const char *why = NULL;

    if (n == 1) {
        PUT(q->gpu, "cuMemcpyAsync",
            plait_cuda.copy_async((cu_address)(uintptr_t)copy->to, (cu_address)(uintptr_t)copy->from, copy->bytes,
                                  q->stream));
        return why;
    }
    for (size_t i = 0; i < n && why == NULL; i++) {
        a.copy[a.n++] = (struct plait_cuda_copy){ copy[i].to, copy[i].from, copy[i].bytes };
        chunks += plait_cuda_chunks(copy[i].bytes);
        if (a.n < PLAIT_CUDA_COPIES && i + 1 < n)
            continue;
        const unsigned blocks = chunks < q->gpu->most_blocks ? (unsigned)chunks : q->gpu->most_blocks;
        if (blocks > 0)
            ENTERED(q->gpu, true,
                    why = plait_cuda_launch(q->gpu, q->stream, PLAIT_CUDA_KERNEL_plait_copies, blocks, &a));
        a.n = 0;
        chunks = 0;
    }
    return why;
}

static const size_t sizes[] = {
#define PLAIT_X(symbol, value, bytes, name) [value] = bytes,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};

/* Has each block one operand, whose bits are its result? */
static bool only_copies(const struct plait_list *l)
{
    bool copies = l->divisor == 0 && l->wide == 0 && !l->wide_dst;

    for (uint32_t i = 0; i < l->n && copies; i++)
        copies = l->items[i].nsrc == 1;
    return copies;
}

static const char *launch_list(const struct plait_queue *q, enum plait_cuda_kernel kernel, size_t size,
                               struct plait_cuda_list *a)
{
    const unsigned blocks = plait_cuda_list_cut(a, (uint32_t)size, q->gpu->most_blocks);
    const char *why;

    ENTERED(q->gpu, true, why = plait_cuda_launch(q->gpu, q->stream, kernel, blocks, a));
    return why;
}

/* Elements are of `size` bytes, and as many of them are one of the list's elements. */
static bool add_item(struct plait_cuda_list *a, size_t size, size_t many, const struct plait_item *item)
{
    const struct plait_cuda_item as = { .count = item->count * many,
                                        .in = item->in,
                                        .out = item->out,
                                        .times = (uint16_t)item->times,
                                        .gathers = item->gathers };
    const bool repeats = item->times > 1;

    return plait_cuda_list_add(a, (uint32_t)size, item->src, repeats && item->gathers ? item->times : item->nsrc,
                               item->dst, repeats && !item->gathers ? item->times : item->ndst, &as);
}

static const char *make(struct plait_queue *q, const struct plait_list *l)
{
    const struct plait_cuda_list empty = {
        .wide = l->wide, .op = (uint32_t)l->op, .divisor = l->divisor, .wide_dst = l->wide_dst
    };
    const bool copies = only_copies(l);
    const enum plait_cuda_kernel kernel = copies ? PLAIT_CUDA_KERNEL_plait_copy : (enum plait_cuda_kernel)l->type;
    const size_t size = copies ? 1 : sizes[l->type], many = sizes[l->type] / size;
    struct plait_cuda_list a = empty;
    const char *why = NULL;

    for (uint32_t i = 0; i < l->n && why == NULL; i++) {
        if (add_item(&a, size, many, &l->items[i]))
            continue;
        if (a.nitem > 0)
            why = launch_list(q, kernel, size, &a);
        a = empty;
        if (why == NULL && !add_item(&a, size, many, &l->items[i]))
            why = plait_cuda_say("%u blocks are combined at once, which is more than a GPU can", l->items[i].nsrc);
    }
    return why == NULL && a.nitem > 0 ? launch_list(q, kernel, size, &a) : why;
}

static const char *scale(struct plait_queue *q, enum plait_dtype type, void *to, const void *from, size_t count,
                         const void *scalar, bool late)
{
    struct plait_cuda_scale a = { .dst = to, .src = from, .count = count, .type = (uint32_t)type };
    const char *why;

    if (late)
        a.late = scalar;
    else
        memcpy(&a.scalar, scalar, sizes[type]);
    ENTERED(q->gpu, true,
            why = plait_cuda_launch(q->gpu, q->stream, PLAIT_CUDA_KERNEL_plait_scale,
                                    plait_cuda_blocks(count * sizes[type], q->gpu->most_blocks), &a));
    return why;
}

static void seen(const void *word, uint32_t value)
{
    if (plait_cuda_seen != NULL)
        plait_cuda_seen(word, value);
}

/* ---- Events ------------------------------------------------------------------------------------------ */

static const char *create_event(int device, struct plait_event **out)
{
    struct plait_event *m = calloc(1, sizeof *m);
    const char *why = m == NULL ? plait_cuda_say("out of memory for an event") : plait_cuda_gpu(device, &m->gpu);

    if (why == NULL)
        CALL(m->gpu, "cuEventCreate", plait_cuda.event_create(&m->event, DRIVER_EVENT_NO_TIMING));
    if (why == NULL)
        *out = m;
    else
        free(m);
    return why;
}

static void destroy_event(struct plait_event *m)
{
    const char *why;

    if (m != NULL)
        TWICE(m->gpu, "cuEventDestroy", plait_cuda.event_destroy(m->event));
    free(m);
}

static const char *record_event(struct plait_queue *q, struct plait_event *m)
{
    const char *why;

    TWICE(q->gpu, "cuEventRecord", plait_cuda.event_record(m->event, q->stream));
    return why;
}

static const char *wait_event(struct plait_queue *q, struct plait_event *m)
{
    const char *why;

    PUT(q->gpu, "cuStreamWaitEvent", plait_cuda.stream_wait_event(q->stream, m->event, 0));
    return why;
}

static const char *event_done(struct plait_event *m, bool *out)
{
    int error = DRIVER_OK;
    const char *why;

    INSIDE(m->gpu, error = plait_cuda.event_query(m->event));
    *out = error == DRIVER_OK;
    return why != NULL || error == DRIVER_NOT_READY ? why : plait_cuda_why(error, "cuEventQuery");
}

__attribute__((visibility("default"))) const struct plait_device_plugin plait_device_plugin = {
    .abi = PLAIT_DEVICE_ABI,
    .name = "cuda",
    .open = plait_cuda_find,
    .current = current,
    .use = use,
    .finish = finish,
    .identify = identify,
    .locate = plait_cuda_locate,
    .alloc = plait_cuda_alloc,
    .free = plait_cuda_free,
    .export_memory = plait_cuda_export,
    .import_memory = plait_cuda_import,
    .close_import = plait_cuda_close_import,
    .enable_peer = plait_cuda_enable_peer,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .device_of = device_of,
    .id_of = id_of,
    .drain = drain,
    .query = query,
    .capturing = capturing,
    .signal = signals,
    .seen = seen,
    .copies = copies,
    .make = make,
    .scale = scale,
    .make_packing = plait_cuda_make_packing,
    .free_packing = plait_cuda_free_packing,
    .pack = plait_cuda_pack_into,
    .zero = plait_cuda_zero,
    .unpack = plait_cuda_unpack_from,
    .square_sum = plait_cuda_square_sum,
    .make_stepper = plait_cuda_make_stepper,
    .free_stepper = plait_cuda_free_stepper,
    .step = plait_cuda_step,
    .stepped = plait_cuda_stepped,
    .create_event = create_event,
    .destroy_event = destroy_event,
    .record_event = record_event,
    .wait_event = wait_event,
    .event_done = event_done,
};
