/* SPDX-License-Identifier: BSD-3-Clause */
#include "object.h"

#include "base/interrupt.h"
#include "call.h"

#include <stdio.h>
#include <stdlib.h>

struct plait_ownership {
    struct plait_owner owner; /* the comm's hooks; the first member */
    const struct plait_owned *does;
    void *object;
    struct plait_comm *comm;
    struct plait_wait wait;       /* for this rank's own part */
    struct plait_wait queue_wait; /* for its work on a queue */
};

/* ---- A turn ------------------------------------------------------------------------------------------------ */

static bool turn(struct plait_owner *self, bool rarely)
{
    struct plait_ownership *o = (struct plait_ownership *)self;
    enum plait_awaits awaits = PLAIT_AWAITS_RANKS;
    const bool moved = o->does->turn(o->object, &awaits);

    if (plait_has_failed(o->comm))
        return moved;
    enum plait_status status = PLAIT_OK;
    for (unsigned i = 0; plait_spaces[i] != NULL && status == PLAIT_OK; i++)
        status = plait_spaces[i]->poll(o->comm);
    if (status == PLAIT_OK && awaits == PLAIT_AWAITS_DEVICE)
        status = plait_request_wait_turn(o->comm, &o->queue_wait, 0, moved, rarely);
    if (status == PLAIT_OK)
        status = plait_request_wait_turn(o->comm, &o->wait, 0, moved || awaits != PLAIT_AWAITS_SELF, rarely);
    if (status != PLAIT_OK)
        plait_requests_fail(o->comm, status);
    return moved || status != PLAIT_OK;
}

/* ---- The wait for this rank's own part --------------------------------------------------------------------- */

static uint32_t blame(const void *context, char *text, size_t room)
{
    const struct plait_ownership *o = context;
    const int n = snprintf(text, room, "rank %u: ", o->comm->rank);

    o->does->blame(o->object, text + n, room - (size_t)n);
    return o->comm->rank + 1;
}

static bool everybody(const void *context, uint32_t rank)
{
    return rank != ((const struct plait_ownership *)context)->comm->rank;
}

/* This rank is in no operation: other ranks ask the object instead. */
static const struct plait_wait_kind for_own_part = { everybody, blame, NULL };

/* ---- Life -------------------------------------------------------------------------------------------------- */

struct plait_ownership *plait_ownership_create(const struct plait_owned *does, void *object)
{
    struct plait_ownership *o = calloc(1, sizeof *o);

    if (o != NULL)
        *o = (struct plait_ownership){ { does->whose, turn, does->excuse, object }, .does = does, .object = object };
    return o;
}

void plait_ownership_begin(struct plait_ownership *o, struct plait_comm *comm)
{
    o->comm = comm;
    plait_wait_init(&o->wait, &for_own_part, plait_await_no_rank, o);
    plait_queue_wait_init(comm, &o->queue_wait);
    plait_object_lock(comm);
    comm->owner = &o->owner;
    plait_object_unlock(comm);
}

/* ---- Other threads ----------------------------------------------------------------------------------------- */

void plait_owner_pends(struct plait_comm *comm)
{
    atomic_fetch_add(&comm->pending, 1);
    plait_progress_add(comm);
}

void plait_owner_wake(void)
{
    plait_progress_wake();
}

struct awaited {
    struct plait_comm *comm;
    bool (*over)(const void *self);
    const void *self;
};

static bool is_over(void *awaited)
{
    const struct awaited *a = awaited;

    return a->over(a->self) || plait_has_failed(a->comm);
}

static void interrupt(void *awaited)
{
    plait_comm_announce_abort(((const struct awaited *)awaited)->comm, PLAIT_INTERRUPTED, false);
}

enum plait_status plait_owner_wait(struct plait_comm *comm, const char *call, bool (*over)(const void *self),
                                   const void *self)
{
    struct awaited a = { comm, over, self };

    plait_progress_until(is_over, interrupt, &a, plait_spins(comm));
    if (over(self))
        return PLAIT_OK;
    plait_object_lock(comm); /* wait for a thread that is in a turn now */
    plait_object_unlock(comm);
    return plait_fail((enum plait_status)atomic_load(&comm->own->failed), "%s: %s", call, comm->own->failure);
}

/* ---- In a turn --------------------------------------------------------------------------------------------- */

void plait_owner_ended(struct plait_comm *comm, uint32_t n)
{
    comm->ncompleted += n;
    plait_progress_wake();
}

void plait_owner_start(struct plait_request *r)
{
    plait_request_begin(r);
}

bool plait_owner_has(struct plait_request *r)
{
    return plait_request_has_ended(r) && plait_request_take(&r) == PLAIT_OK;
}

void plait_owner_scale(struct plait_request *r, double factor)
{
    plait_bind_factor((struct plait_op_plan *)(uintptr_t)r->job.o, factor);
}

const char *plait_owner_algorithm(const struct plait_request *r)
{
    return r->job.o->selection.spec;
}
