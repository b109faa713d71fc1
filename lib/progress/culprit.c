/* SPDX-License-Identifier: BSD-3-Clause */
#include "detector.h"

#include "comm/port.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME         128 /* bytes */
#define MOST_UNHEARD 3   /* ranks in a text */
#define MOST_NAMED   16  /* ranks in a text */
#define WHAT         384 /* bytes */

/* "rank 2 (process 123 on host1)"; the host only if it is another one. */
static void name_rank(const struct plait_comm *comm, uint32_t rank, char text[NAME])
{
    const struct plait_peer *p = &comm->peers[rank];

    snprintf(text, NAME, "rank %u (process %d%s%s)", rank, plait_peer_pid(p), p->replica != NULL ? " on " : "",
             p->replica != NULL ? p->replica->host : "");
}

#define ADD(c, ...) plait_append((c)->text, sizeof(c)->text, __VA_ARGS__)

static void set_rank(struct plait_culprit *c, uint32_t rank)
{
    c->rank = c->rank != PLAIT_NOBODY ? c->rank : rank;
}

/* ---- What others show ------------------------------------------------------------------------------- */

/* No update from its process on another host in the second half of the wait; updates come even while it computes. */
static bool unheard(const struct plait_comm *comm, const struct plait_detector *d, uint32_t rank)
{
    const double heard = comm->peers[rank].replica != NULL ? plait_remote_heard(comm->remote, rank) : d->last;

    return heard < plait_detector_middle(d) && d->last - heard >= PLAIT_REMOTE_SILENCE;
}

/* Not finished, and no probe in the second half of the wait; ranks that wait do probe. */
static bool idle(const struct plait_comm *comm, const struct plait_detector *d, uint32_t rank)
{
    const struct plait_peer *p = &comm->peers[rank];

    if (p->replica != NULL && rank != 0 && plait_remote_heard(comm->remote, 0) < plait_detector_middle(d))
        return false; /* rank 0, which relays updates, is silent */
    return !plait_peer_finished(comm, rank) &&
           atomic_load_explicit(&p->control->seen, memory_order_relaxed) < plait_detector_middle(d);
}

static bool called(const struct plait_comm *comm, uint32_t rank)
{
    return (uint32_t)atomic_load_explicit(&plait_ring_record(&comm->peers[rank].control->ring, comm->sequence)->word,
                                          memory_order_acquire) == (uint32_t)comm->sequence;
}

/* The rank that `rank` awaits in this operation, + 1; 0: none. */
static uint32_t awaited_by(const struct plait_comm *comm, uint32_t rank)
{
    struct plait_operation o;

    if (!plait_comm_operation(comm, rank, comm->sequence, &o) || !o.has_progress ||
        o.progress.waiting_for > comm->nrank)
        return 0;
    return o.progress.waiting_for;
}

/* In the operation by its updates, but no data ever arrived from it: the network's data path is broken. */
static bool is_walled_off(const struct plait_comm *comm, uint32_t rank)
{
    return comm->port != NULL && plait_port_leads(comm->port, rank) && !plait_port_has_heard(comm->port, rank) &&
           called(comm, rank);
}

/* ---- Stalls ----------------------------------------------------------------------------------------- */

/* Name unheard ranks. Their last published state is omitted, as it may be stale. */
static void say_unheard(const struct plait_comm *comm, const uint32_t *ranks, uint32_t n, double now,
                        struct plait_culprit *c)
{
    double least = now;

    for (uint32_t i = 0; i < n; i++) {
        const double silence = now - plait_remote_heard(comm->remote, ranks[i]);
        char name[NAME];
        name_rank(comm, ranks[i], name);
        ADD(c, "%s%s", i == 0 ? "nothing has been heard of " : ", ", name);
        least = silence < least ? silence : least;
    }
    ADD(c, " for %.0f s: %s", least,
        n == 1 ? "the link to it is cut, its host is down or it is stopped"
               : "the links to them are cut, their hosts are down or they are stopped");
    set_rank(c, ranks[0]);
}

enum plait_status plait_probe_unheard(struct plait_comm *comm, const struct plait_detector *d, double now)
{
    struct plait_culprit c = { .rank = PLAIT_NOBODY };

    for (uint32_t r = 0; comm->remote != NULL && r < comm->nrank; r++) {
        if (comm->peers[r].replica == NULL || !plait_detector_needs(comm, d, r))
            continue;
        const double heard = plait_remote_heard(comm->remote, r), since = heard > d->start ? heard : d->start;
        if (now - since < comm->deadline)
            continue;
        say_unheard(comm, &r, 1, now, &c);
        return plait_comm_blame(comm, PLAIT_ERR_TIMEOUT, r, "%s", c.text);
    }
    return PLAIT_OK;
}

static void name_unheard(const struct plait_comm *comm, const struct plait_detector *d, struct plait_culprit *c)
{
    uint32_t ranks[MOST_UNHEARD], n = 0;

    for (uint32_t r = 0; r < comm->nrank && n < MOST_UNHEARD; r++)
        if (idle(comm, d, r) && unheard(comm, d, r))
            ranks[n++] = r;
    if (n > 0)
        say_unheard(comm, ranks, n, d->last, c);
}

/*
 * Describe a rank whose updates arrive: its progress in the operation or, if it has not called it, what it waits for
 * or lacks.
 */
static void say_what(const struct plait_comm *comm, const struct plait_detector *d, uint32_t rank, char text[WHAT])
{
    struct plait_operation o;
    char how[WHAT - 64] = "";

    if (called(comm, rank)) {
        if (plait_comm_operation(comm, rank, comm->sequence, &o))
            plait_operation_progress(&o, how, sizeof how);
        snprintf(text, WHAT, " has entered the operation%s%s but does not respond", how, how[0] != '\0' ? "," : "");
        return;
    }
    if (comm->owner != NULL)
        comm->owner->excuse(comm->owner->object, rank, how, sizeof how);
    else
        plait_comm_waits_in(comm, rank, plait_detector_middle(d), how, sizeof how);
    snprintf(text, WHAT, " has not called it%s", how);
}

/*
 * Name the idle ranks inside the operation, or those outside it, that are heard: their published state is current.
 * Consecutive ranks with the same text share it.
 */
static void name_idle(const struct plait_comm *comm, const struct plait_detector *d, bool inside,
                      struct plait_culprit *c)
{
    char said[WHAT] = "", what[WHAT];
    unsigned found = 0;

    for (uint32_t r = 0; r < comm->nrank && found < MOST_NAMED; r++) {
        if (!idle(comm, d, r) || unheard(comm, d, r) || called(comm, r) != inside)
            continue;
        say_what(comm, d, r, what);
        if (found++ > 0 && strcmp(what, said) == 0)
            ADD(c, ", %u", r);
        else
            ADD(c, "%s%srank %u", said, c->text[0] != '\0' ? "; " : "", r);
        memcpy(said, what, sizeof said);
        set_rank(c, r);
    }
    ADD(c, "%s", said);
}

static void name_walled_off(const struct plait_comm *comm, uint32_t rank, struct plait_culprit *c)
{
    char way[64];

    plait_port_describe(comm->port, rank, way, sizeof way);
    ADD(c,
        "rank %u has entered the operation, but no message from it has arrived over the network (%s): a firewall "
        "blocks it, or this interface does not lead to that host; set PLAIT_IFNAME or UCX_NET_DEVICES to one that does",
        rank, way);
    set_rank(c, rank);
}

/* Name the one rank at the end of the chain of waits, which begins at `first`. */
static void name_last(const struct plait_comm *comm, const struct plait_detector *d, uint32_t rank, uint32_t first,
                      struct plait_culprit *c)
{
    char what[WHAT];

    if (unheard(comm, d, rank)) {
        say_unheard(comm, &rank, 1, d->last, c);
    } else if (rank == first && is_walled_off(comm, rank)) {
        name_walled_off(comm, rank, c);
    } else {
        say_what(comm, d, rank, what);
        ADD(c, "rank %u%s", rank, what);
        set_rank(c, rank);
    }
}

/* All ranks show life: follow who waits for whom, from the rank that this one awaits. */
static void follow_waits(const struct plait_comm *comm, const struct plait_detector *d, struct plait_culprit *c)
{
    const uint32_t first = d->last_awaited > 0 ? d->last_awaited - 1 : comm->rank;
    uint32_t at = first, next, n = 0;

    while ((next = awaited_by(comm, at)) != 0 && next != at + 1 && n++ < comm->nrank)
        at = next - 1;
    if (next == 0) {
        name_last(comm, d, unheard(comm, d, 0) ? 0 : at, first, c); /* rank 0 relays the updates of all others */
    } else if (next == at + 1) {                                    /* see the engine's awaited() */
        ADD(c, PLAIT_WAITS_FOR_ITSELF, at);
        set_rank(c, at);
    } else if (is_walled_off(comm, first)) {
        name_walled_off(comm, first, c);
    } else {
        ADD(c, "ranks wait for each other, rank %u among them: a fault in the plan or the library", at);
    }
}

/* A wait for messages, or for this rank's own tensors. */
static void find_one(const struct plait_comm *comm, const struct plait_detector *d, struct plait_culprit *c)
{
    char text[sizeof c->text];

    c->rank = d->kind->blame(d->context, text, sizeof text) - 1;
    if (c->rank != PLAIT_NOBODY && unheard(comm, d, c->rank)) {
        say_unheard(comm, &c->rank, 1, d->last, c);
        ADD(c, "; ");
    }
    ADD(c, "%s", text);
}

void plait_culprit_find(const struct plait_comm *comm, const struct plait_detector *d, struct plait_culprit *out)
{
    *out = (struct plait_culprit){ .rank = PLAIT_NOBODY };
    if (!plait_detector_of_collective(d)) {
        find_one(comm, d, out);
        return;
    }
    name_unheard(comm, d, out);
    name_idle(comm, d, false, out);
    name_idle(comm, d, true, out);
    if (out->rank == PLAIT_NOBODY)
        follow_waits(comm, d, out);
}

/* ---- Ranks that are gone ---------------------------------------------------------------------------- */

/*
 * A rank died. It may have done so after its last update from another host. If the relay of updates (rank 0) died, that
 * death may have cut off others: then the lowest rank that died is to blame, needed or not.
 */
static enum plait_status blame_dead(struct plait_comm *comm, uint32_t rank)
{
    const struct plait_peer *p = &comm->peers[rank];
    char name[NAME];

    name_rank(comm, rank, name);
    return plait_comm_blame(comm, PLAIT_ERR_PEER, rank, "%s died after operation #%llu%s", name,
                            (unsigned long long)atomic_load_explicit(&p->control->done, memory_order_relaxed),
                            p->replica != NULL ? " or a later one" : "");
}

static enum plait_status blame_cut_off(struct plait_comm *comm, uint32_t rank)
{
    const char *why = plait_peer_cut_off(comm, rank);

    for (uint32_t r = 0; r < comm->nrank; r++)
        if (r != comm->rank && plait_peer_died(&comm->peers[r]))
            return blame_dead(comm, r);
    return plait_comm_blame(comm, PLAIT_ERR_PEER, rank, "rank %u cannot be reached any more: %s (from rank %u)", rank,
                            why != NULL ? why : "its link is broken", comm->rank);
}

static enum plait_status blame_unread(struct plait_comm *comm)
{
    const struct plait_unread *u = &comm->unread;

    if (u->error == ESRCH)
        return blame_dead(comm, u->rank);
    return plait_comm_blame(comm, PLAIT_ERR_SYSTEM, u->rank,
                            "cannot copy %zu bytes at %#llx of rank %u (process %d) to %p: process_vm_readv: %s; are "
                            "both buffers as long as count says? PLAIT_CMA=0 does without the call",
                            u->bytes, (unsigned long long)u->address, u->rank, plait_peer_pid(&comm->peers[u->rank]),
                            u->to, strerror(u->error));
}

enum plait_status plait_blame_suspect(struct plait_comm *comm, const struct plait_detector *d)
{
    const uint32_t rank = d->suspect - 1;
    const struct plait_peer *p = &comm->peers[rank];

    if (d->suspicion == PLAIT_LEFT)
        return plait_comm_blame(comm, PLAIT_ERR_PEER, rank, "rank %u left the comm after operation #%llu", rank,
                                (unsigned long long)atomic_load_explicit(&p->control->done, memory_order_relaxed));
    if (d->suspicion == PLAIT_UNREAD)
        return blame_unread(comm);
    if (d->suspicion == PLAIT_CUT_OFF)
        return blame_cut_off(comm, rank);
    return plait_peer_died(p)
               ? blame_dead(comm, rank)
               : plait_comm_blame(comm, PLAIT_ERR_PEER, rank, "rank %u gave up while the comm was made", rank);
}
