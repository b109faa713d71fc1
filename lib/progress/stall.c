/* SPDX-License-Identifier: BSD-3-Clause */
#include "stall.h"

#include "comm/port.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "failure/report.h"
#include "look.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LISTED     3   /* most unheard ranks, and most different excuses, in a text */
#define MOST_NAMED 16  /* most ranks in a text */
#define INSTEAD    320 /* bytes of an excuse: what a rank does instead of the call */

/* Not finished, and no probe since the middle of this wait; ranks that wait do probe. */
static bool idle(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now)
{
    const struct plait_peer *p = &comm->peers[rank];
    const double seen = atomic_load_explicit(&p->control->seen, memory_order_relaxed), middle = (w->start + now) / 2;

    if (p->replica != NULL && rank != 0 && plait_remote_heard(comm->remote, 0) < middle)
        return false; /* rank 0, which relays updates, is silent */
    return !plait_peer_finished(comm, rank) && seen < middle;
}

/* No update from its process on another host since then; heartbeats come even while the rank computes. */
static bool unheard(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now)
{
    const double heard = comm->peers[rank].replica != NULL ? plait_remote_heard(comm->remote, rank) : now;

    return heard < (w->start + now) / 2 && now - heard >= PLAIT_REMOTE_SILENCE;
}

/* Idle, but heard: the rank's published state is current. */
static bool silent(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now)
{
    return idle(comm, w, rank, now) && !unheard(comm, w, rank, now);
}

static bool called(const struct plait_comm *comm, uint32_t rank)
{
    return (uint32_t)atomic_load_explicit(&plait_ring_record(&comm->peers[rank].control->ring, comm->sequence)->word,
                                          memory_order_acquire) == (uint32_t)comm->sequence;
}

struct verdict {
    uint32_t culprit; /* rank + 1; 0: no single rank */
    char text[INSTEAD + 128];
};

__attribute__((format(printf, 2, 3))) static void add(struct verdict *v, const char *format, ...)
{
    const size_t n = strlen(v->text);
    va_list args;

    va_start(args, format);
    vsnprintf(v->text + n, sizeof v->text - n, format, args);
    va_end(args);
}

/* Name unheard ranks. Their last published state is omitted, as it may be stale. */
static void say_unheard(const struct plait_comm *comm, const uint32_t *ranks, uint32_t n, double now, struct verdict *v)
{
    double least = now;

    for (uint32_t i = 0; i < n; i++) {
        const struct plait_replica *m = comm->peers[ranks[i]].replica;
        const double silence = now - plait_remote_heard(comm->remote, ranks[i]);
        add(v, "%srank %u (process %d on %s)", i == 0 ? "nothing has been heard of " : ", ", ranks[i], m->pid, m->host);
        least = silence < least ? silence : least;
    }
    add(v, " for %.0f s: %s", least,
        n == 1 ? "the link to it is cut, its host is down or it is stopped"
               : "the links to them are cut, their hosts are down or they are stopped");
    v->culprit = v->culprit > 0 ? v->culprit : ranks[0] + 1;
}

static void name_unheard(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    uint32_t ranks[LISTED], n = 0;

    for (uint32_t r = 0; r < comm->nrank && n < LISTED; r++)
        if (idle(comm, w, r, now) && unheard(comm, w, r, now))
            ranks[n++] = r;
    if (n > 0)
        say_unheard(comm, ranks, n, now, v);
}

/* The excuse of a rank that has not called the operation: what it does instead, or lacks; "" if not published. */
static void says_instead(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now,
                         char text[INSTEAD])
{
    text[0] = '\0';
    if (comm->owner != NULL)
        comm->owner->excuse(comm->owner, rank, text, INSTEAD);
    else
        plait_comm_waits_in(comm, rank, (w->start + now) / 2, text, INSTEAD);
}

static void name(struct verdict *v, uint32_t rank, bool first)
{
    add(v, "%s%u", !first ? ", " : v->text[0] != '\0' ? "; rank " : "rank ", rank);
    v->culprit = v->culprit > 0 ? v->culprit : rank + 1;
}

/* Name the silent ranks that have not called this operation, grouped by equal excuses. */
static void name_absent(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    char said[INSTEAD] = "", instead[INSTEAD];
    unsigned found = 0, kinds = 0;

    for (uint32_t r = 0; r < comm->nrank && found < MOST_NAMED && kinds <= LISTED; r++) {
        if (!silent(comm, w, r, now) || called(comm, r))
            continue;
        says_instead(comm, w, r, now, instead);
        const bool other = found++ == 0 || strcmp(instead, said) != 0;
        if (other && kinds++ > 0)
            add(v, " has not called it%s", said);
        if (kinds <= LISTED)
            name(v, r, other);
        memcpy(said, instead, sizeof said);
    }
    if (kinds > 0 && kinds <= LISTED)
        add(v, " has not called it%s", said);
}

/* Name the silent ranks that have called it. */
static void name_silent(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    struct plait_operation o;
    char progress[80] = "";
    unsigned found = 0;

    for (uint32_t r = 0; r < comm->nrank && found < MOST_NAMED; r++)
        if (silent(comm, w, r, now) && called(comm, r)) {
            name(v, r, found++ == 0);
            if (plait_comm_operation(comm, r, comm->sequence, &o))
                plait_operation_progress(&o, progress, sizeof progress);
        }
    if (found > 0)
        add(v, " is in it%s%s and does not answer", found == 1 ? progress : "", found == 1 && progress[0] ? "," : "");
}

/* The rank that `rank` awaits in this operation, + 1; 0: none. */
static uint32_t awaited_by(const struct plait_comm *comm, uint32_t rank)
{
    struct plait_operation o;

    if (!plait_comm_operation(comm, rank, comm->sequence, &o) || !o.has_progress || o.waiting_for > comm->nrank)
        return 0;
    return o.waiting_for;
}

/* In the operation by its updates, but no data ever arrived from it: the network's data path is broken. */
static bool is_walled_off(const struct plait_comm *comm, uint32_t rank)
{
    return comm->port != NULL && plait_port_leads(comm->port, rank) && !plait_port_has_heard(comm->port, rank) &&
           called(comm, rank);
}

static void say_walled_off(const struct plait_comm *comm, uint32_t rank, struct verdict *v)
{
    char way[64];

    plait_port_describe(comm->port, rank, way, sizeof way);
    add(v,
        "rank %u is in it, but nothing has ever come from it over the network (%s): a firewall, or an interface of "
        "which the "
        "other host is not reached: set PLAIT_IFNAME, or UCX_NET_DEVICES, to one that leads there",
        rank, way);
    v->culprit = rank + 1;
}

/* Find the culprit of a stalled collective: ranks that show no life; else the end of the chain of waits. */
static void blame(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    char instead[INSTEAD];
    uint32_t at, next, first;

    v->culprit = 0;
    v->text[0] = '\0';
    name_unheard(comm, w, now, v);
    name_absent(comm, w, now, v);
    name_silent(comm, w, now, v);
    if (v->culprit > 0)
        return;
    if (w->awaited(w->context, &at, 1) == 0)
        at = comm->rank;
    first = at;
    for (uint32_t i = 0; (next = awaited_by(comm, at)) != 0; i++) {
        if (next == at + 1) { /* see the engine's awaited() */
            add(v, "rank %u waits for its own stream: what was put there before has not happened", at);
            v->culprit = at + 1;
            return;
        }
        at = next - 1;
        if (i == comm->nrank && is_walled_off(comm, first)) {
            say_walled_off(comm, first, v);
            return;
        }
        if (i == comm->nrank) { /* the chain is a cycle */
            snprintf(v->text, sizeof v->text,
                     "ranks wait for each other, rank %u among them: a fault in the plan or the library", at);
            return;
        }
    }
    if (unheard(comm, w, 0, now)) /* rank 0 relays the updates of all others */
        at = 0;
    v->culprit = at + 1;
    if (unheard(comm, w, at, now)) {
        say_unheard(comm, &at, 1, now, v);
    } else if (at == first && is_walled_off(comm, at)) {
        say_walled_off(comm, at, v);
    } else if (called(comm, at)) {
        add(v, "rank %u is in it and does not answer", at);
    } else {
        says_instead(comm, w, at, now, instead);
        add(v, "rank %u has not called it%s", at, instead);
    }
}

/* Find the culprit of a wait for messages, or for this rank's own tensors. */
static void blame_one(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    char text[sizeof v->text];

    v->text[0] = '\0';
    v->culprit = w->kind->blame(w->context, text, sizeof text);
    if (v->culprit > 0 && unheard(comm, w, v->culprit - 1, now)) {
        const uint32_t rank = v->culprit - 1;
        say_unheard(comm, &rank, 1, now, v);
        add(v, "; ");
    }
    add(v, "%s", text);
}

double plait_deadline_of(const struct plait_comm *comm, const struct plait_wait *w)
{
    const double own = plait_wait_is_for_all(w) ? comm->limit : w->limit;
    return own > 0 ? own : comm->deadline;
}

/* In a wait without a deadline: fail if a needed rank of another host is unheard for the comm's deadline. */
static enum plait_status look_for_cut_off(struct plait_comm *comm, const struct plait_wait *w, double now)
{
    struct verdict v = { 0 };

    for (uint32_t r = 0; comm->remote != NULL && r < comm->nrank; r++) {
        if (comm->peers[r].replica == NULL || !plait_wait_needs(comm, w, r))
            continue;
        const double heard = plait_remote_heard(comm->remote, r), since = heard > w->start ? heard : w->start;
        if (now - since < comm->deadline)
            continue;
        say_unheard(comm, &r, 1, now, &v);
        return plait_comm_blame(comm, PLAIT_ERR_TIMEOUT, r, "%s", v.text);
    }
    return PLAIT_OK;
}

/* Text of both the warning and the error. */
#define STALLED "no progress for %g s: %s"

enum plait_status plait_look_at_clock(struct plait_comm *comm, struct plait_wait *w, double now)
{
    const double waited = now - w->start;
    const double deadline = plait_deadline_of(comm, w);
    struct verdict v;

    if (deadline >= PLAIT_FOREVER) {
        const enum plait_status status = look_for_cut_off(comm, w, now);
        if (status != PLAIT_OK)
            return status;
    }
    if (waited < deadline && (waited < comm->warn || w->warned))
        return PLAIT_OK;
    (plait_wait_is_for_all(w) ? blame : blame_one)(comm, w, now, &v);
    if (waited >= deadline)
        return v.culprit > 0 ? plait_comm_blame(comm, PLAIT_ERR_TIMEOUT, v.culprit - 1, STALLED, deadline, v.text)
                             : plait_comm_fail(comm, PLAIT_ERR_TIMEOUT, STALLED, deadline, v.text);
    plait_comm_log(comm, PLAIT_LOG_WARN, STALLED, comm->warn, v.text);
    w->warned = true;
    return PLAIT_OK;
}
