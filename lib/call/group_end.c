/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of calls: their beginning, their end, and an estimate. */
#include "base/status.h"
#include "creation.h"
#include "p2p/exchange.h"
#include "progress/progress.h"
#include "request/device_request.h"
#include "request/request.h"

#include <errno.h>
#include <pthread.h>

enum plait_status plait_group_start(void)
{
    if (plait_group.depth++ > 0)
        return PLAIT_OK;
    if (!atomic_load_explicit(&plait_grouped, memory_order_relaxed))
        atomic_store_explicit(&plait_grouped, true, memory_order_relaxed);
    plait_group.end = &plait_group.first;
    plait_group.last_creation = &plait_group.creations;
    plait_group.refused = PLAIT_OK;
    return PLAIT_OK;
}

/* Waits the group for its end, or until a device stream has it? A refused one does not get to its host stream. */
static bool waits_for(const struct plait_request *r, enum plait_status refused)
{
    return r->taker == PLAIT_TAKER_CALL ||
           (refused == PLAIT_OK ? plait_request_is_on_device_stream(r) : r->taker == PLAIT_TAKER_STREAM);
}

/* Begin all, or, when a call was refused, end all with that error. Returns those that the group waits for. */
static struct plait_request *begin_all(struct plait_request *first, enum plait_status refused)
{
    struct plait_request *own = NULL, **end = &own, *next;

    for (struct plait_request *r = first; r != NULL; r = next) {
        next = r->next_of_group;
        if (waits_for(r, refused)) {
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
    plait_progress_news();
    return own;
}

static void refuse_without_comm(const struct plait_request *first)
{
    for (const struct plait_request *r = first; r != NULL; r = r->next_of_group)
        if (r->comm == NULL)
            plait_group_refuse(PLAIT_ERR_ARG, "plait_group_end: a comm of this group's calls was destroyed before");
}

enum plait_status plait_group_end(void)
{
    if (plait_group.depth == 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_group_end: this thread has no group; call plait_group_start() first");
    if (--plait_group.depth > 0)
        return PLAIT_OK;
    struct plait_request *first = plait_group.first, *r, *next;
    struct plait_creation *creations = plait_group.creations;
    struct plait_outcome o;
    const int saved = errno; /* of calls that fail on the way to success */
    plait_outcome_clear(&o);
    plait_group.first = NULL;
    plait_group.creations = NULL;
    refuse_without_comm(first);
    if (plait_group.refused != PLAIT_OK)
        plait_outcome_note(&o, plait_group.refusal.status, plait_group.refusal.text);
    plait_creations_make(creations, &o);
    const bool begun = plait_group.refused == PLAIT_OK && plait_exchange_group(first);
    for (r = begun ? first : begin_all(first, plait_group.refused); r != NULL; r = next) {
        next = r->next_of_group;
        if (r->taker == PLAIT_TAKER_HOLDER) {
            plait_request_await_issued(r);
            continue;
        }
        const enum plait_status status = plait_request_has_ended(r) ? plait_request_take(&r) : plait_wait(&r);
        if (status != PLAIT_OK && plait_group.refused == PLAIT_OK)
            plait_outcome_note(&o, status, plait_last_error());
    }
    errno = saved;
    return o.status == PLAIT_OK ? PLAIT_OK : plait_fail(o.status, "%s", o.text);
}

/* ---- An estimate --------------------------------------------------------------------------------------------- */

static double time_of(const struct plait_request *r, double latency, double bandwidth)
{
    const struct plait_op_plan *o = r->job.o;
    const struct plait_claim *c = &o->claim;
    const double blocks = (double)(c->sent > c->received ? c->sent : c->received);
    const double bytes = (double)(o->sized ? r->job.sizes.most : o->count) * (double)o->size;
    const double block = o->geometry.kind == PLAIT_KIND_VECTOR && c->nblk > 0 ? bytes / (double)c->nblk : bytes;

    return (double)(c->depth + plait_job_slices(&r->job) - 1) * latency + blocks * block / bandwidth;
}

struct seconds {
    double collectives, messages;
};

/* What the group has of the comm of `r`, from there on. Messages go in both directions at the same time. */
static struct seconds time_of_comm(const struct plait_request *r, double latency, double bandwidth)
{
    const struct plait_comm *comm = r->comm;
    double collectives = 0, sent = 0, received = 0;
    bool messages = false;

    for (; r != NULL; r = r->next_of_group) {
        if (r->comm != comm)
            continue;
        if (r->kind == PLAIT_REQUEST_COLLECTIVE) {
            collectives += time_of(r, latency, bandwidth);
            continue;
        }
        messages = true;
        *(r->kind == PLAIT_REQUEST_SEND ? &sent : &received) += (double)r->message.bytes;
    }
    return (struct seconds){ collectives, messages ? latency + (sent > received ? sent : received) / bandwidth : 0 };
}

static bool is_first_of_comm(const struct plait_request *r)
{
    const struct plait_request *e = plait_group.first;

    while (e->comm != r->comm)
        e = e->next_of_group;
    return e == r;
}

/* Comms run at the same time, also several ranks of one comm in this thread. */
static double estimate(double latency, double bandwidth)
{
    struct seconds most = { 0, 0 };

    for (const struct plait_request *r = plait_group.first; r != NULL; r = r->next_of_group) {
        if (!is_first_of_comm(r))
            continue;
        const struct seconds t = time_of_comm(r, latency, bandwidth);
        most.collectives = t.collectives > most.collectives ? t.collectives : most.collectives;
        most.messages = t.messages > most.messages ? t.messages : most.messages;
    }
    return most.collectives + most.messages;
}

enum plait_status plait_group_estimate(double latency, double bandwidth, double *seconds)
{
    if (plait_group.depth != 1)
        return plait_fail(PLAIT_ERR_ARG, "plait_group_estimate: this thread has %s",
                          plait_group.depth == 0 ? "no group" : "groups in groups; end the inner ones first");
    if (!(latency >= 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_group_estimate: latency is %g s; it must be 0 or more", latency);
    if (!(bandwidth > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_group_estimate: bandwidth is %g byte/s; it must be above 0", bandwidth);
    if (seconds == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_group_estimate: seconds is NULL");
    if (plait_group.refused != PLAIT_OK)
        return plait_group_end();
    const double result = estimate(latency, bandwidth);
    plait_refuse(plait_fail(PLAIT_ERR_ARG, "plait_group_estimate: the group was only estimated, and did not start"));
    plait_group_end();
    *seconds = result;
    return PLAIT_OK;
}
