/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of calls: their beginning and their end. */
#include "call.h"
#include "p2p/message.h"
#include "progress/progress.h"

#include <errno.h>

enum plait_status plait_group_start(void)
{
    if (plait_group.depth++ > 0)
        return PLAIT_OK;
    if (!atomic_load_explicit(&plait_grouped, memory_order_relaxed))
        atomic_store_explicit(&plait_grouped, true, memory_order_relaxed);
    plait_group.end = &plait_group.first;
    plait_group.last_creation = &plait_group.creations;
    plait_group.refused.status = PLAIT_OK;
    return PLAIT_OK;
}

/*
 * Begin all, or, when a call was refused, end all with that error. Returns the requests for which the group waits:
 * until they end, or until a stream has them.
 */
static struct plait_request *begin_all(struct plait_request *first, enum plait_status refused)
{
    struct plait_request *own = NULL, **end = &own, *next;

    for (struct plait_request *r = first; r != NULL; r = next) {
        next = r->next_of_group;
        if (!r->held || (r->on_stream && refused == PLAIT_OK)) {
            *end = r;
            end = &r->next_of_group;
        }
        if (refused != PLAIT_OK) {
            plait_request_drop(r, refused);
            continue;
        }
        pthread_mutex_lock(&r->comm->lock);
        plait_request_begin(r);
        pthread_mutex_unlock(&r->comm->lock);
    }
    *end = NULL;
    plait_progress();
    plait_progress_wake();
    return own;
}

static void refuse_without_comm(const struct plait_request *first)
{
    for (const struct plait_request *r = first; r != NULL; r = r->next_of_group)
        if (r->comm == NULL)
            plait_collect_error(&plait_group.refused, PLAIT_ERR_ARG,
                                "plait_group_end: a comm of this group's calls was destroyed before");
}

enum plait_status plait_group_end(void)
{
    if (plait_group.depth == 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_group_end: this thread has no group; call plait_group_start() first");
    if (--plait_group.depth > 0)
        return PLAIT_OK;
    struct plait_request *first = plait_group.first, *r, *next;
    struct plait_creation *creations = plait_group.creations;
    struct plait_saved_error error;
    const int saved = errno; /* of calls that fail on the way to success */
    error.status = PLAIT_OK; /* no initialiser: to clear its text takes as long as a short message */
    plait_group.first = NULL;
    plait_group.creations = NULL;
    refuse_without_comm(first);
    const enum plait_status refused = plait_group.refused.status;
    plait_collect_error(&error, refused, plait_group.refused.text);
    plait_creations_make(creations, &error);
    const bool begun = refused == PLAIT_OK && plait_exchange_group(first);
    for (r = begun ? first : begin_all(first, refused); r != NULL; r = next) {
        next = r->next_of_group;
        if (r->held) {
            plait_request_await_issued(r);
            continue;
        }
        const enum plait_status status = plait_request_has_ended(r) ? plait_request_take(&r) : plait_wait(&r);
        if (refused == PLAIT_OK)
            plait_collect_error(&error, status, plait_last_error());
    }
    errno = saved;
    return plait_restore_error(&error);
}
