/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending collectives of a comm: one after the other, in the order of the calls. */
#include "request.h"

#include "device_request.h"
#include "engine/operate.h"
#include "failure/failure.h"

#include <stdio.h>

/* ---- Held up by a host stream ---------------------------------------------------------------------------- */

uint32_t plait_request_blame_stream(const struct plait_comm *comm, const char *call, char *text, size_t room)
{
    snprintf(
        text, room,
        "rank %u waits for its own stream, which has not come to %s: a function there still runs, or waits for what "
        "this rank called later",
        comm->rank, call);
    return comm->rank + 1;
}

uint32_t plait_await_no_rank(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)context, (void)ranks, (void)most;
    return 0;
}

void plait_note_nothing(const void *context, uint64_t now)
{
    (void)context, (void)now;
}

/* The held-up operation is number comm->sequence + 1: ranks that have not done it are needed. */
static bool needs(const void *context, uint32_t rank)
{
    const struct plait_comm *comm = context;

    return rank != comm->rank &&
           atomic_load_explicit(&comm->peers[rank].control->done, memory_order_acquire) <= comm->sequence;
}

static uint32_t blame_stream(const void *context, char *text, size_t room)
{
    const struct plait_comm *comm = context;
    const struct plait_op_plan *o = comm->first->job.o;
    char call[64];

    snprintf(call, sizeof call, "%s%s #%llu", plait_coll_name(o->coll), o->sized ? "v" : "",
             (unsigned long long)comm->sequence + 1);
    return plait_request_blame_stream(comm, call, text, room);
}

void plait_requests_prepare(struct plait_comm *comm)
{
    static const struct plait_wait_kind for_stream = { needs, blame_stream, plait_note_nothing };

    plait_wait_init(&comm->run->held, &for_stream, plait_await_no_rank, comm);
}

/* The first collective waits for its host stream. */
static enum plait_status wait_for_stream(struct plait_comm *comm, bool rarely)
{
    struct plait_wait *w = &comm->run->held;
    const struct plait_request *held = plait_request_held_up(comm->first);

    if (held == NULL) {
        plait_wait_progress(comm, w);
        return PLAIT_OK;
    }
    w->detector.limit = held->job.deadline;
    return plait_wait_poll(comm, w, rarely);
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
    plait_device_issued_fail(comm, status);
    comm->drive->fail_messages(comm, status);
}

/* One turn of the first collective. *ended: all of it is done. */
static enum plait_status turn_first(struct plait_comm *comm, bool rarely, bool *moved, bool *ended)
{
    enum plait_status status = PLAIT_OK;
    bool turned = false;

    *ended = false;
    if (!plait_requests_run(comm)) {
        if (plait_request_state(comm->first) == PLAIT_REQUEST_HELD)
            return wait_for_stream(comm, rarely);
        plait_wait_progress(comm, &comm->run->held);
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
        status = plait_device_issued_turn(comm, rarely, &moved);
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
