/* SPDX-License-Identifier: BSD-3-Clause */
#include "failure.h"

#include "base/clock.h"
#include "base/status.h"
#include "comm/doorbells.h"
#include "failure/remote/remote.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_YIELDS 10000

void plait_announce_failure(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit)
{
    uint32_t none = 0;

    /* The first failure stays. An abort may come from another thread at the same time. */
    if (atomic_compare_exchange_strong(&comm->own->failing, &none, 1)) {
        snprintf(comm->own->failure, sizeof comm->own->failure, "%s", text);
        comm->own->culprit = culprit;
        atomic_store(&comm->own->failed, status); /* before the loads of wait_for_insiders (lifecycle/destroy.c) */
    } else {
        for (unsigned i = 0; i < MOST_YIELDS && atomic_load(&comm->own->failed) == PLAIT_OK; i++)
            sched_yield(); /* another thread writes its text; bounded, as this may be a signal handler in that thread */
    }
    plait_ring(comm);
    plait_remote_tell(comm->remote);
}

/* Fail on this rank with this text, and tell the others. */
static enum plait_status poison(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit)
{
    char copy[sizeof comm->own->failure]; /* the text may be own->failure itself */

    snprintf(copy, sizeof copy, "%s", text);
    comm->failed = status;
    plait_announce_failure(comm, status, copy, culprit);
    atomic_store(&comm->own->noticed, 1); /* before the log's callback, which may be slow */
    plait_comm_tell_failure(comm, copy, culprit);
    return plait_fail(status, "%s", copy);
}

/*
 * Does c's failure concern later operations only? True for an abort, with a culprit, that rank c saw after it had
 * finished the operation in progress here. This rank needs nothing more from rank c, and the next operation fails. A
 * revoked comm has no culprit: all operations end.
 */
static bool is_of_later(const struct plait_comm *comm, const struct plait_control *c, int32_t failed)
{
    return failed == PLAIT_ERR_FAILED && c != comm->own && c->culprit > 0 &&
           atomic_load_explicit(&comm->own->done, memory_order_relaxed) < comm->sequence &&
           atomic_load_explicit(&c->done, memory_order_acquire) >= comm->sequence;
}

enum plait_status plait_probe_failures(struct plait_comm *comm)
{
    /*
     * Orders earlier loads before the loads of these flags. The fence publishes no data, so tools that ignore fences
     * (thread sanitizers) miss nothing.
     */
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_control *c = comm->peers[r].control;
        const int32_t failed = atomic_load(&c->failed);
        if (__builtin_expect(failed != PLAIT_OK, 0) && !is_of_later(comm, c, failed))
            return poison(comm, (enum plait_status)failed, c->failure, c->culprit);
    }
    return PLAIT_OK;
}

enum plait_status plait_comm_blame(struct plait_comm *comm, enum plait_status status, uint32_t culprit,
                                   const char *format, ...)
{
    char text[sizeof comm->own->failure];
    const size_t n = plait_comm_where(comm, status != PLAIT_ERR_PEER, text, sizeof text);
    va_list args;

    if (status == PLAIT_ERR_PEER && plait_probe_failures(comm) != PLAIT_OK) /* a rank that ended may have said why */
        return comm->failed;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - n, format, args);
    va_end(args);
    return poison(comm, status, text, culprit + 1);
}

void plait_comm_announce_abort(struct plait_comm *comm, const char *reason, bool revoked)
{
    char text[sizeof comm->own->failure];

    snprintf(text, sizeof text, "comm '%s' after operation #%llu: aborted by rank %u: %s", comm->name,
             (unsigned long long)atomic_load(&comm->own->done), comm->rank,
             reason != NULL ? reason : "no reason given");
    plait_announce_failure(comm, PLAIT_ERR_FAILED, text, revoked ? 0 : comm->rank + 1);
}

/* ---- Texts for errors and the log -------------------------------------------------------------------------------- */

#define LISTED 4 /* last collectives, and messages, of a rank in the log of a failure; plait-info --dump shows more */

/* A rank's control block; NULL: not yet met, or left and freed. */
static const struct plait_control *control_of(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_control *c = comm->peers != NULL ? comm->peers[rank].control : NULL;

    return c != NULL && atomic_load_explicit(&c->id, memory_order_relaxed) == comm->id ? c : NULL;
}

static uint64_t done_of(const struct plait_control *c)
{
    return atomic_load_explicit(&c->done, memory_order_acquire);
}

static bool failed_on(const struct plait_control *c)
{
    return atomic_load_explicit(&c->failed, memory_order_acquire) != PLAIT_OK;
}

bool plait_comm_operation(const struct plait_comm *comm, uint32_t rank, uint64_t sequence, struct plait_operation *out)
{
    const struct plait_control *c = control_of(comm, rank);

    return c != NULL && plait_ring_read(&c->ring, sequence, done_of(c), failed_on(c), out);
}

void plait_comm_waits_in(const struct plait_comm *comm, uint32_t rank, double since, char *text, size_t room)
{
    const struct plait_control *c = control_of(comm, rank);
    const bool probes = c != NULL && atomic_load_explicit(&c->seen, memory_order_relaxed) >= since;
    struct plait_operation o;
    char name[128];

    text[0] = '\0';
    for (uint32_t i = 0; probes && i < PLAIT_NAWAITED; i++)
        if (plait_awaited_read(&c->messages[i], false, &o)) {
            plait_operation_name(&o, name, sizeof name);
            snprintf(text, room, ", but waits in %s", name);
            return;
        }
}

size_t plait_comm_where(const struct plait_comm *comm, bool own, char *text, size_t room)
{
    struct plait_operation o;
    char name[192] = "";
    const bool inside =
        comm->own != NULL && atomic_load_explicit(&comm->own->done, memory_order_relaxed) < comm->sequence;

    if (inside && plait_comm_operation(comm, comm->rank, comm->sequence, &o))
        plait_operation_name(&o, name, sizeof name);
    snprintf(text, room, "comm '%s'%s%s: ", comm->name, name[0] != '\0' ? ", " : "", name);
    if (own)
        plait_append(text, room, "rank %u: ", comm->rank);
    return strlen(text);
}

void plait_comm_log(const struct plait_comm *comm, enum plait_log_level level, const char *format, ...)
{
    char text[1024];
    va_list args;

    if (!plait_log_wants(level))
        return;
    const size_t n = plait_comm_where(comm, true, text, sizeof text);
    va_start(args, format);
    vsnprintf(text + n, sizeof text - n, format, args);
    va_end(args);
    plait_log(level, "%s", text);
}

static void list(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_control *c = control_of(comm, rank);
    struct plait_operation o[2 * LISTED];
    const uint64_t now = plait_clock_ns();
    char text[320];
    const uint32_t n = c == NULL ? 0 : plait_ring_last(&c->ring, c->messages, done_of(c), failed_on(c), LISTED, o);

    for (uint32_t i = 0; i < n; i++) {
        plait_operation_text(&o[i], now, text, sizeof text);
        plait_log(PLAIT_LOG_INFO, "comm '%s': rank %u: last operations of rank %u: %s", comm->name, comm->rank, rank,
                  text);
    }
}

/* Has this rank told of that process's end already, for another comm? */
static bool is_told(const struct plait_comm *comm, uint32_t culprit)
{
    static _Atomic uint64_t last;
    const bool one = comm->own->failed == PLAIT_ERR_PEER && culprit > 0 && culprit <= comm->nrank;
    const struct plait_process *process = one ? comm->peers[culprit - 1].process : NULL;
    const uint64_t end = process != NULL ? (uint64_t)process->pid << 32 | comm->rank : 0;

    return end != 0 && atomic_exchange(&last, end) == end;
}

void plait_comm_tell_failure(struct plait_comm *comm, const char *text, uint32_t culprit)
{
    char own[512];
    const size_t n = strlen("comm ''") + strlen(comm->name);
    const bool inside = plait_comm_where(comm, false, own, sizeof own) > n + 2;
    const char *cause = inside && strncmp(text, own, n) == 0 ? strstr(text + n, ": ") : NULL;

    if (comm->told)
        return;
    comm->told = true;
    /* The text has the operation of the rank that found the failure, perhaps another one: say what this rank was in. */
    plait_log(is_told(comm, culprit) ? PLAIT_LOG_INFO : comm->alarm, "rank %u of %u fails: %s%s", comm->rank,
              comm->nrank, cause != NULL ? own : "", cause != NULL ? cause + 2 : text);
    list(comm, comm->rank);
    if (culprit > 0 && culprit <= comm->nrank && culprit - 1 != comm->rank)
        list(comm, culprit - 1);
}
