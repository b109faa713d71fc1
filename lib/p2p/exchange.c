/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include "base/status.h"
#include "comm/port.h"
#include "failure/failure.h"
#include "message.h"
#include "progress/progress.h"
#include "progress/wait.h"
#include "reduce/reduce.h"
#include "request/group.h"

#include <plait/request.h>

#include <errno.h>
#include <sched.h>

/* Yields before the messages become pending; on a shared processor the awaited rank runs meanwhile. */
#define YIELDS 100
/* Idle turns before the first yield on a shared processor: more only delay the other rank. */
#define SPINS_SHARED 1

/* After a turn without progress: pause if `spins`, else yield. */
static void idle(struct plait_comm *comm, bool spins)
{
    const int saved = errno;

    if (spins) {
        plait_pause();
        return;
    }
    comm->stats.yields++;
    plait_give_way(comm);
    errno = saved;
}

/* The rest takes long: it becomes pending, and every waiting thread drives it. */
static void give_up(struct plait_comm *comm, uint32_t left)
{
    atomic_fetch_add_explicit(&comm->pending, left, memory_order_relaxed);
    plait_progress_add(comm);
    plait_progress_news();
}

/* Turns without progress before a yield, where ranks share processors. */
static uint32_t spins_shared(const struct plait_comm *comm, const struct plait_request *first)
{
    bool apart = comm->port == NULL; /* over a network a turn is a system call */

    for (const struct plait_request *r = first; r != NULL && apart; r = r->next_of_group) {
        const struct plait_letter *m = &r->letter;
        const bool few = r->kind == PLAIT_REQUEST_RECV && m->bytes <= PLAIT_MESSAGE_SMALL;
        apart = plait_request_has_ended(r) || (few && plait_is_apart(comm, m->peer));
    }
    return apart && !plait_neighbour_waits(comm) ? comm->apart : SPINS_SHARED;
}

static void begin(struct plait_request *r)
{
    plait_request_enter(r);
    plait_message_enter(r);
}

/* Offer all sends. One that cannot go at once is queued; then this returns false, and all receives are queued too. */
static bool send_now(struct plait_request *first)
{
    bool all = true;

    for (struct plait_request *r = first; r != NULL; r = r->next_of_group) {
        if (r->kind != PLAIT_REQUEST_SEND)
            continue;
        begin(r);
        if (plait_message_passes(r) && plait_message_send_now(r))
            continue;
        plait_message_queue(r);
        all = false;
    }
    return all;
}

/* Take messages that come soon, in call order, without a queue; queue the rest. Returns the turns without progress. */
static uint32_t take_now(struct plait_request *first, bool waits, uint32_t spins)
{
    uint32_t turns = 0;

    for (struct plait_request *r = first; r != NULL; r = r->next_of_group) {
        if (r->kind != PLAIT_REQUEST_RECV)
            continue;
        begin(r);
        waits = waits && plait_message_passes(r);
        turns = waits ? 0 : turns;
        for (; waits && !plait_message_take_now(r); turns++) {
            waits = turns < spins;
            plait_pause();
        }
        if (!waits)
            plait_message_queue(r);
    }
    return turns;
}

static uint32_t count_pending(const struct plait_request *first)
{
    uint32_t n = 0;

    for (const struct plait_request *r = first; r != NULL; r = r->next_of_group)
        n += !plait_request_has_ended(r);
    return n;
}

/* Run the queued messages. spins: idle turns before a yield; turns: idle turns so far. Returns how many are left. */
static uint32_t run_queued(struct plait_comm *comm, const struct plait_request *first, uint32_t left, uint32_t spins,
                           uint32_t turns)
{
    const uint32_t environment = plait_fpenv_enter();        /* waits use doubles */
    const uint32_t yields = comm->port == NULL ? YIELDS : 0; /* over a network it sleeps */
    const bool shared = plait_spins(comm) <= PLAIT_SPINS_SHARED;

    for (; left > 0 && turns <= spins + yields; turns++) {
        plait_network_turn(comm);
        if (plait_messages_turn(comm, false)) {
            turns = 0;
        } else {
            if (shared && turns == SPINS_SHARED)
                spins = spins_shared(comm, first);
            idle(comm, turns < spins);
        }
        left = count_pending(first);
    }
    plait_fpenv_leave(environment);
    return left;
}

static void run(struct plait_request *first)
{
    struct plait_comm *comm = first->comm;
    const bool shared = plait_spins(comm) <= PLAIT_SPINS_SHARED;
    const uint32_t spins = shared ? SPINS_SHARED : plait_spins(comm);

    if (comm->apart > 0)
        plait_tell_processor(comm);
    const bool waits = send_now(first);
    const uint32_t turns = take_now(first, waits, shared ? 0 : spins);
    uint32_t left = count_pending(first);
    if (left > 0)
        left = run_queued(comm, first, left, spins, shared ? 0 : turns);
    plait_is_back(comm);
    if (left > 0)
        give_up(comm, left);
}

bool plait_exchange_group(struct plait_request *first)
{
    if (first == NULL || atomic_load_explicit(&plait_nactive, memory_order_relaxed) > 0)
        return false;
    for (const struct plait_request *r = first; r != NULL; r = r->next_of_group)
        if (r->taker != PLAIT_TAKER_CALL || r->kind == PLAIT_REQUEST_COLLECTIVE || r->comm != first->comm ||
            r->queue != NULL)
            return false;
    if (atomic_load_explicit(&first->comm->pending, memory_order_acquire) > 0)
        return false;
    run(first);
    return true;
}

enum plait_status plait_exchange_call(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;

    if (plait_in_group()) {
        plait_group_add(r);
        return PLAIT_OK;
    }
    r->next_of_group = NULL;
    if (!plait_exchange_group(r)) {
        pthread_mutex_lock(&comm->lock);
        plait_request_run(r);
    }
    return plait_request_has_ended(r) ? plait_request_take(&r) : plait_wait(&r);
}
