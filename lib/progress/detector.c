/* SPDX-License-Identifier: BSD-3-Clause */
#include "detector.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "bootstrap/unix.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHECK_EVERY 0.05 /* seconds between probes for ranks that are gone, which take system calls */
#define MOST_DYING  1.0  /* seconds, at most, from the loss of a process's memory or link until its death shows */
/* Seconds: a longer gap between probes means that this process was stopped, and counts only in part. */
#define STOPPED 2.0

bool plait_peer_finished(const struct plait_comm *comm, uint32_t rank)
{
    return atomic_load_explicit(&comm->peers[rank].control->done, memory_order_acquire) >= comm->sequence;
}

bool plait_peer_died(const struct plait_peer *p)
{
    return p->replica != NULL ? atomic_load_explicit(&p->replica->dead, memory_order_acquire) != 0
                              : p->process->base != NULL && plait_process_dead(p->process);
}

int plait_peer_pid(const struct plait_peer *p)
{
    return p->replica != NULL ? p->replica->pid : p->process->pid;
}

const char *plait_peer_cut_off(const struct plait_comm *comm, uint32_t rank)
{
    const char *why = NULL;

    for (uint32_t i = 0; i < PLAIT_NCHANNEL && why == NULL; i++) {
        const struct plait_link *link = comm->peers[rank].link[i];
        why = link != NULL && link->transport->broken != NULL ? link->transport->broken(link) : NULL;
    }
    return why;
}

bool plait_detector_needs(const struct plait_comm *comm, const struct plait_detector *d, uint32_t rank)
{
    uint32_t one;

    if (plait_detector_of_collective(d))
        return !plait_peer_finished(comm, rank);
    return d->kind->everybody || (plait_detector_awaited(d, &one, 1) > 0 && one == rank);
}

static double deadline_of(const struct plait_comm *comm, const struct plait_detector *d)
{
    const double own = plait_detector_of_collective(d) ? comm->limit : d->limit;
    return own > 0 ? own : comm->deadline;
}

/* ---- The ring --------------------------------------------------------------------------------------- */

/* Publish that this rank waits, and for which rank, in its ring: the process may be stopped at any moment. */
static void publish(struct plait_comm *comm, const struct plait_detector *d)
{
    const uint64_t now = (uint64_t)(d->last * 1e9);
    uint64_t steps = 0, nstep = 0;

    if (d->kind->note != NULL)
        d->kind->note(d->context, now);
    if (!plait_detector_of_collective(d))
        return;
    if (atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= comm->sequence)
        return; /* waits in destroy, not in an operation */
    if (d->kind->steps != NULL)
        steps = d->kind->steps(d->context, &nstep);
    struct plait_progress *p = plait_ring_progress(&comm->own->ring, comm->sequence);
    if (atomic_load_explicit(&p->sequence, memory_order_relaxed) != comm->sequence)
        plait_progress_begin(&comm->own->ring, comm->sequence, now, 1, nstep); /* an eager operation has no entry yet */
    atomic_store_explicit(&p->steps, steps, memory_order_relaxed);
    if (d->last_awaited > 0) {
        atomic_store_explicit(&p->waiting_for, d->last_awaited, memory_order_relaxed);
        atomic_store_explicit(&p->waited_for, d->last_awaited, memory_order_relaxed);
    }
}

void plait_detector_end(struct plait_comm *comm, struct plait_detector *d)
{
    struct plait_progress *p = plait_ring_progress(&comm->own->ring, comm->sequence);

    d->timed = false;
    if (d->last_awaited > 0)
        comm->peers[d->last_awaited - 1].waited += plait_clock() - d->start;
    if (d->kind->note != NULL)
        d->kind->note(d->context, 0);
    if (plait_detector_of_collective(d) && atomic_load_explicit(&p->sequence, memory_order_relaxed) == comm->sequence &&
        comm->failed == PLAIT_OK)
        atomic_store_explicit(&p->waiting_for, 0, memory_order_relaxed);
}

/* ---- Other arguments: the records of an operation on other ranks are compared with this rank's ---------- */

static const struct plait_record *record_of(const struct plait_comm *comm, uint32_t rank, uint64_t sequence)
{
    return plait_ring_record(&comm->peers[rank].control->ring, sequence);
}

/* Fail the comm: `rank` called operation `sequence` differently. An earlier operation is named in the text. */
static enum plait_status mismatch(struct plait_comm *comm, uint32_t rank, uint64_t sequence)
{
    const struct plait_what *a = &record_of(comm, comm->rank, sequence)->what;
    const struct plait_what *b = &record_of(comm, rank, sequence)->what;
    char what[192], earlier[64] = "";

    if (sequence != comm->sequence || atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= sequence)
        snprintf(earlier, sizeof earlier, "in %s%s #%llu ", plait_coll_name(a->coll), a->vform ? "v" : "",
                 (unsigned long long)sequence);
/* Both ranks' values go into the format; this rank's number between them. */
#define SAY(format, x, y) snprintf(what, sizeof what, format, x, comm->rank, y)
    if (a->coll != b->coll || a->vform != b->vform)
        snprintf(what, sizeof what, "collective is %s%s on rank %u and %s%s", plait_coll_name(a->coll),
                 a->vform ? "v" : "", comm->rank, plait_coll_name(b->coll), b->vform ? "v" : "");
    else if (a->count != b->count && !a->vform)
        SAY("count is %" PRIu64 " on rank %u and %" PRIu64, a->count, b->count);
    else if (a->type != b->type)
        SAY("type is %s on rank %u and %s", plait_dtype_name(a->type), plait_dtype_name(b->type));
    else if (a->op != b->op)
        SAY("operator is %s on rank %u and %s", plait_op_name(a->op), plait_op_name(b->op));
    else if (a->root != b->root)
        SAY("root is %u on rank %u and %u", a->root, b->root);
    else if (a->count != b->count)
        SAY("the largest block has %" PRIu64 " elements on rank %u and %" PRIu64, a->count, b->count);
    else if (a->ordered != b->ordered)
        SAY("call->user->commutative is %d on rank %u and %d", !a->ordered, !b->ordered);
    else if (a->space != b->space)
        SAY("memory is %s on rank %u and %s", plait_space_whose(a->space), plait_space_whose(b->space));
    else if (a->factor != b->factor)
        SAY("out of plait_fusion_set_scale() is %.17g on rank %u and %.17g", a->factor, b->factor);
    else if (a->mark != b->mark)
        SAY("call->mark is 0x%x on rank %u and 0x%x", a->mark, b->mark);
    else if (strncmp(a->algorithm, b->algorithm, sizeof a->algorithm) != 0)
        SAY("algorithm is %.21s on rank %u and %.21s", a->algorithm, b->algorithm);
    else if (a->settings != b->settings)
        SAY("choice (slice, rounding, configuration) is %08x on rank %u and %08x", a->settings, b->settings);
    else
        snprintf(
            what, sizeof what,
            "emit of algorithm %.21s depends on more than shape and rank: its plans hash to %08x on rank %u and %08x",
            a->algorithm, a->plans, comm->rank, b->plans);
#undef SAY
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "%s%s on rank %u", earlier, what, rank);
}

/* A rank that called this operation with other arguments, or nrank. *all: all ranks have called it. */
static uint32_t find_difference(const struct plait_comm *comm, uint64_t sequence, bool *all)
{
    const uint64_t own = atomic_load_explicit(&record_of(comm, comm->rank, sequence)->word, memory_order_relaxed);

    *all = true;
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const uint64_t word = atomic_load_explicit(&record_of(comm, r, sequence)->word, memory_order_acquire);
        if ((uint32_t)word == (uint32_t)own && word != own)
            return r;
        /* A later operation may have taken the entry; not all records of ranks on other hosts arrive. */
        const struct plait_replica *m = comm->peers[r].replica;
        *all &= (int32_t)((uint32_t)word - (uint32_t)own) >= 0 ||
                (m != NULL && sequence < atomic_load_explicit(&m->from, memory_order_acquire));
    }
    return comm->nrank;
}

/* Has another rank failed, or called the operation in progress with other arguments? */
static enum plait_status probe_calls(struct plait_comm *comm)
{
    bool all;
    const enum plait_status status = plait_probe_failures(comm);
    const uint32_t other = status == PLAIT_OK ? find_difference(comm, comm->sequence, &all) : comm->nrank;

    if (other == comm->nrank)
        return status;
    const enum plait_status earlier = plait_probe_past_calls(comm); /* the cause of later differences */
    return earlier != PLAIT_OK ? earlier : mismatch(comm, other, comm->sequence);
}

enum plait_status plait_probe_past_calls(struct plait_comm *comm)
{
    uint64_t s = atomic_load_explicit(&comm->own->uncompared, memory_order_relaxed);
    bool all = true;

    while (PLAIT_GUARDS && s > 0 && all) {
        if (s + PLAIT_NRECORD <= comm->sequence) /* its record is overwritten */
            s = comm->sequence - PLAIT_NRECORD + 1;
        const uint32_t other = find_difference(comm, s, &all);
        if (other < comm->nrank)
            return mismatch(comm, other, s);
        if (all)
            s = s < comm->sequence ? s + 1 : 0;
    }
    atomic_store_explicit(&comm->own->uncompared, s, memory_order_relaxed);
    return PLAIT_OK;
}

/* ---- Ranks that are gone ---------------------------------------------------------------------------- */

/* If the program has closed the library's descriptors, deaths or updates from other hosts would go unseen. */
static enum plait_status probe_descriptors(struct plait_comm *comm)
{
    enum plait_status status = plait_remote_check(comm->remote);

    for (uint32_t i = 0; i < comm->nprocess && status == PLAIT_OK; i++)
        status = plait_descriptor_check(comm->processes[i].fd);
    return status == PLAIT_OK ? PLAIT_OK : plait_comm_blame(comm, status, comm->rank, "%s", plait_last_error());
}

static bool shows(const struct plait_comm *comm, uint32_t rank, enum plait_suspicion suspicion)
{
    const struct plait_peer *p = &comm->peers[rank];

    switch (suspicion) {
    case PLAIT_LEFT:
        return atomic_load_explicit(&p->control->departed, memory_order_acquire) != 0;
    case PLAIT_DIED:
        return rank != comm->rank && plait_peer_died(p);
    case PLAIT_UNCREATED: /* its control block is gone */
        return atomic_load_explicit(&p->control->id, memory_order_relaxed) != comm->id;
    case PLAIT_UNREAD:
        return comm->unread.error != 0 && comm->unread.rank == rank;
    default:
        return plait_peer_cut_off(comm, rank) != NULL;
    }
}

/* The first suspicion that holds of a needed rank, and the lowest such rank; UINT32_MAX: none. */
static uint32_t find_suspect(const struct plait_comm *comm, const struct plait_detector *d, enum plait_suspicion *out)
{
    const bool deaths = comm->remote != NULL || (comm->nprocess > 0 && poll(comm->processes, comm->nprocess, 0) > 0);

    for (enum plait_suspicion s = PLAIT_LEFT; s <= PLAIT_CUT_OFF; s++) {
        if ((s == PLAIT_DIED && !deaths) || (s == PLAIT_CUT_OFF && comm->port == NULL))
            continue;
        for (uint32_t r = 0; r < comm->nrank; r++)
            if ((s == PLAIT_UNREAD || plait_detector_needs(comm, d, r)) && shows(comm, r, s)) {
                *out = s;
                return r;
            }
    }
    return UINT32_MAX;
}

/* Seconds that a suspicion must last before the comm fails: its cause, such as a death, may still become visible. */
static double doubt(const struct plait_comm *comm, uint32_t rank, enum plait_suspicion suspicion)
{
    const struct plait_peer *p = &comm->peers[rank];
    const bool dies = (suspicion == PLAIT_UNCREATED && p->replica == NULL && !plait_process_dead(p->process)) ||
                      (suspicion == PLAIT_UNREAD && comm->unread.error == ESRCH) || suspicion == PLAIT_CUT_OFF;

    return dies ? MOST_DYING : 0;
}

/* The first probe suspects; the caller then polls once more, as the rank's last messages may have arrived. */
static enum plait_status probe_suspects(struct plait_comm *comm, struct plait_detector *d, double now)
{
    enum plait_suspicion suspicion = PLAIT_LEFT;
    const uint32_t rank = find_suspect(comm, d, &suspicion);

    if (rank == UINT32_MAX || plait_progress_until_alarm() > 0) { /* or its data are still in flight */
        d->suspect = 0;
        return PLAIT_OK;
    }
    if (d->suspect != rank + 1 || d->suspicion != suspicion) {
        d->suspect = rank + 1;
        d->suspicion = suspicion;
        d->suspected = now;
        return PLAIT_OK;
    }
    if (now - d->suspected < doubt(comm, rank, suspicion) && now - d->start < deadline_of(comm, d))
        return PLAIT_OK;
    return plait_blame_suspect(comm, d);
}

/* Does another process claim this rank? The comm may then have ranks of two jobs. Checked once a second. */
static enum plait_status probe_claim(struct plait_comm *comm, double now)
{
    if (comm->nodes.claim.fd <= 0 || now < comm->claim_seen + 1)
        return PLAIT_OK;
    comm->claim_seen = now;
    const enum plait_status status = plait_claim_check(&comm->nodes.claim, comm->rank);
    return status == PLAIT_OK ? PLAIT_OK : plait_comm_fail(comm, status, "%s", plait_last_error());
}

/* ---- The clock -------------------------------------------------------------------------------------- */

/* Text of both the slow report and the error. */
#define STALLED "no progress for %g s: %s"

/* Write the slow report, or fail the comm, when a limit has passed. */
static enum plait_status probe_clock(struct plait_comm *comm, struct plait_detector *d, double now)
{
    const double waited = now - d->start, deadline = deadline_of(comm, d);
    struct plait_culprit c;

    if (deadline >= PLAIT_FOREVER) {
        const enum plait_status status = plait_probe_unheard(comm, d, now);
        if (status != PLAIT_OK)
            return status;
    }
    if (waited < deadline && (waited < comm->warn || d->warned))
        return PLAIT_OK;
    d->warned = true;
    plait_culprit_find(comm, d, &c);
    if (waited >= deadline)
        return plait_comm_blame(comm, PLAIT_ERR_TIMEOUT, c.rank, STALLED, deadline, c.text);
    plait_comm_log(comm, PLAIT_LOG_WARN, STALLED, comm->warn, c.text);
    return PLAIT_OK;
}

/*
 * Keep the times of the wait. Of a gap longer than STOPPED, at most STOPPED seconds count. So a suspended job can go
 * on, and a caller that tests rarely still reaches its deadline.
 */
static void keep_time(const struct plait_comm *comm, struct plait_detector *d, double now)
{
    uint32_t rank;

    d->last_awaited = plait_detector_awaited(d, &rank, 1) > 0 ? rank + 1 : 0;
    if (!d->timed) {
        d->timed = true;
        d->warned = false;
        d->start = d->last = now;
        d->check = now + CHECK_EVERY;
        d->suspect = 0;
        return;
    }
    const double passed = now - d->last, quarter = deadline_of(comm, d) / 4;
    if (passed > STOPPED)
        d->start += passed - (quarter < STOPPED ? quarter : STOPPED);
    d->last = now;
}

/* Probes that make system calls or scan many records. */
static enum plait_status probe_rarely(struct plait_comm *comm, struct plait_detector *d, double now)
{
    enum plait_status status = plait_probe_past_calls(comm);

    if (status == PLAIT_OK)
        status = probe_descriptors(comm);
    if (status == PLAIT_OK)
        status = probe_suspects(comm, d, now);
    d->check = now + (d->suspect > 0 ? 0 : CHECK_EVERY);
    return status;
}

enum plait_status plait_detector_probe(struct plait_comm *comm, struct plait_detector *d, double now)
{
    keep_time(comm, d, now);
    if (!PLAIT_GUARDS)
        return PLAIT_OK;
    publish(comm, d);
    enum plait_status status = plait_detector_of_collective(d) ? probe_calls(comm) : plait_probe_failures(comm);
    if (status == PLAIT_OK)
        status = probe_claim(comm, now);
    atomic_store_explicit(&comm->own->seen, now, memory_order_relaxed);
    if (status == PLAIT_OK && (now >= d->check || now - d->start >= deadline_of(comm, d)))
        status = probe_rarely(comm, d, now);
    return status == PLAIT_OK && d->suspect == 0 ? probe_clock(comm, d, now) : status;
}
