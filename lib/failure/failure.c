/* SPDX-License-Identifier: BSD-3-Clause */
#include "failure.h"

#include "base/status.h"
#include "comm/doorbells.h"
#include "failure/remote/remote.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

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

enum plait_status plait_comm_blame(struct plait_comm *comm, enum plait_status status, uint32_t culprit,
                                   const char *format, ...)
{
    char text[sizeof comm->own->failure];
    const size_t n = plait_comm_where(comm, status != PLAIT_ERR_PEER, text, sizeof text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + n, sizeof text - n, format, args);
    va_end(args);
    return poison(comm, status, text, culprit + 1);
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

void plait_comm_announce_abort(struct plait_comm *comm, const char *reason, bool revoked)
{
    char text[sizeof comm->own->failure];

    snprintf(text, sizeof text, "comm '%s' after operation #%llu: aborted by rank %u: %s", comm->name,
             (unsigned long long)atomic_load(&comm->own->done), comm->rank,
             reason != NULL ? reason : "no reason given");
    plait_announce_failure(comm, PLAIT_ERR_FAILED, text, revoked ? 0 : comm->rank + 1);
}
