/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA streams that the caller has. */
#include "devices.h"

#include "base/fork.h"
#include "base/status.h"

#include <stdlib.h>

struct plait_stream {
    uint32_t generation; /* fork.h */
    struct plait_queue *queue;
};

static enum plait_status take_cuda(const char *name, int device, void *cuda, struct plait_stream **out)
{
    const struct plait_device_plugin *plugin;
    struct plait_stream *s;
    enum plait_status status;
    const char *why;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: out is NULL", name);
    status = plait_device_get(&plugin);
    if (status != PLAIT_OK)
        return status;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return plait_fail_memory("out of memory for a stream");
    s->generation = plait_generation;
    why = plugin->open_queue(PLAIT_QUEUE_THEIRS, cuda, device, &s->queue);
    if (why != NULL) {
        free(s);
        return plait_device_blame(name, device, plait_fail(PLAIT_ERR_ARG, "%s: cuda is %p: %s", name, cuda, why));
    }
    *out = s;
    return PLAIT_OK;
}

enum plait_status plait_stream_create_cuda(void *cuda, struct plait_stream **out)
{
    return take_cuda("plait_stream_create_cuda", -1, cuda, out);
}

enum plait_status plait_stream_create_cuda_on(int device, void *cuda, struct plait_stream **out)
{
    if (device < 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_create_cuda_on: device is %d; GPUs are 0 and more", device);
    return take_cuda("plait_stream_create_cuda_on", device, cuda, out);
}

/* given: the call's other argument, `what`, is not NULL. */
static enum plait_status check(const char *name, const struct plait_stream *s, const char *what, bool given)
{
    if (s == NULL || !given)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL", name, s == NULL ? "stream" : what);
    if (s->generation != plait_generation)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: the stream belongs to another process, of which this is a forked child; create one in "
                          "the child",
                          name);
    return PLAIT_OK;
}

enum plait_status plait_stream_queue(const char *call, const struct plait_stream *s, struct plait_queue **out)
{
    const enum plait_status status = s != NULL ? check(call, s, "", true) : PLAIT_OK;

    *out = s != NULL && status == PLAIT_OK ? s->queue : NULL;
    return status;
}

enum plait_status plait_stream_follow(struct plait_stream *s, struct plait_stream *other)
{
    struct plait_event *event = NULL;
    enum plait_status status = check("plait_stream_follow", s, "other", other != NULL);
    const char *why;

    if (status == PLAIT_OK)
        status = check("plait_stream_follow", other, "", true);
    if (status != PLAIT_OK)
        return status;
    const struct plait_device_plugin *plugin = plait_device_used();
    why = plugin->create_event(plugin->device_of(other->queue), &event);
    if (why == NULL)
        why = plugin->record_event(other->queue, event);
    if (why == NULL)
        why = plugin->wait_event(s->queue, event);
    status = plait_device_result("plait_stream_follow", why);
    plugin->destroy_event(event);
    return status;
}

enum plait_status plait_stream_captures(struct plait_stream *s, uint64_t *capture)
{
    enum plait_status status = check("plait_stream_captures", s, "capture", capture != NULL);
    uint64_t id = 0;

    if (status == PLAIT_OK)
        status = plait_device_result("plait_stream_captures", plait_device_used()->capturing(s->queue, &id));
    if (status == PLAIT_OK)
        *capture = id;
    return status;
}

enum plait_status plait_stream_synchronize(struct plait_stream *s)
{
    const enum plait_status status = check("plait_stream_synchronize", s, "", true);

    return status == PLAIT_OK ? plait_device_result("plait_stream_synchronize", plait_device_used()->drain(s->queue))
                              : status;
}

enum plait_status plait_stream_destroy(struct plait_stream *s)
{
    if (s == NULL || s->generation != plait_generation) /* the parent's stream goes on */
        return PLAIT_OK;
    plait_device_used()->close_queue(s->queue);
    free(s);
    return PLAIT_OK;
}
