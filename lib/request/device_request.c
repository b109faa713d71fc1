/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_request.h"

#include "failure/failure.h"
#include "memory/devices.h"
#include "progress/progress.h"

#include <stdio.h>

/* ---- Waiting: for no rank, but for what is on the queue ------------------------------------------------------ */

/* device_watch.c sees ranks that died or failed, and ends the queue work that waits for them. */
static bool needs(const void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return false;
}

static uint32_t blame(const void *context, char *text, size_t room)
{
    const struct plait_device_comm *d = context;

    snprintf(text, room, "what was put on a stream of GPU %d has not happened there: it, or what comes before it",
             d->device);
    return 0;
}

static const struct plait_wait_kind for_event = { needs, blame, plait_note_nothing };

static struct plait_wait *wait_of(struct plait_device_comm *d)
{
    if (d->wait.detector.kind == NULL)
        plait_wait_init(&d->wait, &for_event, plait_await_no_rank, d);
    return &d->wait;
}

enum plait_status plait_device_glance(struct plait_comm *comm, double limit, bool moved, bool rarely)
{
    struct plait_wait *w = wait_of(comm->device);

    w->detector.limit = limit;
    if (!moved)
        return plait_wait_poll(comm, w, rarely);
    plait_wait_progress(comm, w);
    return PLAIT_OK;
}

/* ---- Events --------------------------------------------------------------------------------------------------- */

bool plait_device_record(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;
    struct plait_device_comm *d = comm->device;
    uint64_t capture = 0;
    const char *why = d->plugin->capturing(r->queue, &capture);

    if (why == NULL && capture != 0)
        return false;
    if (why == NULL && r->event == NULL)
        why = d->plugin->create_event(d->device, &r->event);
    if (why == NULL)
        why = d->plugin->record_event(r->queue, r->event);
    plait_device_note(comm, why);
    if (d->issued == NULL) {
        d->issued_end = &d->issued;
        plait_wait_progress(comm, wait_of(d));
    }
    r->next = NULL;
    *d->issued_end = r;
    d->issued_end = &r->next;
    plait_request_set_state(r, PLAIT_REQUEST_ISSUED);
    plait_progress_news();
    return true;
}

static bool is_issued(void *r)
{
    return plait_request_state(r) >= PLAIT_REQUEST_ISSUED;
}

static void interrupt(void *r)
{
    plait_request_interrupt(r);
}

void plait_request_await_issued(struct plait_request *r)
{
    plait_progress_until(is_issued, interrupt, r, r->spins);
}

static void remove_issued(struct plait_device_comm *d, struct plait_request *r)
{
    struct plait_request **at = &d->issued;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (r->next == NULL)
        d->issued_end = at;
}

void plait_device_withdraw(struct plait_request *r)
{
    if (plait_request_state(r) != PLAIT_REQUEST_ISSUED)
        return;
    remove_issued(r->comm->device, r);
    plait_request_set_state(r, PLAIT_REQUEST_IDLE);
    r->comm->ncompleted++;
}

static void end_issued(struct plait_comm *comm, enum plait_status status)
{
    struct plait_request *r = comm->device->issued;

    remove_issued(comm->device, r);
    plait_request_end(r, status);
}

/* Operations of a comm are ordered across its queues: events are done in the order of the list. */
enum plait_status plait_device_issued_turn(struct plait_comm *comm, bool rarely, bool *moved)
{
    struct plait_device_comm *d = comm->device;
    enum plait_status status = PLAIT_OK;
    bool some = false;

    if (d == NULL || d->issued == NULL)
        return PLAIT_OK;
    for (bool passed = true; d->issued != NULL; some = true) {
        if (plait_device_works(comm))
            plait_device_note(comm, d->plugin->event_done(d->issued->event, &passed));
        if (!plait_device_works(comm))
            return plait_device_status(comm);
        if (!passed)
            break;
        status = plait_probe_failures(comm); /* a failure also lets the queues pass, without data */
        if (status != PLAIT_OK)
            return status;
        end_issued(comm, PLAIT_OK);
    }
    *moved |= some;
    if (d->issued == NULL)
        return PLAIT_OK;
    const struct plait_request *first = d->issued;
    return plait_device_glance(
        comm, first->kind == PLAIT_REQUEST_COLLECTIVE ? first->job.deadline : first->message.deadline, some, rarely);
}

void plait_device_issued_fail(struct plait_comm *comm, enum plait_status status)
{
    while (comm->device != NULL && comm->device->issued != NULL)
        end_issued(comm, status);
}

void plait_device_drop_event(struct plait_request *r)
{
    if (r->event != NULL)
        plait_device_used()->destroy_event(r->event);
    r->event = NULL;
}
