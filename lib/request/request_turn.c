/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of a comm's pending collectives, and of requests that wait for their events on a device queue. */
#include "request.h"

#include "device/device_comm.h"
#include "engine/operate.h"
#include "failure/failure.h"
#include "memory/devices.h"
#include "progress/progress.h"

#include <stdio.h>

/* ---- Waiting for no rank, but for what is on the queue --------------------------------------------------------- */

uint32_t plait_await_no_rank(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)context, (void)ranks, (void)most;
    return 0;
}

void plait_note_nothing(const void *context, uint64_t now)
{
    (void)context, (void)now;
}

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

/* ---- Marks --------------------------------------------------------------------------------------------------- */

bool plait_request_record(struct plait_request *r)
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
    if (d->issued == NULL)
        plait_wait_progress(comm, wait_of(d));
    plait_request_append(&d->issued, &d->issued_end, r);
    plait_request_set_state(r, PLAIT_REQUEST_ISSUED);
    plait_progress_news();
    return true;
}

static bool is_issued(void *r)
{
    return plait_request_state(r) >= PLAIT_REQUEST_ISSUED;
}

void plait_request_await_issued(struct plait_request *r)
{
    plait_progress_until(is_issued, plait_request_interrupt, r, r->spins);
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

void plait_request_withdraw(struct plait_request *r)
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
static enum plait_status turn_issued(struct plait_comm *comm, bool rarely, bool *moved)
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

/* ---- Turns ---------------------------------------------------------------------------------------------- */

static void end_first(struct plait_comm *comm, enum plait_status status)
{
    struct plait_request *r = comm->first;

    comm->first = r->next;
    plait_request_end(r, status);
}

void plait_requests_fail(struct plait_comm *comm, enum plait_status status)
{
    plait_device_rest(comm);
    while (comm->first != NULL)
        end_first(comm, status);
    while (comm->device != NULL && comm->device->issued != NULL)
        end_issued(comm, status);
    comm->drive->fail_messages(comm, status);
}

/* One turn of the first collective. *ended: all of it is done. */
static enum plait_status turn_first(struct plait_comm *comm, bool rarely, bool *moved, bool *ended)
{
    enum plait_status status = PLAIT_OK;
    bool turned = false;

    *ended = false;
    if (!plait_requests_run(comm)) {
        plait_request_set_state(comm->first, PLAIT_REQUEST_RUNNING);
        *moved = true;
        status = plait_run_begin(comm, &comm->first->job);
    }
    if (status == PLAIT_OK)
        status = plait_run_turn(comm, &turned, ended);
    if (status == PLAIT_OK && !turned && !*ended)
        return plait_wait_poll(comm, &comm->run->wait, rarely);
    plait_wait_progress(comm, &comm->run->wait);
    *moved = true;
    return status;
}

bool plait_requests_turn(struct plait_comm *comm, bool rarely)
{
    enum plait_status status = plait_has_failed(comm) ? plait_probe_failures(comm) : PLAIT_OK;
    bool moved = false, ended = true;

    while (status == PLAIT_OK && comm->first != NULL && ended) {
        status = turn_first(comm, rarely, &moved, &ended);
        if (status == PLAIT_OK && ended)
            end_first(comm, PLAIT_OK);
    }
    if (status == PLAIT_OK)
        status = turn_issued(comm, rarely, &moved);
    if (status == PLAIT_OK)
        return moved;
    plait_requests_fail(comm, status);
    return true;
}

uint32_t plait_requests_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most)
{
    const struct plait_wait *w = &comm->run->wait;
    return plait_requests_run(comm) ? w->detector.awaited(w->detector.context, ranks, most) : 0;
}
