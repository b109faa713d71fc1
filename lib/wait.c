/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait.h"

#include "clock.h"
#include "fusion/fusion.h"
#include "progress.h"
#include "remote/remote.h"
#include "report.h"
#include "status.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOOK_EVERY   8    /* long turns between looks at the others and the clock */
#define YIELD_FOR    2e-3 /* seconds without progress before sleeping */
#define MOST_YIELDS  10000
#define DEATHS_EVERY 0.05 /* seconds between looks for dead processes */
#define MOST_DYING   1.0  /* seconds from the loss of a process's memory to its end */
#define INSTEAD      320  /* bytes of text on what a rank does that has not called an operation */
#define STOPPED      2.0 /* seconds between looks: this process did not run, perhaps all ranks were stopped; not a wait */

/* ---- Failing --------------------------------------------------------------------------------------- */

static const struct plait_record *record_of(const struct plait_comm *comm, uint32_t rank, uint64_t sequence)
{
    return plait_ring_record(&comm->peers[rank].control->ring, sequence);
}

void plait_announce_failure(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit)
{
    uint32_t none = 0;

    /* The first failure stays; abort may come from another thread at the same time. */
    if (atomic_compare_exchange_strong(&comm->own->failing, &none, 1)) {
        snprintf(comm->own->failure, sizeof comm->own->failure, "%s", text);
        comm->own->culprit = culprit;
        atomic_store(&comm->own->failed, status); /* before the looks of wait_for_insiders (comm.c) */
    } else {
        for (unsigned i = 0; i < MOST_YIELDS && atomic_load(&comm->own->failed) == PLAIT_OK; i++)
            sched_yield(); /* the other writes its text; this may be a signal's handler in its thread */
    }
    plait_ring(comm);
    plait_remote_tell(comm->remote);
}

/* Fail on this rank with this text, and let the others know. */
static enum plait_status poison(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit)
{
    char copy[sizeof comm->own->failure]; /* it may be this rank's own failure that is passed on */

    snprintf(copy, sizeof copy, "%s", text);
    comm->failed = status;
    plait_announce_failure(comm, status, copy, culprit);
    atomic_store(&comm->own->noticed, 1); /* before the log's callback, which may take its time */
    plait_comm_tell_failure(comm, copy, culprit);
    return plait_fail(status, "%s", copy);
}

/* culprit: rank + 1; 0: none */
static enum plait_status fail(struct plait_comm *comm, enum plait_status status, uint32_t culprit, const char *format,
                              va_list args)
{
    char text[sizeof comm->own->failure];
    const size_t n = plait_comm_where(comm, text, sizeof text);

    vsnprintf(text + n, sizeof text - n, format, args);
    return poison(comm, status, text, culprit);
}

enum plait_status plait_comm_fail(struct plait_comm *comm, enum plait_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    status = fail(comm, status, 0, format, args);
    va_end(args);
    return status;
}

enum plait_status plait_comm_blame(struct plait_comm *comm, enum plait_status status, uint32_t culprit,
                                   const char *format, ...)
{
    va_list args;

    va_start(args, format);
    status = fail(comm, status, culprit + 1, format, args);
    va_end(args);
    return status;
}

/* ---- Looking at the others ------------------------------------------------------------------------- */

/* They differ in an operation: the one in progress, or an earlier one, which is named. */
static enum plait_status mismatch(struct plait_comm *comm, uint32_t rank, uint64_t sequence)
{
    const struct plait_what *a = &record_of(comm, comm->rank, sequence)->what;
    const struct plait_what *b = &record_of(comm, rank, sequence)->what;
    char what[160], earlier[64] = "";

    if (sequence != comm->sequence || atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= sequence)
        snprintf(earlier, sizeof earlier, "in %s%s #%llu ", plait_coll_name(a->coll), a->sized ? "v" : "",
                 (unsigned long long)sequence);
    if (a->coll != b->coll || a->sized != b->sized)
        snprintf(what, sizeof what, "collective is %s%s here and %s%s", plait_coll_name(a->coll), a->sized ? "v" : "",
                 plait_coll_name(b->coll), b->sized ? "v" : "");
    else if (a->count != b->count)
        snprintf(what, sizeof what, "count is %llu here and %llu", (unsigned long long)a->count,
                 (unsigned long long)b->count);
    else if (a->type != b->type)
        snprintf(what, sizeof what, "type is %s here and %s", plait_dtype_name(a->type), plait_dtype_name(b->type));
    else if (a->op != b->op)
        snprintf(what, sizeof what, "operator is %s here and %s", plait_op_name(a->op), plait_op_name(b->op));
    else if (a->root != b->root)
        snprintf(what, sizeof what, "root is %u here and %u", a->root, b->root);
    else if (a->ordered != b->ordered)
        snprintf(what, sizeof what, "call->user->commutative is %d here and %d", !a->ordered, !b->ordered);
    else if (a->inplace != b->inplace)
        snprintf(what, sizeof what, "call is %s here and %s", a->inplace ? "in place" : "out of place",
                 b->inplace ? "in place" : "out of place");
    else if (strncmp(a->algorithm, b->algorithm, sizeof a->algorithm) != 0)
        snprintf(what, sizeof what, "algorithm is %.30s here and %.30s", a->algorithm, b->algorithm);
    else
        snprintf(what, sizeof what, "plan (slice, rounding, configuration) is %016llx here and %016llx",
                 (unsigned long long)a->plan, (unsigned long long)b->plan);
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "%s%s on rank %u", earlier, what, rank);
}

enum plait_status plait_look_for_failures(struct plait_comm *comm)
{
    /*
     * What was read before was read before these flags. The fence orders loads only: no data is passed by it, so that
     * tools which do not know fences (thread sanitizers) miss nothing.
     */
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_control *c = comm->peers[r].control;
        const int32_t failed = atomic_load(&c->failed);
        if (__builtin_expect(failed != PLAIT_OK, 0))
            return poison(comm, (enum plait_status)failed, c->failure, c->culprit);
    }
    return PLAIT_OK;
}

/* A rank that called this operation with other arguments, or nrank. *all: the others have called it. */
static uint32_t find_difference(const struct plait_comm *comm, uint64_t sequence, bool *all)
{
    const uint64_t own = atomic_load_explicit(&record_of(comm, comm->rank, sequence)->word, memory_order_relaxed);

    *all = true;
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const uint64_t word = atomic_load_explicit(&record_of(comm, r, sequence)->word, memory_order_acquire);
        if ((uint32_t)word == (uint32_t)own && word != own)
            return r;
        /* Or later ones, in the same place of the ring; of other hosts' ranks not all records come. */
        *all &= (int32_t)((uint32_t)word - (uint32_t)own) >= 0 ||
                (comm->peers[r].mirror != NULL &&
                 atomic_load_explicit(&comm->peers[r].control->done, memory_order_acquire) >= sequence);
    }
    return comm->nrank;
}

/* Has another rank failed, or called the operation in progress with other arguments? */
static enum plait_status look_at_calls(struct plait_comm *comm)
{
    bool all;
    const enum plait_status status = plait_look_for_failures(comm);
    const uint32_t other = status == PLAIT_OK ? find_difference(comm, comm->sequence, &all) : comm->nrank;

    return other < comm->nrank ? mismatch(comm, other, comm->sequence) : status;
}

enum plait_status plait_look_at_past_calls(struct plait_comm *comm)
{
    bool all = true;

    for (; PLAIT_GUARDS && comm->unheard > 0 && all; comm->unheard += all) {
        if (comm->unheard + PLAIT_NRECORD <= comm->sequence) /* the ring has forgotten it */
            comm->unheard = comm->sequence - PLAIT_NRECORD + 1;
        const uint32_t other = find_difference(comm, comm->unheard, &all);
        if (other < comm->nrank)
            return mismatch(comm, other, comm->unheard);
        if (all && comm->unheard == comm->sequence) {
            comm->unheard = 0;
            return PLAIT_OK;
        }
    }
    return PLAIT_OK;
}

/* A rank that has left or died cannot finish this operation, unless it has done so already. */
static bool finished(const struct plait_comm *comm, uint32_t rank)
{
    return atomic_load_explicit(&comm->peers[rank].control->done, memory_order_acquire) >= comm->sequence;
}

/* Its block is no longer there: it did not get through creation, which somebody's death may have cut short. */
static bool unborn(const struct plait_comm *comm, uint32_t rank)
{
    return atomic_load_explicit(&comm->peers[rank].control->id, memory_order_relaxed) != comm->id;
}

/* Can this wait not end without that rank? Messages are awaited from some ranks, a collective from all. */
static bool needs(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank)
{
    return w->blame != NULL ? w->needs(w->context, rank) : !finished(comm, rank);
}

bool plait_peer_died(const struct plait_peer *p)
{
    return p->mirror != NULL ? atomic_load_explicit(&p->mirror->dead, memory_order_acquire) != 0
                             : p->process->base != NULL && plait_process_dead(p->process);
}

int plait_peer_pid(const struct plait_peer *p)
{
    return p->mirror != NULL ? p->mirror->pid : p->process->pid;
}

/* The lowest rank that is gone and needed, or NONE: one that left, else died, else was never there. */
static uint32_t find_gone(const struct plait_comm *comm, const struct plait_wait *w)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (atomic_load_explicit(&comm->peers[r].control->departed, memory_order_acquire) && needs(comm, w, r))
            return r;
    if (comm->remote != NULL || (comm->nprocess > 0 && poll(comm->processes, comm->nprocess, 0) > 0))
        for (uint32_t r = 0; r < comm->nrank; r++)
            if (r != comm->rank && needs(comm, w, r) && plait_peer_died(&comm->peers[r]))
                return r;
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (unborn(comm, r) && needs(comm, w, r))
            return r;
    return UINT32_MAX;
}

static enum plait_status look_for_gone(struct plait_comm *comm, struct plait_wait *w)
{
    const uint32_t gone = find_gone(comm, w);

    if (gone == UINT32_MAX || plait_progress_expects()) { /* or what it sent is still on its way */
        w->suspect = 0;
        return PLAIT_OK;
    }
    if (w->suspect != gone + 1) { /* once more around: its last messages may have arrived */
        w->suspect = gone + 1;
        return PLAIT_OK;
    }
    const struct plait_control *c = comm->peers[gone].control;
    const unsigned long long done = atomic_load_explicit(&c->done, memory_order_relaxed);
    if (atomic_load_explicit(&c->departed, memory_order_relaxed))
        return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u left the comm after operation #%llu", gone, done);
    const struct plait_peer *p = &comm->peers[gone];
    if (p->mirror != NULL)
        return plait_comm_blame(comm, PLAIT_ERR_PEER, gone,
                                "rank %u (process %d on %s) died after operation #%llu or a later one", gone,
                                p->mirror->pid, p->mirror->host, done); /* it may not have told of its last */
    if (unborn(comm, gone) && !plait_process_dead(p->process))
        return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u gave up while the comm was made", gone);
    return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u (process %d) died after operation #%llu", gone,
                            p->process->pid, done);
}

/* A message is there, but the kernel does not copy it. If its sender is dying, its death is waited for. */
static enum plait_status look_at_unread(struct plait_comm *comm, const struct plait_wait *w, double now)
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

/* The lowest rank that is needed and cannot be reached any more, and why; or UINT32_MAX. */
static uint32_t find_cut_off(const struct plait_comm *comm, const struct plait_wait *w, const char **why)
{
    for (uint32_t i = 0; comm->port != NULL && i < comm->nrank * PLAIT_NCHANNEL; i++) {
        const uint32_t rank = i / PLAIT_NCHANNEL;
        const struct plait_link *link = comm->peers[rank].link[i % PLAIT_NCHANNEL];
        *why = link != NULL && link->transport->broken != NULL ? link->transport->broken(link) : NULL;
        if (*why != NULL && needs(comm, w, rank))
            return rank;
    }
    return UINT32_MAX;
}

/* If it has left or died, that is about to be known: the news take another way. */
static enum plait_status look_at_links(struct plait_comm *comm, struct plait_wait *w, double now)
{
    const char *why;
    const uint32_t rank = find_cut_off(comm, w, &why);

    if (rank == UINT32_MAX)
        w->cut = 0;
    else if (w->cut == 0)
        w->cut = now;
    else if (now - w->cut >= MOST_DYING)
        return plait_comm_blame(comm, PLAIT_ERR_PEER, rank, "rank %u cannot be reached any more: %s", rank, why);
    return PLAIT_OK;
}

/* ---- Stalls ---------------------------------------------------------------------------------------- */

/* Write down that this rank waits and for whom, where everybody can read it: it may be stopped at any moment. */
static void note_wait(struct plait_comm *comm, const struct plait_wait *w, uint64_t now)
{
    struct plait_progress *p;
    uint64_t steps = 0, nstep = 0;
    uint32_t rank;

    if (PLAIT_GUARDS && w->blame != NULL)
        w->note(w->context, now);
    if (!PLAIT_GUARDS || w->blame != NULL ||
        atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= comm->sequence)
        return; /* a wait for messages; in destroy */
    if (w->steps != NULL)
        steps = w->steps(w->context, &nstep);
    p = plait_ring_progress(&comm->own->ring, comm->sequence);
    if (atomic_load_explicit(&p->sequence, memory_order_relaxed) != comm->sequence)
        plait_progress_begin(&comm->own->ring, comm->sequence, now, 1, nstep); /* a tiny operation */
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
    if (w->blame != NULL)
        w->note(w->context, 0);
    else if (atomic_load_explicit(&p->sequence, memory_order_relaxed) == comm->sequence && comm->failed == PLAIT_OK)
        atomic_store_explicit(&p->waiting_for, 0, memory_order_relaxed);
}

/* Neither done nor looking around, as ranks do that wait: since the middle of this wait. */
static bool silent(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now)
{
    const struct plait_peer *p = &comm->peers[rank];
    const double seen = atomic_load_explicit(&p->control->seen, memory_order_relaxed), middle = (w->start + now) / 2;

    if (p->mirror != NULL && rank != 0 && plait_remote_heard(comm->remote) < middle)
        return false; /* nobody tells */
    return !finished(comm, rank) && seen < middle;
}

static bool called(const struct plait_comm *comm, uint32_t rank)
{
    return (uint32_t)atomic_load_explicit(&record_of(comm, rank, comm->sequence)->word, memory_order_acquire) ==
           (uint32_t)comm->sequence;
}

struct verdict {
    uint32_t culprit; /* rank + 1; 0: nobody in particular */
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

/* What a rank does that has not called the operation, or lacks, as far as it shows. */
static void says_instead(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now,
                         char *text, size_t room)
{
    text[0] = '\0';
    if (comm->fusion != NULL)
        plait_fusion_excuse(comm->fusion, rank, text, room);
    else
        plait_comm_waits_in(comm, rank, (w->start + now) / 2, text, room);
}

/* The silent ranks that have not called a fusion's operation: each lacks something else. */
static void name_lacking(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    char instead[INSTEAD];

    for (uint32_t r = 0, found = 0; r < comm->nrank && found < 3; r++)
        if (silent(comm, w, r, now) && !called(comm, r)) {
            says_instead(comm, w, r, now, instead, sizeof instead);
            add(v, "%srank %u has not called it%s", found++ > 0 ? "; " : "", r, instead);
            v->culprit = v->culprit > 0 ? v->culprit : r + 1;
        }
}

/* The silent ranks that have, or have not, called this operation. */
static void name_silent(const struct plait_comm *comm, const struct plait_wait *w, double now, bool inside,
                        struct verdict *v)
{
    struct plait_operation o;
    char progress[80] = "", instead[INSTEAD] = "";
    unsigned found = 0;

    for (uint32_t r = 0; r < comm->nrank && found < 16; r++)
        if (silent(comm, w, r, now) && called(comm, r) == inside) {
            add(v, "%s%u", found++ > 0 ? ", " : v->text[0] != '\0' ? "; rank " : "rank ", r);
            v->culprit = v->culprit > 0 ? v->culprit : r + 1;
            if (found == 1)
                says_instead(comm, w, r, now, instead, sizeof instead);
            if (inside && plait_comm_operation(comm, r, comm->sequence, &o))
                plait_operation_progress(&o, progress, sizeof progress);
        }
    if (found > 0 && inside)
        add(v, " is in it%s%s and does not answer", found == 1 ? progress : "", found == 1 && progress[0] ? "," : "");
    else if (found > 0)
        add(v, " has not called it%s", instead);
}

/* Whom does `rank` wait for in this operation? rank + 1; 0: nobody. */
static uint32_t awaited_by(const struct plait_comm *comm, uint32_t rank)
{
    struct plait_operation o;

    if (!plait_comm_operation(comm, rank, comm->sequence, &o) || !o.has_progress || o.waiting_for > comm->nrank)
        return 0;
    return o.waiting_for;
}

/* Whom is everyone waiting for? Ranks that show no life; else the end of the chain of waits. */
static void blame(const struct plait_comm *comm, const struct plait_wait *w, double now, struct verdict *v)
{
    char instead[INSTEAD];
    uint32_t at, next;

    v->culprit = 0;
    v->text[0] = '\0';
    if (comm->fusion != NULL)
        name_lacking(comm, w, now, v);
    else
        name_silent(comm, w, now, false, v);
    name_silent(comm, w, now, true, v);
    if (v->culprit > 0)
        return;
    if (w->awaited(w->context, &at, 1) == 0)
        at = comm->rank;
    for (uint32_t i = 0; (next = awaited_by(comm, at)) != 0; i++) {
        at = next - 1;
        if (i == comm->nrank) { /* the chain never ends */
            snprintf(v->text, sizeof v->text,
                     "ranks wait for each other, rank %u among them: a fault in the plan or the library", at);
            return;
        }
    }
    v->culprit = at + 1;
    if (called(comm, at)) {
        add(v, "rank %u is in it and does not answer", at);
    } else {
        says_instead(comm, w, at, now, instead, sizeof instead);
        add(v, "rank %u has not called it%s", at, instead);
    }
}

/* Of what is awaited. */
static double deadline_of(const struct plait_comm *comm, const struct plait_wait *w)
{
    const double own = w->blame != NULL ? w->limit : comm->limit;
    return own > 0 ? own : comm->deadline;
}

/* The warning and the error say the same, at different times. */
#define STALLED "no progress for %g s: %s"

static enum plait_status look_at_clock(struct plait_comm *comm, struct plait_wait *w, double now)
{
    const double waited = now - w->start;
    const double deadline = deadline_of(comm, w);
    struct verdict v;

    if (waited < deadline && (waited < comm->warn || w->warned))
        return PLAIT_OK;
    if (w->blame != NULL)
        v.culprit = w->blame(w->context, v.text, sizeof v.text);
    else
        blame(comm, w, now, &v);
    if (waited >= deadline)
        return v.culprit > 0 ? plait_comm_blame(comm, PLAIT_ERR_TIMEOUT, v.culprit - 1, STALLED, deadline, v.text)
                             : plait_comm_fail(comm, PLAIT_ERR_TIMEOUT, STALLED, deadline, v.text);
    plait_comm_log(comm, PLAIT_LOG_WARN, STALLED, comm->warn, v.text);
    w->warned = true;
    return PLAIT_OK;
}

static enum plait_status look(struct plait_comm *comm, struct plait_wait *w, double now)
{
    if (!PLAIT_GUARDS)
        return PLAIT_OK;
    enum plait_status status = w->blame != NULL ? plait_look_for_failures(comm) : look_at_calls(comm);

    atomic_store_explicit(&comm->own->seen, now, memory_order_relaxed);
    if (status == PLAIT_OK && (now >= w->check || now - w->start >= deadline_of(comm, w))) {
        status = plait_look_at_past_calls(comm);
        if (status == PLAIT_OK)
            status = look_for_gone(comm, w);
        if (status == PLAIT_OK)
            status = look_at_unread(comm, w, now);
        if (status == PLAIT_OK && w->suspect == 0)
            status = look_at_links(comm, w, now);
        w->check = now + (w->suspect ? 0 : DEATHS_EVERY);
    }
    return status == PLAIT_OK && !w->suspect ? look_at_clock(comm, w, now) : status; /* a death is no stall */
}

/* ---- Waiting --------------------------------------------------------------------------------------- */

/* What another wait of this process's needs is done meanwhile; then sleep, on what it waits for too. */
static void doze(struct plait_comm *comm, struct plait_wait *w)
{
    uint32_t ranks[PLAIT_BELLS];

    if (w->announced) {
        comm->stats.sleeps++;
        plait_progress_sleep(&w->bells);
    }
    w->announced = true;
    plait_bells_init(&w->bells);
    plait_bells_announce(&w->bells, comm, ranks, w->awaited(w->context, ranks, PLAIT_BELLS));
    plait_progress_announce(&w->bells);
}

/* Note where this rank is, and look at the others. */
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
        w->start += now - w->last;
    }
    w->last = now;
    note_wait(comm, w, (uint64_t)(now * 1e9));
    return look(comm, w, now);
}

static enum plait_status long_turn(struct plait_comm *comm, struct plait_wait *w)
{
    const bool moved = plait_progress(); /* the other rank may wait for another comm of this thread's */

    if (w->turns < plait_spins(comm)) {
        w->turns++;
        plait_pause();
        return PLAIT_OK;
    }
    if (w->turns++ % LOOK_EVERY == 0 || w->sleepy) {
        const enum plait_status status = look_around(comm, w);
        if (status != PLAIT_OK)
            return status;
        w->sleepy = w->last - w->start > YIELD_FOR;
    }
    if (w->sleepy && !moved) {
        doze(comm, w);
    } else {
        comm->stats.yields++;
        sched_yield();
    }
    return PLAIT_OK;
}

enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w)
{
    const int saved = errno; /* of looks that find nothing: the caller's stays */
    const enum plait_status status = long_turn(comm, w);

    errno = saved;
    return status;
}

enum plait_status plait_wait_glance(struct plait_comm *comm, struct plait_wait *w, bool rarely)
{
    const int saved = errno;
    enum plait_status status = PLAIT_OK;

    if (rarely || (w->turns++ >= plait_spins(comm) && w->turns % LOOK_EVERY == 0))
        status = look_around(comm, w);
    errno = saved;
    return status;
}
