/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of a comm's pending collectives, and of requests that wait for their work on a queue; waiting for requests. */
#include "request.h"

#include "base/fork.h"
#include "base/status.h"
#include "engine/operate.h"
#include "failure/failure.h"
#include "progress/progress.h"

#include <stdio.h>

/* ---- Waiting for what is on a queue ---------------------------------------------------------------------------- */

static uint32_t blame(const void *context, char *text, size_t room)
{
    (void)context;
    snprintf(text, room, "work on a stream has not finished: this operation, or earlier work on that stream");
    return 0;
}

/* It needs no rank: the space sees ranks that died or failed, and ends the work that waits for them. */
static const struct plait_wait_kind for_queue = { .blame = blame };

void plait_queue_wait_init(struct plait_comm *comm, struct plait_wait *w)
{
    plait_wait_init(w, &for_queue, comm);
}

/* ---- Marks ---------------------------------------------------------------------------------------------------- */

bool plait_request_mark(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;

    if (!r->space->mark(comm, plait_request_queue(r), &r->mark))
        return false;
    if (comm->issued == NULL) {
        plait_queue_wait_init(comm, &comm->run->queue_wait);
        plait_wait_progress(comm, &comm->run->queue_wait);
    }
    plait_request_append(&comm->issued, &comm->issued_end, r);
    plait_request_set_state(r, PLAIT_REQUEST_ISSUED);
    plait_progress_wake();
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

static void remove_issued(struct plait_request *r)
{
    struct plait_request **at = &r->comm->issued;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (r->next == NULL)
        r->comm->issued_end = at;
}

void plait_request_withdraw(struct plait_request *r)
{
    if (plait_request_state(r) != PLAIT_REQUEST_ISSUED)
        return;
    remove_issued(r);
    plait_request_set_state(r, PLAIT_REQUEST_IDLE);
    r->comm->ncompleted++;
}

static void end_issued(struct plait_comm *comm, enum plait_status status)
{
    struct plait_request *r = comm->issued;

    remove_issued(r);
    plait_request_end(r, status);
}

/* Operations of a comm are ordered across its queues: marks are passed in the order of the list. */
static enum plait_status turn_issued(struct plait_comm *comm, bool rarely, bool *moved)
{
    bool some = false;

    if (comm->issued == NULL)
        return PLAIT_OK;
    for (struct plait_request *r; (r = comm->issued) != NULL; some = true) {
        const bool passed = r->space->has_passed(comm, r->mark);
        enum plait_status status = r->space->poll(comm);
        if (status == PLAIT_OK && !passed)
            break;
        if (status == PLAIT_OK)
            status = plait_probe_failures(comm); /* a failure also lets the queues pass, without data */
        if (status != PLAIT_OK)
            return status;
        end_issued(comm, PLAIT_OK);
    }
    *moved |= some;
    const struct plait_request *first = comm->issued;
    if (first == NULL)
        return PLAIT_OK;
    comm->run->queue_wait.detector.limit =
        first->kind == PLAIT_REQUEST_COLLECTIVE ? first->job.deadline : first->message.deadline;
    return plait_wait_poll(comm, &comm->run->queue_wait, some, rarely);
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
    if (comm->run->space != NULL) /* of the operation in progress */
        comm->run->space->end(comm);
    while (comm->first != NULL)
        end_first(comm, status);
    while (comm->issued != NULL)
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
    turned |= *ended || status != PLAIT_OK;
    *moved |= turned;
    const enum plait_status polled = plait_wait_poll(comm, &comm->run->wait, turned, rarely);
    return status == PLAIT_OK ? polled : status;
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
    return plait_requests_run(comm) ? plait_detector_awaited(&comm->run->wait.detector, ranks, most) : 0;
}

/* ---- Waiting for requests ------------------------------------------------------------------------------- */

/* May this thread test or wait for *request? */
static enum plait_status check(struct plait_request *const *request, const char *name)
{
    if (request == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: request is NULL", name);
    if (*request != NULL && (*request)->generation != plait_generation)
        return plait_fail(PLAIT_ERR_ARG, "%s: the request belongs to another process, of which this is a forked child",
                          name);
    if (*request != NULL && plait_request_state(*request) == PLAIT_REQUEST_GROUPED)
        return plait_fail(PLAIT_ERR_ARG, "%s: the request's group has not ended; call plait_group_end() first", name);
    return PLAIT_OK;
}

enum plait_status plait_test(struct plait_request **request, int *done)
{
    const enum plait_status status = check(request, "plait_test");

    if (status != PLAIT_OK)
        return status;
    if (done == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_test: done is NULL");
    struct plait_request *r = *request;
    *done = 1;
    if (r == NULL || plait_request_state(r) == PLAIT_REQUEST_IDLE)
        return PLAIT_OK;
    if (!plait_request_has_ended(r))
        plait_progress_rarely();
    *done = plait_request_has_ended(r);
    return *done ? plait_request_take(request) : PLAIT_OK;
}

enum plait_status plait_wait(struct plait_request **request)
{
    const enum plait_status status = check(request, "plait_wait");
    size_t index;

    return status == PLAIT_OK ? plait_wait_any(request, 1, &index) : status;
}

struct several { /* requests of which one is waited for */
    struct plait_request *const *requests;
    size_t n, index; /* which has ended; n: none has */
};

/* One has ended, or none is started. */
static bool find_ended(void *several)
{
    struct several *s = several;
    bool some = false;

    s->index = s->n;
    for (size_t i = 0; i < s->n; i++) {
        struct plait_request *r = s->requests[i];
        const enum plait_request_state state = r != NULL ? plait_request_state(r) : PLAIT_REQUEST_IDLE;
        if (state == PLAIT_REQUEST_IDLE)
            continue;
        some = true;
        if (state == PLAIT_REQUEST_ENDED) {
            s->index = i;
            return true;
        }
    }
    return !some;
}

static void interrupt(void *several)
{
    const struct several *s = several;

    for (size_t i = 0; i < s->n; i++)
        if (s->requests[i] != NULL && plait_request_state(s->requests[i]) != PLAIT_REQUEST_IDLE)
            plait_request_interrupt(s->requests[i]);
}

enum plait_status plait_wait_any(struct plait_request **requests, size_t n, size_t *index)
{
    struct several s = { requests, n, n };
    enum plait_status status = PLAIT_OK;
    uint32_t spins = 0;

    if (index == NULL || (requests == NULL && n > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_wait_any: %s is NULL", index == NULL ? "index" : "requests");
    for (size_t i = 0; i < n && status == PLAIT_OK; i++)
        status = check(&requests[i], "plait_wait_any");
    if (status != PLAIT_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        if (requests[i] != NULL && plait_request_state(requests[i]) != PLAIT_REQUEST_IDLE)
            spins = requests[i]->spins;
    plait_progress_until(find_ended, interrupt, &s, spins);
    *index = s.index;
    return *index < n ? plait_request_take(&requests[*index]) : PLAIT_OK;
}

enum plait_status plait_wait_all(struct plait_request **requests, size_t n)
{
    struct plait_error first;

    first.status = PLAIT_OK;
    if (requests == NULL && n > 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_wait_all: requests is NULL");
    for (size_t i = 0; i < n; i++) {
        const enum plait_status status = plait_wait(&requests[i]);
        if (status != PLAIT_OK && first.status == PLAIT_OK)
            first = plait_error_of(status);
    }
    return plait_restore_error(&first);
}
