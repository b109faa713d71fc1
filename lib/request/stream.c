/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include "base/fork.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "base/thread.h"
#include "memory/devices.h"
#include "progress/progress.h"
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct plait_stream {
    uint32_t generation;       /* fork.h */
    struct plait_queue *queue; /* of a device: the members below are unused; else NULL */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    struct plait_item *first, **end;
    struct plait_request *current; /* the stream's thread waits for it */
    bool busy, stop;
    enum plait_status status; /* the first error since the last synchronize */
    char text[512];
};

static void push(struct plait_stream *s, struct plait_item *item)
{
    item->next = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->first == NULL)
        s->end = &s->first;
    *s->end = item;
    s->end = &item->next;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

void plait_stream_add(struct plait_request *r)
{
    r->item.request = r;
    push(r->stream, &r->item);
}

static void set_current(struct plait_stream *s, struct plait_request *r)
{
    pthread_mutex_lock(&s->lock);
    s->current = r;
    pthread_mutex_unlock(&s->lock);
}

static enum plait_status run_request(struct plait_stream *s, struct plait_request *r)
{
    set_current(s, r);
    plait_request_reach(r);
    plait_request_await(r);
    set_current(s, NULL);
    return plait_request_pass(r);
}

static void *work(void *arg)
{
    struct plait_stream *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->first == NULL && !s->stop)
            pthread_cond_wait(&s->more, &s->lock);
        if (s->first == NULL)
            break;
        struct plait_item *item = s->first;
        enum plait_status status = PLAIT_OK;
        s->first = item->next;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        if (item->request != NULL) {
            status = run_request(s, item->request);
        } else {
            item->function(item->context);
            free(item);
        }
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        if (status != PLAIT_OK && s->status == PLAIT_OK) {
            s->status = status;
            snprintf(s->text, sizeof s->text, "%s", plait_last_error());
        }
        if (s->first == NULL)
            pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum plait_status plait_stream_create(struct plait_stream **out)
{
    struct plait_stream *s;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_create: out is NULL");
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return plait_fail_memory("out of memory for a stream");
    s->generation = plait_generation;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->idle, NULL);
    const int error = plait_thread_start(&s->thread, work, s);
    if (error != 0) {
        free(s);
        return plait_fail_errno(error, "cannot start a stream's thread");
    }
    *out = s;
    return PLAIT_OK;
}

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
        return plait_fail(PLAIT_ERR_ARG, "%s: cuda is %p: %s", name, cuda, why);
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

enum plait_status plait_stream_check(const char *name, const struct plait_call *call)
{
    if (call->request == NULL || call->stream == NULL || call->persistent || plait_stream_queue(call->stream) != NULL)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG,
                      "%s: call->request and call->stream, a host's, are both set; wait for one of them, not for both",
                      name);
}

struct plait_queue *plait_stream_queue(const struct plait_stream *s)
{
    return s->generation == plait_generation ? s->queue : NULL;
}

/* Refuse NULL, and a parent's stream in a forked child: the child has none of the parent's threads. */
static enum plait_status check(const struct plait_stream *s, const char *name)
{
    if (s == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: stream is NULL", name);
    if (s->generation != plait_generation)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: the stream belongs to another process, of which this is a forked child; create one in "
                          "the child",
                          name);
    return PLAIT_OK;
}

enum plait_status plait_stream_follow(struct plait_stream *s, struct plait_stream *other)
{
    struct plait_event *event = NULL;
    enum plait_status status = check(s, "plait_stream_follow");
    const char *why;

    if (status == PLAIT_OK)
        status = check(other, "plait_stream_follow");
    if (status != PLAIT_OK)
        return status;
    if (s->queue == NULL || other->queue == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_follow: %s is a host's stream; both must be CUDA's",
                          s->queue == NULL ? "stream" : "other");
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
    enum plait_status status = check(s, "plait_stream_captures");
    uint64_t id = 0;

    if (status == PLAIT_OK && capture == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "plait_stream_captures: capture is NULL");
    if (status == PLAIT_OK && s->queue != NULL)
        status = plait_device_result("plait_stream_captures", plait_device_used()->capturing(s->queue, &id));
    if (status == PLAIT_OK)
        *capture = id;
    return status;
}

enum plait_status plait_stream_call(struct plait_stream *s, void (*function)(void *context), void *context)
{
    const enum plait_status status = check(s, "plait_stream_call");
    struct plait_item *item;

    if (status != PLAIT_OK)
        return status;
    if (function == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_call: function is NULL");
    if (s->queue != NULL)
        return plait_device_result("plait_stream_call", plait_device_used()->call(s->queue, function, context));
    item = calloc(1, sizeof *item);
    if (item == NULL)
        return plait_fail_memory("out of memory for a call on a stream");
    item->function = function;
    item->context = context;
    push(s, item);
    return PLAIT_OK;
}

/* Fail the comms of all requests on the stream. */
static enum plait_status interrupt(struct plait_stream *s)
{
    if (s->current != NULL)
        plait_request_interrupt(s->current);
    for (struct plait_item *i = s->first; i != NULL; i = i->next)
        if (i->request != NULL)
            plait_request_interrupt(i->request);
    return plait_fail(PLAIT_ERR_FAILED, "plait_stream_synchronize: " PLAIT_INTERRUPTED);
}

/* Wait until the stream may be idle; 0.1 s at most, as the caller then looks for interrupts. */
static void wait_a_little(struct plait_stream *s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&s->idle, &s->lock, &until);
}

enum plait_status plait_stream_synchronize(struct plait_stream *s)
{
    enum plait_status status = check(s, "plait_stream_synchronize");

    if (status != PLAIT_OK)
        return status;
    if (s->queue != NULL)
        return plait_device_result("plait_stream_synchronize", plait_device_used()->drain(s->queue));
    if (pthread_equal(pthread_self(), s->thread))
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_synchronize: a function on the stream cannot wait for its end");
    pthread_mutex_lock(&s->lock);
    while (status == PLAIT_OK && (s->first != NULL || s->busy)) {
        wait_a_little(s);
        if ((s->first != NULL || s->busy) && plait_interrupted())
            status = interrupt(s);
    }
    if (status != PLAIT_OK) {
        pthread_mutex_unlock(&s->lock);
        return status;
    }
    status = s->status;
    if (status != PLAIT_OK)
        plait_fail(status, "%s", s->text);
    s->status = PLAIT_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum plait_status plait_stream_query(struct plait_stream *s, int *done)
{
    const enum plait_status status = check(s, "plait_stream_query");

    if (status != PLAIT_OK)
        return status;
    if (done == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_query: done is NULL");
    if (s->queue != NULL) {
        bool passed = false;
        const char *why = plait_device_used()->query(s->queue, &passed);
        *done = passed;
        return plait_device_result("plait_stream_query", why);
    }
    pthread_mutex_lock(&s->lock);
    *done = s->first == NULL && !s->busy;
    pthread_mutex_unlock(&s->lock);
    return PLAIT_OK;
}

enum plait_status plait_stream_destroy(struct plait_stream *s)
{
    enum plait_status status;

    if (s == NULL || s->generation != plait_generation) /* the parent's stream goes on */
        return PLAIT_OK;
    if (s->queue != NULL) {
        plait_device_used()->close_queue(s->queue);
        free(s);
        return PLAIT_OK;
    }
    if (pthread_equal(pthread_self(), s->thread))
        return plait_fail(PLAIT_ERR_ARG, "plait_stream_destroy: a function on the stream cannot wait for its end");
    status = plait_stream_synchronize(s);
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->idle);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return status;
}
