/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_call.h"

#include "base/status.h"
#include "device/device_comm.h"
#include "engine/operate.h"
#include "memory/devices.h"
#include "request/request.h"
#include "request/stream.h"

#include <stdio.h>

/* ---- Recognition ---------------------------------------------------------------------------------- */

static enum plait_status find_place(const char *name, const char *which, const void *memory, size_t bytes,
                                    struct plait_spot *out)
{
    const char *why = NULL;

    *out = (struct plait_spot){ .kind = PLAIT_MEMORY_HOST, .device = -1 };
    if (bytes > 0 && memory != NULL)
        why = plait_device_used()->place(memory, out);
    return why == NULL ? PLAIT_OK : plait_fail(PLAIT_ERR_SYSTEM, "%s: %s is %p: %s", name, which, memory, why);
}

enum plait_status plait_device_check_capture(const struct plait_comm *comm, const char *name, struct plait_queue *queue)
{
    uint64_t capture = 0;

    if (comm->remote != NULL && plait_device_used()->capturing(queue, &capture) != NULL)
        capture = 0; /* the operation asks again, and fails if it must */
    return capture != 0 ? plait_fail(PLAIT_ERR_UNSUPPORTED, "%s: %s", name, plait_device_no_graph) : PLAIT_OK;
}

static enum plait_status check_call(const char *name, const struct plait_call *call)
{
    if (call != NULL && call->user != NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "%s: op is user, a function of the host's, which cannot combine memory of a GPU", name);
    return PLAIT_OK;
}

/* The reader of the scalar must be able to read it: the host, or with PLAIT_SCALE_LATE the device. */
static enum plait_status check_scale(const char *name, const struct plait_call *call, size_t size,
                                     const struct plait_queue *queue)
{
    struct plait_spot p;

    if (call == NULL || call->scale == NULL)
        return PLAIT_OK;
    if (queue == NULL || call->scale_when == PLAIT_SCALE_NOW)
        return plait_device_refuse(name, "call->scale", call->scale);
    const enum plait_status status = find_place(name, "call->scale", call->scale, 1, &p);
    if (status == PLAIT_OK && p.kind != PLAIT_MEMORY_HOST)
        return plait_device_aligned(name, ": call->scale", call->scale, size);
    if (status != PLAIT_OK)
        return status;
    return plait_fail(
        PLAIT_ERR_ARG,
        "%s: call->scale is %p, host memory, which the GPU cannot read when the operation runs there: with "
        "PLAIT_SCALE_LATE use device, pinned or managed memory",
        name, call->scale);
}

static enum plait_status wrong_place(const char *name, const char *which, const void *memory,
                                     const struct plait_spot *p, const char *remedy)
{
    char device[32] = "";

    if (p->device >= 0)
        snprintf(device, sizeof device, " of GPU %d", p->device);
    return plait_fail(PLAIT_ERR_ARG, "%s: %s is %p, which is %s memory%s; %s", name, which, memory,
                      plait_memory_name(p->kind), device, remedy);
}

/* Without a stream: the comm's own queue. */
static enum plait_status own_queue(struct plait_comm *comm, int device, struct plait_queue **out)
{
    const char *why = NULL;

    if (comm->own_queue == NULL)
        why = plait_device_used()->open_queue(PLAIT_QUEUE_OWN, NULL, device, &comm->own_queue);
    *out = comm->own_queue;
    return why == NULL ? PLAIT_OK : plait_device_fail("a comm cannot use its GPU", why);
}

enum plait_status plait_device_find(struct plait_comm *comm, const char *name, const void *in, size_t in_bytes,
                                    const void *out, size_t out_bytes, size_t size, const struct plait_call *call,
                                    struct plait_queue **queue)
{
    struct plait_queue *q = call != NULL && call->stream != NULL ? plait_stream_queue(call->stream) : NULL;
    struct plait_spot a, b;
    enum plait_status status = find_place(name, "in", in, in_bytes, &a);

    *queue = NULL;
    if (status == PLAIT_OK)
        status = find_place(name, "out", out, out_bytes, &b);
    if (status != PLAIT_OK)
        return status;
    const bool has_in = in_bytes > 0 && in != NULL, has_out = out_bytes > 0 && out != NULL;
    const bool on_device = (has_in && a.kind == PLAIT_MEMORY_DEVICE) || (has_out && b.kind == PLAIT_MEMORY_DEVICE);
    if (q == NULL && !on_device)
        return check_scale(name, call, size, NULL);
    if (q == NULL && call != NULL && call->stream != NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: call->stream is a host's, but %s is memory of a GPU: use a stream of it",
                          name, has_in && a.kind == PLAIT_MEMORY_DEVICE ? "in" : "out");
    const int device = q != NULL              ? plait_device_used()->device_of(q)
                       : comm->device != NULL ? comm->device->device
                                              : (has_in && a.kind == PLAIT_MEMORY_DEVICE ? a.device : b.device);
    if (has_in && (a.kind != PLAIT_MEMORY_DEVICE || a.device != device))
        return wrong_place(name, "in", in, &a, q != NULL ? "the stream needs device memory of its GPU" : "out is not");
    if (has_out && (b.kind != PLAIT_MEMORY_DEVICE || b.device != device))
        return wrong_place(name, "out", out, &b, q != NULL ? "the stream needs device memory of its GPU" : "in is not");
    if (comm->device != NULL && comm->device->device != device)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: the stream is of GPU %d, but this rank has used GPU %d with this comm: a rank "
                          "has one",
                          name, device, comm->device->device);
    status = check_call(name, call);
    if (status == PLAIT_OK && has_in)
        status = plait_device_aligned(name, ": in", in, size);
    if (status == PLAIT_OK && has_out)
        status = plait_device_aligned(name, ": out", out, size);
    if (status == PLAIT_OK && q != NULL)
        status = plait_device_check_capture(comm, name, q);
    if (status == PLAIT_OK && q == NULL)
        status = own_queue(comm, device, &q);
    if (status == PLAIT_OK)
        status = check_scale(name, call, size, q);
    if (status == PLAIT_OK && comm->device == NULL)
        status = plait_device_open(comm, device);
    if (status != PLAIT_OK)
        return status;
    *queue = q;
    return status;
}

enum plait_status plait_device_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a)
{
    pthread_mutex_lock(&comm->lock); /* its other operations may be in progress */
    status = plait_cannot_begin(comm, status, a);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* ---- Calls ---------------------------------------------------------------------------------------- */

bool plait_device_must_queue(const struct plait_comm *comm, const struct plait_call *call)
{
    return call == NULL || call->stream == NULL || call->request != NULL || plait_must_queue(comm, NULL);
}

enum plait_status plait_device_run(struct plait_comm *comm, const struct plait_args *a, const struct plait_sizes *sizes,
                                   const struct plait_call *call)
{
    struct plait_job job = { .o = comm->last, .in = a->in, .out = a->out, .queue = a->queue };

    if (sizes != NULL)
        job.sizes = *sizes;
    if (call != NULL) {
        job.scale = call->scale;
        job.late = call->scale_when == PLAIT_SCALE_LATE;
        job.deadline = call->deadline;
    }
    return plait_run_job(comm, &job);
}
