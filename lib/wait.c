/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait.h"

#include "clock.h"
#include "log.h"
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
#define DEATHS_EVERY 0.05    /* seconds between looks for dead processes */

/* ---- Failing --------------------------------------------------------------------------------------- */

static const struct plait_record *record_of(const struct plait_comm *comm, uint32_t rank)
{
    return plait_control_record(comm->peers[rank].control, comm->sequence);
}

static void describe(const struct plait_comm *comm, char *text, size_t size)
{
    const struct plait_record *r = record_of(comm, comm->rank);
    const uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

    if ((uint32_t)word != (uint32_t)comm->sequence || comm->sequence == 0)
        snprintf(text, size, "comm '%s'", comm->name);
    else if (r->coll == PLAIT_BARRIER)
        snprintf(text, size, "comm '%s', barrier #%llu", comm->name, (unsigned long long)comm->sequence);
    else
        snprintf(text, size, "comm '%s', %s #%llu (%llu %s %s, %s)", comm->name, plait_coll_name(r->coll),
                 (unsigned long long)comm->sequence, (unsigned long long)r->count, plait_dtype_name(r->type),
                 plait_op_name(r->op), r->algorithm);
}

void plait_announce_failure(struct plait_comm *comm, enum plait_status status, const char *text)
{
    uint32_t none = 0;

    /* The first failure stays; abort may come from another thread at the same time. */
    if (atomic_compare_exchange_strong(&comm->own->failing, &none, 1)) {
        snprintf(comm->own->failure, sizeof comm->own->failure, "%s", text);
        atomic_store(&comm->own->failed, status); /* before the looks of wait_for_insiders (comm.c) */
    }
    plait_ring(comm);
}

/* Fail on this rank with this text, and let the others know. */
static enum plait_status poison(struct plait_comm *comm, enum plait_status status, const char *text)
{
    char copy[sizeof comm->own->failure]; /* it may be this rank's own failure that is passed on */

    snprintf(copy, sizeof copy, "%s", text);
    comm->failed = status;
    plait_announce_failure(comm, status, copy);
    return plait_fail(status, "%s", copy);
}

enum plait_status plait_comm_fail(struct plait_comm *comm, enum plait_status status, const char *format, ...)
{
    char text[512], where[160];
    va_list args;

    describe(comm, where, sizeof where);
    const int n = snprintf(text, sizeof text, "%s: rank %u: ", where, comm->rank);
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    return poison(comm, status, text);
}

/* ---- Looking at the others ------------------------------------------------------------------------- */

static enum plait_status mismatch(struct plait_comm *comm, uint32_t rank)
{
    const struct plait_record *a = record_of(comm, comm->rank), *b = record_of(comm, rank);
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
    else if (a->inplace != b->inplace)
        snprintf(what, sizeof what, "call is %s here and %s", a->inplace ? "in place" : "out of place",
                 b->inplace ? "in place" : "out of place");
    else if (strncmp(a->algorithm, b->algorithm, sizeof a->algorithm) != 0)
        snprintf(what, sizeof what, "algorithm is %.31s here and %.31s", a->algorithm, b->algorithm);
    else
        snprintf(what, sizeof what, "plan (slice, rounding, configuration) is %016llx here and %016llx",
                 (unsigned long long)a->plan, (unsigned long long)b->plan);
    return plait_comm_fail(comm, PLAIT_ERR_MISMATCH, "%s on rank %u", what, rank);
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
            return poison(comm, (enum plait_status)failed, c->failure);
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

/* The lowest rank that is gone without having finished, or NONE. */
static uint32_t find_gone(struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if ((atomic_load_explicit(&comm->peers[r].control->departed, memory_order_acquire) ||
             atomic_load_explicit(&comm->peers[r].control->id, memory_order_relaxed) != comm->id) &&
            !finished(comm, r))
            return r;
    if (comm->nprocess == 0 || poll(comm->processes, comm->nprocess, 0) <= 0)
        return UINT32_MAX;
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_process *p = comm->peers[r].process;
        if (r != comm->rank && p->base != NULL && !finished(comm, r) && plait_process_dead(p))
            return r;
    }
    return UINT32_MAX;
}

static enum plait_status look_for_gone(struct plait_comm *comm, struct plait_wait *w)
{
    const uint32_t gone = find_gone(comm);

    if (gone == UINT32_MAX)
        return PLAIT_OK;
    if (w->suspect != gone + 1) { /* once more around: its last messages may have arrived */
        w->suspect = gone + 1;
        return PLAIT_OK;
    }
    const struct plait_control *c = comm->peers[gone].control;
    const unsigned long long done = atomic_load_explicit(&c->done, memory_order_relaxed);
    if (atomic_load_explicit(&c->departed, memory_order_relaxed))
        return plait_comm_fail(comm, PLAIT_ERR_PEER, "rank %u left the comm after operation #%llu", gone, done);
    return plait_comm_fail(comm, PLAIT_ERR_PEER, "rank %u (process %d) died after operation #%llu", gone,
                           comm->peers[gone].process->pid, done);
}

/* ---- Stalls ---------------------------------------------------------------------------------------- */

/* Whom is everyone waiting for? A rank that has not called; else the end of the chain of waits. */
static void blame(const struct plait_comm *comm, const struct plait_wait *w, char *text, size_t size)
{
    size_t n = 0;
    unsigned absent = 0;
    uint32_t at = comm->rank;

    for (uint32_t r = 0; r < comm->nrank && n + 24 < size; r++)
        if ((uint32_t)atomic_load_explicit(&record_of(comm, r)->word, memory_order_acquire) !=
                (uint32_t)comm->sequence &&
            !finished(comm, r))
            n += (size_t)snprintf(text + n, size - n, "%s%u", absent++ ? ", " : "rank ", r);
    if (absent > 0) {
        snprintf(text + n, size - n, " has not called it");
        return;
    }
    for (uint32_t i = 0; i <= comm->nrank; i++) {
        uint32_t next = atomic_load_explicit(&comm->peers[at].control->waiting_for, memory_order_relaxed);
        if (at == comm->rank && w->awaited(w->context, &next, 1) > 0)
            next++;
        if (next == 0 || next > comm->nrank)
            break;
        at = next - 1;
        if (i == comm->nrank) { /* the chain never ends */
            snprintf(text, size, "ranks wait for each other, rank %u among them: a fault in the plan or the library",
                     at);
            return;
        }
    }
    snprintf(text, size, "rank %u is in it and does not answer", at);
}

static enum plait_status look_at_clock(struct plait_comm *comm, struct plait_wait *w, double now)
{
    char who[256];

    if (now - w->start < comm->warn && now - w->start < comm->call_deadline)
        return PLAIT_OK;
    blame(comm, w, who, sizeof who);
    if (now - w->start >= comm->call_deadline)
        return plait_comm_fail(comm, PLAIT_ERR_TIMEOUT, "no progress for %g s: %s", comm->call_deadline, who);
    if (!w->warned) {
        char where[160];
        describe(comm, where, sizeof where);
        plait_log(PLAIT_LOG_WARN, "%s: rank %u: no progress for %g s: %s", where, comm->rank, comm->warn, who);
        w->warned = true;
    }
    return PLAIT_OK;
}

static enum plait_status look(struct plait_comm *comm, struct plait_wait *w, double now)
{
    enum plait_status status = look_at_calls(comm);

    if (status == PLAIT_OK && now >= w->check) {
        status = look_for_gone(comm, w);
        w->check = now + (w->suspect ? 0 : DEATHS_EVERY);
    }
    return status == PLAIT_OK ? look_at_clock(comm, w, now) : status;
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
    if (w->nbell > 0)
        atomic_store_explicit(&comm->own->waiting_for, w->ranks[0] + 1, memory_order_relaxed);
    for (uint32_t i = 0; i < w->nbell; i++)
        w->bells[i] = atomic_load(&comm->peers[w->ranks[i]].control->bell);
}

enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->turns++ % LOOK_EVERY == 0 || w->sleepy) {
        const double now = plait_clock();
        if (!w->timed) {
            w->timed = true;
            w->start = now;
            w->check = now + DEATHS_EVERY;
        }
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
