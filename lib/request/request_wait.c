/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for requests. */
#include "request.h"

#include "base/fork.h"
#include "base/status.h"
#include "progress/progress.h"

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

/* A test is no steady poll: it probes for failures each time. */
static void drive(struct plait_request *r)
{
    plait_progress();
    struct plait_comm *comm = plait_request_has_ended(r) ? NULL : plait_request_lock(r);
    if (comm == NULL)
        return;
    if (!plait_request_has_ended(r))
        comm->drive->turn(comm, true);
    pthread_mutex_unlock(&comm->lock);
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
        drive(r);
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
