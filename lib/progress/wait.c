/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "failure/failure.h"
#include "failure/slow.h"
#include "look.h"
#include "progress.h"
#include "stall.h"

#include <errno.h>
#include <sched.h>

#define LOOK_EVERY   8    /* turns after the spin between probes */
#define YIELD_FOR    2e-3 /* seconds without progress before it sleeps */
#define DEATHS_EVERY 0.05 /* seconds between probes for dead processes */
#define LATE         5e-6 /* seconds of a yield after which others are taken to have run */
#define PAUSES       50   /* pauses that are timed together */
#define STOPPED \
    2.0 /* seconds between probes above which this process, perhaps the job, was stopped: not all counts as wait */

/* ---- Looking around ------------------------------------------------------------------------------- */

/* Publish that this rank waits, and for which rank, in its ring: the process may be stopped at any moment. */
static void note_wait(struct plait_comm *comm, const struct plait_wait *w, uint64_t now)
{
    struct plait_progress *p;
    uint64_t steps = 0, nstep = 0;
    uint32_t rank;

    if (!PLAIT_GUARDS)
        return;
    if (!plait_wait_is_for_all(w)) {
        w->kind->note(w->context, now);
        return;
    }
    if (atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= comm->sequence)
        return; /* waits in destroy, not in an operation */
    if (w->steps != NULL)
        steps = w->steps(w->context, &nstep);
    p = plait_ring_progress(&comm->own->ring, comm->sequence);
    if (atomic_load_explicit(&p->sequence, memory_order_relaxed) != comm->sequence)
        plait_progress_begin(&comm->own->ring, comm->sequence, now, 1, nstep); /* an eager operation has no entry yet */
    atomic_store_explicit(&p->steps, steps, memory_order_relaxed);
    if (w->awaited(w->context, &rank, 1) > 0) {
        atomic_store_explicit(&p->waiting_for, rank + 1, memory_order_relaxed);
        atomic_store_explicit(&p->waited_for, rank + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&p->looked, now, memory_order_relaxed);
}

void plait_wait_over(struct plait_comm *comm, const struct plait_wait *w)
{
    struct plait_progress *p = plait_ring_progress(&comm->own->ring, comm->sequence);

    if (w->last_awaited > 0)
        comm->peers[w->last_awaited - 1].waited += plait_clock() - w->start;
    if (!plait_wait_is_for_all(w))
        w->kind->note(w->context, 0);
    else if (atomic_load_explicit(&p->sequence, memory_order_relaxed) == comm->sequence && comm->failed == PLAIT_OK)
        atomic_store_explicit(&p->waiting_for, 0, memory_order_relaxed);
}

static enum plait_status look(struct plait_comm *comm, struct plait_wait *w, double now)
{
    if (!PLAIT_GUARDS)
        return PLAIT_OK;
    enum plait_status status = plait_wait_is_for_all(w) ? plait_look_at_calls(comm) : plait_look_for_failures(comm);

    if (status == PLAIT_OK && comm->nodes.claim.fd > 0)
        status = plait_look_at_claim(comm, now);

    atomic_store_explicit(&comm->own->seen, now, memory_order_relaxed);
    if (status == PLAIT_OK && (now >= w->check || now - w->start >= plait_deadline_of(comm, w))) {
        status = plait_look_at_past_calls(comm);
        if (status == PLAIT_OK)
            status = plait_look_for_gone(comm, w, now);
        if (status == PLAIT_OK)
            status = plait_look_at_unread(comm, w, now);
        if (status == PLAIT_OK && w->suspect == 0)
            status = plait_look_at_links(comm, w, now);
        if (comm->remote != NULL)
            plait_warn_of_full_table(now);
        w->check = now + (w->suspect ? 0 : DEATHS_EVERY);
    }
    return status == PLAIT_OK && !w->suspect ? plait_look_at_clock(comm, w, now) : status; /* a death is no stall */
}

/* ---- Waiting --------------------------------------------------------------------------------------- */

/* Announce at the first call, sleep at the next; on the doorbells of the process's other pending operations, too. */
static void doze(struct plait_comm *comm, struct plait_wait *w)
{
    uint32_t ranks[PLAIT_DOORBELLS];

    if (w->away) /* a sleeper leaves the processor anyway */
        plait_is_back(comm);
    w->away = 0;
    if (w->announced) {
        comm->stats.sleeps++;
        plait_progress_sleep(&w->doorbells);
    }
    w->announced = true;
    plait_doorbells_init(&w->doorbells);
    plait_doorbells_announce(&w->doorbells, comm, ranks, w->awaited(w->context, ranks, PLAIT_DOORBELLS));
    plait_progress_announce(&w->doorbells);
}

/*
 * Seconds that count as wait out of a stop of the process, or of a long time between two tests. Few, so that a stopped
 * job can go on; not none, so that rare polling still reaches the deadline.
 */
static double counted_of_a_stop(const struct plait_comm *comm, const struct plait_wait *w)
{
    const double quarter = plait_deadline_of(comm, w) / 4;

    return quarter < STOPPED ? quarter : STOPPED;
}

/* Publish this rank's state and probe the others. */
static enum plait_status look_around(struct plait_comm *comm, struct plait_wait *w)
{
    const double now = plait_clock();
    uint32_t rank;

    w->last_awaited = w->awaited(w->context, &rank, 1) > 0 ? rank + 1 : 0;
    if (!w->timed) {
        w->timed = true;
        w->start = now;
        w->check = now + DEATHS_EVERY;
    } else if (now - w->last > STOPPED) {
        w->start += now - w->last - counted_of_a_stop(comm, w);
    }
    w->last = now;
    note_wait(comm, w, (uint64_t)(now * 1e9));
    return look(comm, w, now);
}

static void yield(struct plait_comm *comm, struct plait_wait *w)
{
    comm->stats.yields++;
    w->away = 1;
    if (comm->port == NULL) {
        plait_give_way(comm);
        return;
    }
    const double before = plait_clock();
    sched_yield();
    if (plait_clock() - before > LATE)
        comm->crowded = PLAIT_CROWDED_YIELDS;
    else if (comm->crowded > 0)
        comm->crowded--;
}

uint32_t plait_spins_in(double seconds)
{
    double least = 1;

    for (int try = 0; try < 5; try++) { /* the least of five: others may run during one */
        const double before = plait_clock();
        for (int i = 0; i < PAUSES; i++)
            plait_pause();
        const double took = plait_clock() - before;
        least = took < least ? took : least;
    }
    return seconds < least * PLAIT_SPINS / PAUSES ? (uint32_t)(seconds / least * PAUSES) : PLAIT_SPINS;
}

void plait_tell_processor(struct plait_comm *comm)
{
    const uint32_t here = (uint32_t)(sched_getcpu() + 1);

    if (atomic_load_explicit(&comm->own->processor, memory_order_relaxed) != here)
        atomic_store_explicit(&comm->own->processor, here, memory_order_relaxed);
}

bool plait_neighbour_waits(const struct plait_comm *comm)
{
    bool away = false;

    for (uint32_t r = 0; r < comm->nrank && !away; r++) {
        const struct plait_peer *peer = &comm->peers[r];
        away = r != comm->rank && peer->process != NULL && !plait_is_apart(comm, r) &&
               atomic_load_explicit(&peer->control->away, memory_order_relaxed) != 0;
    }
    return away;
}

void plait_wait_for_few_bytes(const struct plait_comm *comm, struct plait_wait *w, bool apart)
{
    w->more = comm->apart > 0 && apart && !plait_neighbour_waits(comm) ? comm->apart : 0;
}

static enum plait_status long_turn(struct plait_comm *comm, struct plait_wait *w)
{
    const bool moved = plait_progress(); /* the awaited rank may wait for another comm of this process */

    if (w->turns < plait_wait_spins(comm, w)) {
        w->turns++;
        plait_pause();
        return PLAIT_OK;
    }
    if (w->turns++ % LOOK_EVERY == 0 || w->sleepy) {
        const enum plait_status status = look_around(comm, w);
        if (status != PLAIT_OK)
            return status;
        if (plait_interrupted())
            return plait_comm_fail(comm, PLAIT_ERR_FAILED, PLAIT_INTERRUPTED);
        w->sleepy = w->last - w->start > YIELD_FOR;
    }
    if (w->sleepy && !moved)
        doze(comm, w);
    else
        yield(comm, w);
    return PLAIT_OK;
}

enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w)
{
    const int saved = errno; /* probes must not change the caller's errno */
    const enum plait_status status = long_turn(comm, w);

    errno = saved;
    return status;
}

enum plait_status plait_wait_glance(struct plait_comm *comm, struct plait_wait *w, bool rarely)
{
    const int saved = errno;
    const uint32_t spins = plait_spins(comm); /* without w->more: a turn may sleep 1 ms here */
    enum plait_status status = PLAIT_OK;

    if (rarely || (w->turns++ >= spins && w->turns % LOOK_EVERY == 0))
        status = look_around(comm, w);
    errno = saved;
    return status;
}
