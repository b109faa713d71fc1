/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent requests: the same operation again and again. */
#include "call.h"

/* Why the request is busy, and the remedy; NULL: it is idle, or all of it is on its stream. */
static const char *busy(const struct plait_request *r)
{
    const enum plait_request_state state = plait_request_state(r);

    if (state == PLAIT_REQUEST_GROUPED)
        return "started in a group; call plait_group_end() first";
    return state >= PLAIT_REQUEST_QUEUED && !(r->on_stream && state >= PLAIT_REQUEST_ISSUED)
               ? "pending; wait for it first"
               : NULL;
}

static enum plait_status check_start(struct plait_request *r, const char *name)
{
    if (r == NULL || !r->persistent)
        return plait_fail(PLAIT_ERR_ARG, "%s: request is %s; make it with call->persistent", name,
                          r == NULL ? "NULL" : "not persistent");
    if (r->comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: the request's comm was destroyed", name);
    if (busy(r) != NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: the request is %s", name, busy(r));
    const enum plait_status status = plait_enter(r->comm, name, PLAIT_SUM, NULL);
    return status == PLAIT_OK && r->space->queued ? r->space->check_queue(r->comm, name, plait_request_queue(r))
                                                  : status;
}

/* held: its holder waits for its end, not this call. */
static enum plait_status start(struct plait_request *r, bool held)
{
    pthread_mutex_lock(&r->comm->lock);
    plait_request_withdraw(r); /* from its last start */
    r->held = held;
    return plait_request_launch(r);
}

enum plait_status plait_start(struct plait_request *r)
{
    const enum plait_status status = check_start(r, "plait_start");

    return status == PLAIT_OK ? start(r, true) : plait_refuse(status);
}

enum plait_status plait_run_again(struct plait_request *r)
{
    const enum plait_status status = check_start(r, "plait_run_again");

    if (status != PLAIT_OK)
        return plait_refuse(status);
    if (r->kind != PLAIT_REQUEST_COLLECTIVE || r->space->queued || plait_must_queue(r->comm, NULL))
        return start(r, false);
    atomic_store_explicit(&r->comm->inside, "plait_run_again", memory_order_relaxed);
    return plait_leave(r->comm, plait_run_job(r->comm, &r->job));
}

enum plait_status plait_request_free(struct plait_request **request)
{
    struct plait_request *r = request != NULL ? *request : NULL;

    if (r == NULL)
        return PLAIT_OK;
    if (r->generation != plait_generation) { /* the parent's request goes on */
        *request = NULL;
        return PLAIT_OK;
    }
    if (!r->persistent || busy(r) != NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_request_free: the request is %s",
                          !r->persistent ? "not persistent; wait for it" : busy(r));
    *request = NULL;
    if (r->comm != NULL && (r->kind == PLAIT_REQUEST_COLLECTIVE || r->on_stream)) {
        struct plait_comm *comm = r->comm;
        pthread_mutex_lock(&comm->lock);
        plait_request_withdraw(r);
        plait_requests_notify(comm);
        if (r->kind == PLAIT_REQUEST_COLLECTIVE)
            plait_unbind(r->job.o);
        pthread_mutex_unlock(&comm->lock);
    }
    plait_request_give_back(r);
    return PLAIT_OK;
}
