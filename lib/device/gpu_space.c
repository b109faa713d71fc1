/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory space of GPUs: what an operation starts is put on the call's queue, which orders it after earlier work. */
#include "base/status.h"
#include "device_whole.h"
#include "failure/failure.h"
#include "memory/devices.h"
#include "operation/operation.h"

/* ---- Finding it ----------------------------------------------------------------------------------- */

/* Between hosts the CPU takes part in each message, and it does not know when a graph runs. */
static enum plait_status check_queue(const struct plait_comm *comm, const char *name, struct plait_queue *queue)
{
    uint64_t capture = 0;

    if (comm->remote != NULL && plait_device_used()->capturing(queue, &capture) != NULL)
        capture = 0; /* the operation asks again, and fails if it must */
    return capture != 0 ? plait_fail(PLAIT_ERR_UNSUPPORTED, "%s: %s", name, plait_device_no_graph) : PLAIT_OK;
}

/* The reader of the scalar must be able to read it: the host, or with PLAIT_SCALE_LATE the device. */
static enum plait_status check_scale(const char *name, const struct plait_call *call, size_t size,
                                     const struct plait_queue *queue)
{
    static const char which[] = ": call->scale";
    struct plait_location p;

    if (call == NULL || call->scale == NULL)
        return PLAIT_OK;
    const bool late = queue != NULL && call->scale_when == PLAIT_SCALE_LATE;
    const enum plait_status status = plait_device_find(name, which, call->scale, &p);
    if (status != PLAIT_OK || (!late && p.kind != PLAIT_MEMORY_DEVICE))
        return status;
    if (!late)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s%s is %p, memory of GPU %d, which the host cannot read: %s", name,
                          which, call->scale, p.device,
                          queue != NULL ? "set call->scale_when to PLAIT_SCALE_LATE" : "copy it to the host");
    if (p.kind != PLAIT_MEMORY_HOST)
        return plait_device_aligned(name, which, call->scale, size);
    return plait_fail(PLAIT_ERR_ARG,
                      "%s%s is %p, %s, which the GPU cannot read when the operation runs there: with PLAIT_SCALE_LATE "
                      "use device, pinned or managed memory",
                      name, which, call->scale, plait_device_unknown);
}

/* Without a stream: the comm's own queue. */
static enum plait_status own_queue(struct plait_comm *comm, int device, struct plait_queue **out)
{
    const char *why = NULL;

    if (comm->own_queue == NULL)
        why = plait_device_used()->open_queue(PLAIT_QUEUE_OWN, NULL, device, &comm->own_queue);
    *out = comm->own_queue;
    return plait_device_result("a comm cannot use its GPU", why);
}

static enum plait_status find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes, size_t size,
                              const struct plait_call *call, struct plait_args *args)
{
    const void *in = in_bytes > 0 ? args->in : NULL, *out = out_bytes > 0 ? args->out : NULL;
    struct plait_queue *q = NULL;
    struct plait_location a, b;
    enum plait_status status = plait_stream_queue(name, call != NULL ? call->stream : NULL, &q);

    if (status == PLAIT_OK)
        status = plait_device_find(name, ": in", in, &a);
    if (status == PLAIT_OK)
        status = plait_device_find(name, ": out", out, &b);
    if (status != PLAIT_OK)
        return status;
    if (q == NULL && a.kind != PLAIT_MEMORY_DEVICE && b.kind != PLAIT_MEMORY_DEVICE)
        return check_scale(name, call, size, NULL);
    const int device = q != NULL                       ? plait_device_used()->device_of(q)
                       : comm->device != NULL          ? comm->device->device
                       : a.kind == PLAIT_MEMORY_DEVICE ? a.device
                                                       : b.device;
    if (in != NULL)
        status = plait_device_is_on(name, ": in", in, &a, size, device);
    if (status == PLAIT_OK && out != NULL)
        status = plait_device_is_on(name, ": out", out, &b, size, device);
    if (status == PLAIT_OK && call != NULL && call->user != NULL)
        status = plait_fail(PLAIT_ERR_UNSUPPORTED,
                            "%s: op is user, a function of the host's, which cannot combine memory of a GPU", name);
    if (status == PLAIT_OK && q != NULL)
        status = check_queue(comm, name, q);
    if (status == PLAIT_OK && q == NULL)
        status = own_queue(comm, device, &q);
    if (status == PLAIT_OK)
        status = check_scale(name, call, size, q);
    if (status == PLAIT_OK)
        status = plait_device_open(comm, name, device);
    if (status != PLAIT_OK)
        return status;
    args->space = &plait_gpu_space;
    args->queue = q;
    return PLAIT_OK;
}

/* ---- Working in it --------------------------------------------------------------------------------- */

static enum plait_status begin(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    enum plait_status status = plait_device_captures(comm, &run->target);

    run->slices = comm->device->slices[run->target.note != 0];
    run->scaled = &comm->device->scaled[run->target.note != 0];
    return status;
}

static bool is_behind(const struct plait_comm *comm)
{
    return comm->device->nstaging > 0;
}

static void copy(struct plait_comm *comm, void *to, const void *from, size_t bytes, bool streams)
{
    (void)streams;
    plait_device_copy(comm, to, from, bytes);
}

static void combine(const struct plait_run *run, const struct plait_combine *c, const struct plait_how *how)
{
    struct plait_queue *queue = plait_device_queue(run->comm);
    const struct plait_item item = {
        .src = c->src, .dst = &c->dst, .nsrc = c->nsrc, .ndst = 1, .count = c->count, .times = 1
    };
    const struct plait_list list = { .type = c->type,
                                     .op = c->op,
                                     .divisor = c->divisor,
                                     .wide = c->wide,
                                     .wide_dst = c->wide_dst,
                                     .items = &item,
                                     .n = 1 };

    (void)how;
    if (queue != NULL)
        plait_device_note(run->comm, run->comm->device->plugin->make(queue, &list));
}

static void scale(const struct plait_run *run, void *to, const void *from, size_t count, const void *scalar, bool late)
{
    struct plait_queue *queue = plait_device_queue(run->comm);

    if (queue != NULL)
        plait_device_note(run->comm,
                          run->comm->device->plugin->scale(queue, run->o->type, to, from, count, scalar, late));
}

static bool mark(struct plait_comm *comm, struct plait_queue *queue, uint32_t *out)
{
    uint64_t capture = 0;

    plait_device_note(comm, comm->device->plugin->capturing(queue, &capture));
    *out = atomic_load(&comm->device->put);
    return capture == 0;
}

/* ---- Messages -------------------------------------------------------------------------------------- */

/* plait_device_queue() orders work within one capture, or outside captures; two graphs may run concurrently. */
static enum plait_status check_capture(struct plait_device_comm *d, uint64_t capture)
{
    if (capture == 0)
        return PLAIT_OK;
    if (d->ncapture > 0 && d->capturing != capture)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "messages of one group are on streams of several captures: put them on streams of one, or in "
                          "a group for each");
    d->ncapture++;
    d->capturing = capture;
    return PLAIT_OK;
}

static void begin_message(struct plait_comm *comm, struct plait_target *target)
{
    enum plait_status status = plait_device_captures(comm, target);

    if (status == PLAIT_OK)
        status = check_capture(comm->device, target->note);
    if (status == PLAIT_OK)
        return;
    target->note = 0;
    plait_comm_fail_too(comm, status);
}

/* Can the driver show the memory to the receiver's process? The comm's lock is held. */
static enum plait_status check_send(struct plait_comm *comm, const void *data, uint32_t peer)
{
    const struct plait_process *process = comm->peers[peer].process;
    struct plait_exported exported = { .id = 0 };
    const char *why = NULL;

    if (process != NULL && process->base != NULL)
        why = comm->device->plugin->export_memory(data, &exported);
    if (why == NULL)
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_UNSUPPORTED,
        "send: in is %p, memory of GPU %d that the driver does not show to other processes (%s): it may not have been "
        "allocated by cudaMalloc() or the like: copy it into memory of plait_mem_alloc_as()",
        data, comm->device->device, why);
}

/* The two queues wait for each other before and after the copy. */
static void pass_to_itself(struct plait_comm *comm, const struct plait_target *from, const void *data,
                           const struct plait_target *to, void *place, size_t bytes)
{
    const struct plait_device_plugin *plugin = comm->device->plugin;
    const bool apart = plugin->id_of(from->queue) != plugin->id_of(to->queue) || from->note != to->note;

    plait_device_use_queue(comm, from);
    if (apart)
        plait_device_queue(comm);
    plait_device_use_queue(comm, to);
    if (data != place)
        plait_device_copy(comm, place, data, bytes);
    plait_device_use_queue(comm, from);
    if (apart)
        plait_device_queue(comm);
}

static void end_message(struct plait_comm *comm, const struct plait_target *target)
{
    comm->device->ncapture -= target->note != 0;
}

const struct plait_space plait_gpu_space = {
    .id = 1,
    .queued = true,
    .channel = PLAIT_CHANNEL_DEVICE,
    .messages = PLAIT_CHANNEL_DEVICE_MESSAGES,
    .find = find,
    .grow = plait_device_grow,
    .begin = begin,
    .order = plait_device_use_queue,
    .end = plait_device_end_operation,
    .poll = plait_device_status,
    .is_behind = is_behind,
    .whole = plait_device_whole_turn,
    .whole_awaited = plait_device_whole_awaited,
    .copy = copy,
    .combine = combine,
    .scale = scale,
    .settle = plait_device_settle,
    .leaves_some = plait_device_leaves_some,
    .close = plait_device_comm_destroy,
    .bytes = plait_device_bytes,
    .check_queue = check_queue,
    .check_send = check_send,
    .mark = mark,
    .has_passed = plait_device_has_passed,
    .message_begin = begin_message,
    .message_end = end_message,
    .message_to_itself = pass_to_itself,
};
