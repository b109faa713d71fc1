/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait.h"

#include "clock.h"
#include "report.h"
#include "status.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_EVERY   8       /* long turns between looks at the others and the clock */
#define YIELD_FOR    2e-3    /* seconds without progress before sleeping */
#define SLEEP_NS     1000000 /* longest sleep */
#define MOST_YIELDS  10000
#define DEATHS_EVERY 0.05 /* seconds between looks for dead processes */
#define STOPPED      2.0 /* seconds between looks: this process did not run, perhaps all ranks were stopped; not a wait */

/* ---- Failing --------------------------------------------------------------------------------------- */

static const struct plait_record *record_of(const struct plait_comm *comm, uint32_t rank)
{
    return plait_ring_record(&comm->peers[rank].control->ring, comm->sequence);
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

static enum plait_status mismatch(struct plait_comm *comm, uint32_t rank)
{
    const struct plait_what *a = &record_of(comm, comm->rank)->what, *b = &record_of(comm, rank)->what;
    char what[160];

    if (a->coll != b->coll)
        snprintf(what, sizeof what, "collective is %s here and %s", plait_coll_name(a->coll), plait_coll_name(b->coll));
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
        snprintf(what, sizeof what, "algorithm is %.31s here and %.31s", a->algorithm, b->algorithm);
    else
        snprintf(what, sizeof what, "plan (slice, rounding, configuration) is %016llx here and %016llx",
                 (unsigned long long)a->plan, (unsigned long long)b->plan);
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "%s on rank %u", what, rank);
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

/* Has another rank failed, or called operation `sequence` with other arguments? */
static enum plait_status look_at_calls(struct plait_comm *comm)
{
    const uint64_t own = atomic_load_explicit(&record_of(comm, comm->rank)->word, memory_order_relaxed);
    const enum plait_status status = plait_look_for_failures(comm);

    for (uint32_t r = 0; r < comm->nrank && status == PLAIT_OK; r++) {
        const uint64_t word = atomic_load_explicit(&record_of(comm, r)->word, memory_order_acquire);
        if ((uint32_t)word == (uint32_t)own && word != own)
            return mismatch(comm, r);
    }
    return status;
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

/* The lowest rank that is gone without having finished, or NONE: one that left, else died, else was never there. */
static uint32_t find_gone(struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (atomic_load_explicit(&comm->peers[r].control->departed, memory_order_acquire) && !finished(comm, r))
            return r;
    if (comm->nprocess > 0 && poll(comm->processes, comm->nprocess, 0) > 0)
        for (uint32_t r = 0; r < comm->nrank; r++) {
            const struct plait_process *p = comm->peers[r].process;
            if (r != comm->rank && p->base != NULL && !finished(comm, r) && plait_process_dead(p))
                return r;
        }
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (unborn(comm, r) && !finished(comm, r))
            return r;
    return UINT32_MAX;
}

static enum plait_status look_for_gone(struct plait_comm *comm, struct plait_wait *w)
{
    const uint32_t gone = find_gone(comm);

    if (gone == UINT32_MAX) {
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
    if (unborn(comm, gone) && !plait_process_dead(comm->peers[gone].process))
        return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u gave up while the comm was made", gone);
    return plait_comm_blame(comm, PLAIT_ERR_PEER, gone, "rank %u (process %d) died after operation #%llu", gone,
                            comm->peers[gone].process->pid, done);
}

/* ---- Stalls ---------------------------------------------------------------------------------------- */

/* Write down that this rank waits and for whom, where everybody can read it: it may be stopped at any moment. */
static void note_wait(struct plait_comm *comm, const struct plait_wait *w, uint64_t now)
{
    struct plait_progress *p;
    uint32_t rank;

    if (!PLAIT_GUARDS || atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= comm->sequence)
        return; /* a wait in destroy */
    p = plait_ring_progress(&comm->own->ring, comm->sequence);
    if (atomic_load_explicit(&p->sequence, memory_order_relaxed) != comm->sequence)
        plait_progress_begin(&comm->own->ring, comm->sequence, now, 1, comm->nrank - 1); /* a tiny operation */
    if (w->steps != NULL)
        atomic_store_explicit(&p->steps, w->steps(w->context), memory_order_relaxed);
    if (w->awaited(w->context, &rank, 1) > 0) {
        atomic_store_explicit(&p->waiting_for, rank + 1, memory_order_relaxed);
        atomic_store_explicit(&p->waited_for, rank + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&p->looked, now, memory_order_relaxed);
}

void plait_wait_over(struct plait_comm *comm)
{
    struct plait_progress *p = plait_ring_progress(&comm->own->ring, comm->sequence);

    if (atomic_load_explicit(&p->sequence, memory_order_relaxed) == comm->sequence && comm->failed == PLAIT_OK)
        atomic_store_explicit(&p->waiting_for, 0, memory_order_relaxed);
}

/* Neither done nor looking around, as ranks do that wait: since the middle of this wait. */
static bool silent(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank, double now)
{
    const double seen = atomic_load_explicit(&comm->peers[rank].control->seen, memory_order_relaxed);
    return !finished(comm, rank) && seen < (w->start + now) / 2;
}

static bool called(const struct plait_comm *comm, uint32_t rank)
{
    return (uint32_t)atomic_load_explicit(&record_of(comm, rank)->word, memory_order_acquire) ==
           (uint32_t)comm->sequence;
}

struct verdict {
    uint32_t culprit; /* rank + 1; 0: nobody in particular */
    char text[256];
};

__attribute__((format(printf, 2, 3))) static void add(struct verdict *v, const char *format, ...)
{
    const size_t n = strlen(v->text);
    va_list args;

    va_start(args, format);
    vsnprintf(v->text + n, sizeof v->text - n, format, args);
    va_end(args);
}

/* The silent ranks that have, or have not, called this operation. */
static void name_silent(const struct plait_comm *comm, const struct plait_wait *w, double now, bool inside,
                        struct verdict *v)
{
    struct plait_operation o;
    char progress[80] = "";
    unsigned found = 0;

    for (uint32_t r = 0; r < comm->nrank && found < 16; r++)
        if (silent(comm, w, r, now) && called(comm, r) == inside) {
            add(v, "%s%u", found++ > 0 ? ", " : v->text[0] != '\0' ? "; rank " : "rank ", r);
            v->culprit = v->culprit > 0 ? v->culprit : r + 1;
            if (inside && plait_comm_operation(comm, r, comm->sequence, &o))
                plait_operation_progress(&o, progress, sizeof progress);
        }
    if (found > 0 && inside)
        add(v, " is in it%s%s and does not answer", found == 1 ? progress : "", found == 1 && progress[0] ? "," : "");
    else if (found > 0)
        add(v, " has not called it");
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
    uint32_t at, next;

    v->culprit = 0;
    v->text[0] = '\0';
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
    add(v, "rank %u is in it and does not answer", at);
}

/* Of the operation in progress. */
static double deadline_of(const struct plait_comm *comm)
{
    return comm->call != NULL && comm->call->deadline > 0 ? comm->call->deadline : comm->deadline;
}

/* The warning and the error say the same, at different times. */
#define STALLED "no progress for %g s: %s"

static enum plait_status look_at_clock(struct plait_comm *comm, struct plait_wait *w, double now)
{
    const double waited = now - w->start;
    const double deadline = deadline_of(comm);
    struct verdict v;

    if (waited < deadline && (waited < comm->warn || w->warned))
        return PLAIT_OK;
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
    enum plait_status status = look_at_calls(comm);

    atomic_store_explicit(&comm->own->seen, now, memory_order_relaxed);
    if (status == PLAIT_OK && (now >= w->check || now - w->start >= deadline_of(comm))) {
        status = look_for_gone(comm, w);
        w->check = now + (w->suspect ? 0 : DEATHS_EVERY);
    }
    return status == PLAIT_OK && !w->suspect ? look_at_clock(comm, w, now) : status; /* a death is no stall */
}

/* ---- Sleeping -------------------------------------------------------------------------------------- */

void plait_ring(struct plait_comm *comm)
{
    atomic_fetch_add_explicit(&comm->own->bell, 1, memory_order_seq_cst);
    syscall(SYS_futex, &comm->own->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    atomic_fetch_add_explicit(&comm->wakes, 1, memory_order_relaxed);
}

struct bell { /* struct futex_waitv, which older kernel headers lack */
    uint64_t value, address;
    uint32_t flags, reserved;
};

static void sleep_on(struct plait_comm *comm, const struct plait_wait *w)
{
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
    struct bell bells[PLAIT_BELLS];
    const struct timespec most = { 0, SLEEP_NS };
    struct timespec until;

    for (uint32_t i = 0; i < w->nbell; i++)
        bells[i] = (struct bell){ w->bells[i], (uintptr_t)&comm->peers[w->ranks[i]].control->bell, 2 /* 32 bits */, 0 };
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLEEP_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    comm->stats.sleeps++;
    if (syscall(SYS_futex_waitv, bells, w->nbell, 0, &until, CLOCK_MONOTONIC) < 0 &&
        (errno == ENOSYS || errno == EPERM))
        syscall(SYS_futex, &comm->peers[w->ranks[0]].control->bell, FUTEX_WAIT, w->bells[0], &most, NULL, 0);
}

/*
 * Announce and read the bells; then the caller polls once more; then sleep. A rank that has news after
 * that poll sees the announcement and rings, which changes its bell.
 */
static void doze(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->announced) {
        if (w->nbell > 0)
            sleep_on(comm, w);
        else
            sched_yield();
    }
    w->announced = true;
    w->nbell = w->awaited(w->context, w->ranks, PLAIT_BELLS);
    atomic_store(&comm->own->asleep, 1);
    for (uint32_t i = 0; i < w->nbell; i++)
        w->bells[i] = atomic_load(&comm->peers[w->ranks[i]].control->bell);
}

static enum plait_status long_turn(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->turns++ % LOOK_EVERY == 0 || w->sleepy) {
        const double now = plait_clock();
        if (!w->timed) {
            w->timed = true;
            w->start = now;
            w->check = now + DEATHS_EVERY;
        } else if (now - w->last > STOPPED) {
            w->start += now - w->last;
        }
        w->last = now;
        note_wait(comm, w, (uint64_t)(now * 1e9));
        const enum plait_status status = look(comm, w, now);
        if (status != PLAIT_OK)
            return status;
        w->sleepy = now - w->start > YIELD_FOR;
    }
    if (w->sleepy) {
        doze(comm, w);
    } else {
        comm->stats.yields++;
        sched_yield();
    }
    return PLAIT_OK;
}

/* Sleeps end with errors that are none: the caller's errno stays. */
enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w)
{
    const int saved = errno;
    const enum plait_status status = long_turn(comm, w);

    errno = saved;
    return status;
}
