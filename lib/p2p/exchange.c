/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking messages, alone or in a group of nothing else, while nothing is pending in this process. Their caller gives
 * them their first turns, without the comm's lock and the list of active comms. Those that have not ended after a spin
 * become pending like any others.
 */
#include "message.h"

#include "progress/progress.h"

/* Queue all and, unless a network has to be polled too, spin for their ends, in whatever order they come. */
static void run(struct plait_comm *comm, struct plait_request *first)
{
    const uint32_t spins = comm->port == NULL ? plait_spins(comm) + 1 : 0;
    struct plait_request *r;

    for (r = first; r != NULL; r = r->next_of_group) {
        plait_request_set_state(r, PLAIT_REQUEST_QUEUED);
        plait_message_begin(r);
    }
    for (uint32_t turns = 0; turns < spins; turns++) {
        if (turns > 0)
            plait_pause();
        if (plait_messages_turn(comm, false))
            turns = 0;
        for (r = first; r != NULL && plait_request_has_ended(r);)
            r = r->next_of_group;
        if (r == NULL)
            return;
    }
}

/* Those that have not ended become pending, and every waiting thread drives them. */
static void make_pending(struct plait_comm *comm, const struct plait_request *first)
{
    uint32_t n = 0;

    for (const struct plait_request *r = first; r != NULL; r = r->next_of_group)
        n += !plait_request_has_ended(r);
    if (n == 0)
        return;
    atomic_fetch_add_explicit(&comm->pending, n, memory_order_relaxed);
    plait_progress_add(comm);
    plait_progress_wake();
}

bool plait_exchange_group(struct plait_request *first)
{
    struct plait_comm *comm = first != NULL ? first->comm : NULL;

    if (first == NULL || atomic_load_explicit(&plait_nactive, memory_order_relaxed) > 0)
        return false;
    for (const struct plait_request *r = first; r != NULL; r = r->next_of_group)
        if (r->held || r->kind == PLAIT_REQUEST_COLLECTIVE || r->comm != comm || r->space->queued)
            return false;
    if (atomic_load_explicit(&comm->pending, memory_order_acquire) > 0)
        return false;
    run(comm, first);
    make_pending(comm, first);
    return true;
}

enum plait_status plait_exchange_call(struct plait_request *r)
{
    if (plait_in_group()) {
        plait_group_add(r);
        return PLAIT_OK;
    }
    r->next_of_group = NULL;
    if (!plait_exchange_group(r)) {
        pthread_mutex_lock(&r->comm->lock);
        return plait_request_launch(r);
    }
    return plait_request_has_ended(r) ? plait_request_take(&r) : plait_wait(&r);
}
