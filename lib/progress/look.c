/* SPDX-License-Identifier: BSD-3-Clause */
#include "look.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "bootstrap/origin.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "failure/remote/update.h"
#include "progress.h"
#include "stall.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define MOST_DYING 1.0 /* seconds, at most, from the loss of a process's memory until its death shows */

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
    const char *remedy = "";

    if (sequence != comm->sequence || atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= sequence)
        snprintf(earlier, sizeof earlier, "in %s%s #%llu ", plait_coll_name(a->coll), a->sized ? "v" : "",
                 (unsigned long long)sequence);
    if (a->coll != b->coll || a->sized != b->sized)
        snprintf(what, sizeof what, "collective is %s%s here and %s%s", plait_coll_name(a->coll), a->sized ? "v" : "",
                 plait_coll_name(b->coll), b->sized ? "v" : "");
    else if (a->count != b->count && !a->sized)
        snprintf(what, sizeof what, "count is %llu here and %llu", (unsigned long long)a->count,
                 (unsigned long long)b->count);
    else if (a->type != b->type)
        snprintf(what, sizeof what, "type is %s here and %s", plait_dtype_name(a->type), plait_dtype_name(b->type));
    else if (a->op != b->op)
        snprintf(what, sizeof what, "operator is %s here and %s", plait_op_name(a->op), plait_op_name(b->op));
    else if (a->root != b->root)
        snprintf(what, sizeof what, "root is %u here and %u", a->root, b->root);
    else if (a->count != b->count && a->sized)
        snprintf(what, sizeof what, "the largest block has %llu elements here and %llu", (unsigned long long)a->count,
                 (unsigned long long)b->count);
    else if (a->ordered != b->ordered)
        snprintf(what, sizeof what, "call->user->commutative is %d here and %d", !a->ordered, !b->ordered);
    else if (a->inplace != b->inplace) {
        snprintf(what, sizeof what, "call is %s here and %s", a->inplace ? "in place" : "out of place",
                 b->inplace ? "in place" : "out of place");
        remedy = "; a program's own algorithm needs it on all ranks or on none";
    } else if (a->device != b->device)
        snprintf(what, sizeof what, "memory is %s here and %s", a->device ? "a GPU's" : "the host's",
                 b->device ? "a GPU's" : "the host's");
    else if (a->factor != b->factor)
        snprintf(what, sizeof what, "out of plait_fusion_set_scale() is %.9g here and %.9g", (double)a->factor,
                 (double)b->factor);
    else if (a->mark != b->mark)
        snprintf(what, sizeof what, "call->mark is 0x%x here and 0x%x", a->mark, b->mark);
    else if (strncmp(a->algorithm, b->algorithm, sizeof a->algorithm) != 0)
        snprintf(what, sizeof what, "algorithm is %.21s here and %.21s", a->algorithm, b->algorithm);
    else if (a->settings != b->settings)
        snprintf(what, sizeof what, "choice (slice, rounding, configuration) is %08x here and %08x", a->settings,
                 b->settings);
    else
        snprintf(what, sizeof what,
                 "emit of algorithm %.21s depends on more than shape and rank: its plans hash to %08x here and %08x",
                 a->algorithm, a->plans, b->plans);
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "%s%s on rank %u%s", earlier, what, rank, remedy);
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

enum plait_status plait_look_at_calls(struct plait_comm *comm)
{
    bool all;
    const enum plait_status status = plait_look_for_failures(comm);
    const uint32_t other = status == PLAIT_OK ? find_difference(comm, comm->sequence, &all) : comm->nrank;

    if (other == comm->nrank)
        return status;
    const enum plait_status earlier = plait_look_at_past_calls(comm); /* the cause of later differences */
    return earlier != PLAIT_OK ? earlier : mismatch(comm, other, comm->sequence);
}

enum plait_status plait_look_at_past_calls(struct plait_comm *comm)
{
    uint64_t s = atomic_load_explicit(&comm->own->unheard, memory_order_relaxed);
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
    atomic_store_explicit(&comm->own->unheard, s, memory_order_relaxed);
    return PLAIT_OK;
}

bool plait_peer_finished(const struct plait_comm *comm, uint32_t rank)
{
    return atomic_load_explicit(&comm->peers[rank].control->done, memory_order_acquire) >= comm->sequence;
}

/* Its control block is gone: creation failed on that rank, perhaps because another rank died. */
static bool unborn(const struct plait_comm *comm, uint32_t rank)
{
    return atomic_load_explicit(&comm->peers[rank].control->id, memory_order_relaxed) != comm->id;
}

bool plait_wait_needs(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank)
{
    return plait_wait_is_for_all(w) ? !plait_peer_finished(comm, rank) : w->kind->needs(w->context, rank);
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

/* The lowest needed rank that has left; else one that died; else one whose creation failed; else UINT32_MAX. */
static uint32_t find_gone(const struct plait_comm *comm, const struct plait_wait *w)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (atomic_load_explicit(&comm->peers[r].control->departed, memory_order_acquire) &&
            plait_wait_needs(comm, w, r))
            return r;
    if (comm->remote != NULL || (comm->nprocess > 0 && poll(comm->processes, comm->nprocess, 0) > 0))
        for (uint32_t r = 0; r < comm->nrank; r++)
            if (r != comm->rank && plait_wait_needs(comm, w, r) && plait_peer_died(&comm->peers[r]))
                return r;
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (unborn(comm, r) && plait_wait_needs(comm, w, r))
            return r;
    return UINT32_MAX;
}

/* If the program has closed the library's descriptors, deaths or updates from other hosts would go unseen. */
static enum plait_status look_at_descriptors(struct plait_comm *comm)
{
    enum plait_status status = plait_remote_check(comm->remote);

    for (uint32_t i = 0; i < comm->nprocess && status == PLAIT_OK; i++)
        status = plait_descriptor_check(comm->processes[i].fd);
    if (status == PLAIT_OK)
        return PLAIT_OK;
    char text[256];
    snprintf(text, sizeof text, "%s", plait_last_error());
    return plait_comm_blame(comm, status, comm->rank, "%s", text);
}

enum plait_status plait_look_for_gone(struct plait_comm *comm, struct plait_wait *w, double now)
{
    const enum plait_status status = look_at_descriptors(comm);
    if (status != PLAIT_OK)
        return status;
    const uint32_t gone = find_gone(comm, w);

    if (gone == UINT32_MAX || plait_progress_expects()) { /* or its data are still in flight */
        w->suspect = 0;
        return PLAIT_OK;
    }
    if (w->suspect != gone + 1) { /* poll once more: its last messages may have arrived */
        w->suspect = gone + 1;
        w->suspected = now;
        return PLAIT_OK;
    }
    const struct plait_control *c = comm->peers[gone].control;
    const unsigned long long done = atomic_load_explicit(&c->done, memory_order_relaxed);
    if (atomic_load_explicit(&c->departed, memory_order_relaxed))
        return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u left the comm after operation #%llu", gone, done);
    const struct plait_peer *p = &comm->peers[gone];
    if (p->replica != NULL)
        return plait_comm_blame(comm, PLAIT_ERR_PEER, gone,
                                "rank %u (process %d on %s) died after operation #%llu or a later one", gone,
                                p->replica->pid, p->replica->host, done); /* its last update may be missing */
    if (unborn(comm, gone) && !plait_process_dead(p->process))            /* a death that caused this shows soon */
        return now - w->suspected < MOST_DYING && now - w->start < plait_deadline_of(comm, w)
                   ? PLAIT_OK
                   : plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u gave up while the comm was made", gone);
    return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u (process %d) died after operation #%llu", gone,
                            p->process->pid, done);
}

enum plait_status plait_look_at_claim(struct plait_comm *comm, double now)
{
    enum plait_status status;

    if (now < comm->claim_seen + 1)
        return PLAIT_OK;
    comm->claim_seen = now;
    status = plait_claim_check(&comm->nodes.claim, comm->rank);
    return status == PLAIT_OK ? PLAIT_OK : plait_comm_fail(comm, status, "%s", plait_last_error());
}

/* A single copy failed. If the sender is dying, wait until its death shows. */
enum plait_status plait_look_at_unread(struct plait_comm *comm, const struct plait_wait *w, double now)
{
    const struct plait_unread *u = &comm->unread;

    if (u->error == 0 || w->suspect != 0 || (u->error == ESRCH && now - w->start < MOST_DYING))
        return PLAIT_OK;
    return plait_comm_blame(comm, u->error == ESRCH ? PLAIT_ERR_PEER : PLAIT_ERR_SYSTEM, u->rank,
                            "cannot copy %zu bytes at %#llx of rank %u (process %d) to %p: process_vm_readv: %s; are "
                            "both buffers as long as count says? PLAIT_CMA=0 does without the call",
                            u->bytes, (unsigned long long)u->address, u->rank, comm->peers[u->rank].process->pid, u->to,
                            strerror(u->error));
}

/* The lowest needed rank with a broken link, and the reason; or UINT32_MAX. */
static uint32_t find_cut_off(const struct plait_comm *comm, const struct plait_wait *w, const char **why)
{
    for (uint32_t i = 0; comm->port != NULL && i < comm->nrank * PLAIT_NCHANNEL; i++) {
        const uint32_t rank = i / PLAIT_NCHANNEL;
        const struct plait_link *link = comm->peers[rank].link[i % PLAIT_NCHANNEL];
        *why = link != NULL && link->transport->broken != NULL ? link->transport->broken(link) : NULL;
        if (*why != NULL && plait_wait_needs(comm, w, rank))
            return rank;
    }
    return UINT32_MAX;
}

/* The lowest rank that died, needed or not; or UINT32_MAX. */
static uint32_t find_dead(const struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (r != comm->rank && plait_peer_died(&comm->peers[r]))
            return r;
    return UINT32_MAX;
}

/*
 * If the rank has left or died, control-plane updates will tell soon: they use other connections. If the relay of
 * updates (rank 0) died, that death made the rank leave, and the text names the dead rank.
 */
enum plait_status plait_look_at_links(struct plait_comm *comm, struct plait_wait *w, double now)
{
    const char *why;
    const uint32_t rank = find_cut_off(comm, w, &why);

    if (rank == UINT32_MAX)
        w->cut = 0;
    else if (w->cut == 0)
        w->cut = now;
    if (rank == UINT32_MAX || now - w->cut < MOST_DYING)
        return PLAIT_OK;
    const uint32_t dead = find_dead(comm);
    if (dead == UINT32_MAX || dead == rank)
        return plait_comm_blame(comm, PLAIT_ERR_PEER, rank, "rank %u cannot be reached any more: %s", rank, why);
    return plait_comm_blame(comm, PLAIT_ERR_PEER, dead,
                            "rank %u (process %d) died, and rank %u cannot be reached any more: %s", dead,
                            plait_peer_pid(&comm->peers[dead]), rank, why);
}
