/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending collectives of a comm: one after the other, in the order of the calls. */
#include "request.h"

#include "device_request.h"
#include "engine/operate.h"
#include "failure/failure.h"

uint32_t plait_await_no_rank(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)context, (void)ranks, (void)most;
    return 0;
}

void plait_note_nothing(const void *context, uint64_t now)
{
    (void)context, (void)now;
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
    plait_device_marked_fail(comm, status);
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
        status = plait_device_marked_turn(comm, rarely, &moved);
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
