/* SPDX-License-Identifier: BSD-3-Clause */
/* A request from its memory to its end; and the group of requests that a thread has open. */
#include "request.h"

#include "base/ascii.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "engine/operate.h"
#include "failure/failure.h"
#include "progress/progress.h"

#include <stdlib.h>
#include <string.h>

/* ---- The open group of a thread ------------------------------------------------------------------------- */

void plait_collect_error(struct plait_error *e, enum plait_status status, const char *text)
{
    if (status == PLAIT_OK)
        return;
    if (e->status == PLAIT_OK) {
        e->status = status;
        e->text[0] = '\0';
    }
    if (e->text[0] == '\0' || strstr(e->text, text) == NULL)
        plait_append(e->text, sizeof e->text, "%s%s", e->text[0] != '\0' ? "\n" : "", text);
}

_Thread_local struct plait_group plait_group;
atomic_bool plait_grouped;

enum plait_status plait_not_in_group(enum plait_status status, const char *call)
{
    if (status != PLAIT_OK || !plait_in_group())
        return status;
    return plait_fail(PLAIT_ERR_ARG, "%s: a group is open; call plait_group_end() first", call);
}

void plait_group_add(struct plait_request *r)
{
    plait_request_set_state(r, PLAIT_REQUEST_GROUPED);
    r->next_of_group = NULL;
    *plait_group.end = r;
    plait_group.end = &r->next_of_group;
}

enum plait_status plait_refuse(enum plait_status status)
{
    if (plait_in_group())
        plait_collect_error(&plait_group.refused, status, plait_last_error());
    return status;
}

static void forget_parent(void)
{
    memset(&plait_group, 0, sizeof plait_group); /* its calls were the parent's */
}

const struct plait_fork_module plait_groups_fork = { .forget = forget_parent };

/* ---- Memory: a comm keeps its requests for the next ones ------------------------------------------------ */

static pthread_mutex_t detach_lock = PTHREAD_MUTEX_INITIALIZER; /* see struct plait_request */

static void destroy(struct plait_request *r)
{
    free(r->sizes);
    free(r);
}

static struct plait_request *make(struct plait_comm *comm)
{
    struct plait_request *r = calloc(1, sizeof *r);

    comm->stats.allocations++;
    if (r == NULL)
        return NULL;
    r->comm = comm;
    r->generation = comm->generation;
    r->spins = plait_spins(comm);
    pthread_mutex_lock(&detach_lock);
    r->next_of_all = comm->requests;
    comm->requests = r;
    pthread_mutex_unlock(&detach_lock);
    return r;
}

/* Only the comm's calling thread gets requests. What other threads returned becomes its list as a whole. */
static struct plait_request *take_free(struct plait_comm *comm)
{
    if (comm->free_requests == NULL) {
        pthread_mutex_lock(&detach_lock);
        comm->free_requests = comm->returned_requests;
        comm->returned_requests = NULL;
        pthread_mutex_unlock(&detach_lock);
    }
    struct plait_request *r = comm->free_requests;
    if (r != NULL)
        comm->free_requests = r->next;
    return r;
}

struct plait_request *plait_request_get(struct plait_comm *comm)
{
    struct plait_request *r = take_free(comm);

    if (r == NULL && (r = make(comm)) == NULL)
        return NULL;
    plait_request_set_state(r, PLAIT_REQUEST_IDLE);
    r->status = PLAIT_OK;
    r->held = r->persistent = r->on_stream = r->until_executed = false;
    r->space = &plait_host_space;
    return r;
}

static void push_free(struct plait_request **list, struct plait_request *r)
{
    plait_request_set_state(r, PLAIT_REQUEST_FREE);
    r->next = *list;
    *list = r;
}

void plait_request_give_back(struct plait_request *r)
{
    if (!r->held && r->comm != NULL) { /* this is the comm's calling thread */
        push_free(&r->comm->free_requests, r);
        return;
    }
    pthread_mutex_lock(&detach_lock);
    const bool orphan = r->comm == NULL;
    if (!orphan)
        push_free(&r->comm->returned_requests, r);
    pthread_mutex_unlock(&detach_lock);
    if (orphan)
        destroy(r);
}

void plait_requests_forget(struct plait_comm *comm)
{
    pthread_mutex_lock(&detach_lock);
    comm->free_requests = comm->returned_requests = NULL;
    while (comm->requests != NULL) {
        struct plait_request *r = comm->requests;
        comm->requests = r->next_of_all;
        if (plait_request_state(r) == PLAIT_REQUEST_FREE) {
            destroy(r);
            continue;
        }
        if (r->kind == PLAIT_REQUEST_COLLECTIVE && r->persistent)
            plait_unbind(r->job.o);
        r->comm = NULL;
    }
    pthread_mutex_unlock(&detach_lock);
}

const struct plait_fork_module plait_requests_fork = { .lock = &detach_lock };

static enum plait_status copy_sizes(struct plait_request *r)
{
    const size_t bytes = 4 * r->comm->nrank * sizeof *r->sizes;

    if (r->sizes == NULL) {
        r->comm->stats.allocations++;
        r->sizes = malloc(bytes);
    }
    if (r->sizes == NULL)
        return plait_fail_memory("out of memory for an operation");
    memcpy(r->sizes, r->job.sizes.in, bytes);
    plait_sizes_lie_at(&r->job.sizes, r->sizes, r->comm->nrank);
    return PLAIT_OK;
}

/* ---- Beginning ------------------------------------------------------------------------------------------ */

void plait_request_begin(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;

    plait_request_set_state(r, PLAIT_REQUEST_QUEUED);
    atomic_fetch_add_explicit(&comm->pending, 1, memory_order_relaxed);
    plait_progress_add(comm);
    if (r->kind != PLAIT_REQUEST_COLLECTIVE) {
        comm->drive->begin_message(r);
        return;
    }
    plait_request_append(&comm->first, &comm->end, r);
}

enum plait_status plait_request_launch(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;
    const bool held = r->held;

    if (plait_in_group()) {
        plait_requests_notify(comm);
        pthread_mutex_unlock(&comm->lock);
        plait_group_add(r);
        return PLAIT_OK;
    }
    plait_request_begin(r);
    comm->drive->turn(comm, false); /* other ranks need not wait for the caller's next call */
    pthread_mutex_unlock(&comm->lock);
    plait_progress_wake();
    if (held && r->on_stream)
        plait_request_await_issued(r);
    return held ? PLAIT_OK : plait_wait(&r);
}

enum plait_status plait_request_dispatch(struct plait_request *r, const struct plait_call *call)
{
    const bool held = call != NULL && call->request != NULL;

    r->held = held;
    r->on_stream = r->space->queued && call != NULL && call->stream != NULL;
    r->until_executed = r->space->queued && (held || !r->on_stream);
    r->persistent = call != NULL && call->persistent;
    if (held)
        *call->request = r;
    if (!r->persistent)
        return plait_request_launch(r);
    pthread_mutex_unlock(&r->comm->lock);
    return PLAIT_OK;
}

enum plait_status plait_request_collective(struct plait_comm *comm, const struct plait_args *a,
                                           const struct plait_call *call, enum plait_status status)
{
    struct plait_request *r = status == PLAIT_OK ? plait_request_get(comm) : NULL;

    if (status == PLAIT_OK && r == NULL)
        status = plait_fail_memory("out of memory for a pending operation");
    if (r != NULL) {
        r->kind = PLAIT_REQUEST_COLLECTIVE;
        r->job = plait_job_of(comm->last, a, call);
        r->space = a->space;
        if (r->job.scale != NULL && !r->job.late)
            r->job.scale = memcpy(r->scalar, call->scale, comm->last->size);
        if (a->vform)
            status = copy_sizes(r);
        if (status != PLAIT_OK)
            plait_request_give_back(r);
    }
    if (status != PLAIT_OK) {
        status = plait_cannot_begin(comm, status, a);
        pthread_mutex_unlock(&comm->lock);
        return plait_refuse(status);
    }
    comm->last->users++;
    return plait_request_dispatch(r, call);
}

/* ---- Ending --------------------------------------------------------------------------------------------- */

/* A persistent one keeps the operation for its next start. */
static void unbind(const struct plait_request *r)
{
    if (r->kind == PLAIT_REQUEST_COLLECTIVE && !r->persistent)
        plait_unbind(r->job.o);
}

void plait_request_end(struct plait_request *r, enum plait_status status)
{
    struct plait_comm *comm = r->comm;

    if (plait_request_state(r) != PLAIT_REQUEST_ISSUED) {
        unbind(r);
        if (r->until_executed && status == PLAIT_OK && plait_request_mark(r))
            return;
    }
    r->status = status;
    if (atomic_load_explicit(&comm->pending, memory_order_relaxed) == 0) {
        plait_request_set_state(r, PLAIT_REQUEST_ENDED);
        return;
    }
    r->next = comm->completed;
    comm->completed = r;
}

void plait_request_drop(struct plait_request *r, enum plait_status status)
{
    struct plait_comm *comm = r->comm;

    if (comm != NULL) {
        pthread_mutex_lock(&comm->lock);
        unbind(r);
        pthread_mutex_unlock(&comm->lock);
    }
    r->status = status;
    plait_request_set_state(r, PLAIT_REQUEST_ENDED);
}

void plait_requests_notify(struct plait_comm *comm)
{
    struct plait_request *r = comm->completed;
    uint32_t n = comm->ncompleted;

    if (r == NULL && n == 0)
        return;
    comm->completed = NULL;
    comm->ncompleted = 0;
    for (const struct plait_request *each = r; each != NULL; each = each->next)
        n++;
    if (atomic_load_explicit(&comm->pending, memory_order_relaxed) == n)
        plait_progress_remove(comm, n);
    atomic_fetch_sub_explicit(&comm->pending, n, memory_order_release);
    while (r != NULL) {
        struct plait_request *next = r->next;
        plait_request_set_state(r, PLAIT_REQUEST_ENDED); /* from here on its taker owns it */
        r = next;
    }
    plait_progress_wake();
}

/* ---- Taking --------------------------------------------------------------------------------------------- */

void plait_request_interrupt(void *request)
{
    struct plait_request *r = request;

    pthread_mutex_lock(&detach_lock);
    if (r->comm != NULL && !plait_request_has_ended(r))
        plait_comm_announce_abort(r->comm, PLAIT_INTERRUPTED, false);
    pthread_mutex_unlock(&detach_lock);
}

/* Make the cause of its error this thread's last error. */
static enum plait_status tell(const struct plait_request *r)
{
    const enum plait_status status = r->status;

    if (status == PLAIT_OK)
        return PLAIT_OK;
    pthread_mutex_lock(&detach_lock);
    const struct plait_control *own = r->comm != NULL ? r->comm->own : NULL;
    if (own != NULL && atomic_load_explicit(&own->failed, memory_order_acquire) != PLAIT_OK)
        plait_fail(status, "%s", own->failure);
    else
        plait_fail(status, "%s: %s", plait_status_text(status),
                   own != NULL ? "it did not start: a call of its group was refused, as plait_group_end() said"
                               : "its comm failed and was destroyed; plait_comm_destroy() said why");
    pthread_mutex_unlock(&detach_lock);
    return status;
}

enum plait_status plait_request_take(struct plait_request **request)
{
    struct plait_request *r = *request;
    const enum plait_status status = tell(r);

    if (r->persistent) {
        plait_request_set_state(r, PLAIT_REQUEST_IDLE);
        return status;
    }
    *request = NULL;
    plait_request_give_back(r);
    return status;
}

/* ---- Leaving -------------------------------------------------------------------------------------------- */

static bool has_nothing_pending(void *comm)
{
    return atomic_load_explicit(&((struct plait_comm *)comm)->pending, memory_order_acquire) == 0;
}

static void interrupt_comm(void *comm)
{
    plait_comm_announce_abort(comm, PLAIT_INTERRUPTED, false);
}

void plait_requests_finish(struct plait_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    if (atomic_load_explicit(&comm->pending, memory_order_relaxed) > 0)
        plait_progress_add(comm);
    pthread_mutex_unlock(&comm->lock);
    plait_progress_until(has_nothing_pending, interrupt_comm, comm, plait_spins(comm));
    pthread_mutex_lock(&comm->lock); /* the thread that ended the last one may still hold it */
    pthread_mutex_unlock(&comm->lock);
}
