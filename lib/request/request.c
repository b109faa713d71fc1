/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

#include "base/fork.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "device_request.h"
#include "engine/bind.h"
#include "engine/operate.h"
#include "failure/failure.h"
#include "progress/progress.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory: a comm keeps its requests for the next ones ------------------------------------------------ */

static pthread_mutex_t homes = PTHREAD_MUTEX_INITIALIZER; /* see struct plait_request */

static void destroy(struct plait_request *r)
{
    plait_device_unmark(r);
    free(r->sizes);
    free(r);
}

/* Requests of blocking calls: only the comm's one thread takes and returns them, so no lock is needed. */
static struct plait_request *take_kept(struct plait_comm *comm)
{
    struct plait_request *r = comm->kept;

    if (r != NULL)
        comm->kept = r->next;
    return r;
}

static void keep(struct plait_request *r)
{
    if (r->comm == NULL) {
        destroy(r);
        return;
    }
    r->next = r->comm->kept;
    r->comm->kept = r;
}

static struct plait_request *take_spare(struct plait_comm *comm)
{
    pthread_mutex_lock(&homes);
    struct plait_request *r = comm->spare;
    if (r != NULL)
        comm->spare = r->next;
    pthread_mutex_unlock(&homes);
    return r;
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
    pthread_mutex_lock(&homes);
    r->next_of_all = comm->requests;
    comm->requests = r;
    pthread_mutex_unlock(&homes);
    return r;
}

struct plait_request *plait_request_get(struct plait_comm *comm)
{
    struct plait_request *r = take_kept(comm);

    if (r == NULL && (r = take_spare(comm)) == NULL && (r = make(comm)) == NULL)
        return NULL;
    r->stream = NULL;
    r->queue = NULL;
    r->persistent = r->grouped = r->own = r->streamed = r->through = false;
    atomic_store_explicit(&r->started, false, memory_order_relaxed);
    r->status = PLAIT_OK;
    return r;
}

void plait_request_give_back(struct plait_request *r)
{
    pthread_mutex_lock(&homes);
    const bool orphan = r->comm == NULL;
    if (!orphan) {
        r->next = r->comm->spare;
        r->comm->spare = r;
    }
    pthread_mutex_unlock(&homes);
    if (orphan)
        destroy(r);
}

void plait_requests_fork(enum plait_fork when)
{
    if (when == PLAIT_FORK_BEFORE)
        pthread_mutex_lock(&homes);
    else
        pthread_mutex_unlock(&homes);
}

static enum plait_status copy_sizes(struct plait_request *r)
{
    const struct plait_geometry *g = &r->job.o->geometry;
    const size_t n = r->comm->nrank;
    const struct plait_sizes *s = &r->job.sizes;

    if (r->sizes == NULL) {
        r->comm->stats.allocations++;
        r->sizes = malloc(4 * n * sizeof *r->sizes);
    }
    if (r->sizes == NULL)
        return plait_fail_memory("out of memory for an operation");
    const size_t *const from[] = { s->in, s->in_at, s->out, s->out_at };
    for (unsigned k = 0; k < 4; k++) {
        const uint32_t nslot = k < 2 ? g->in.nslot : g->out.nslot;
        if (nslot > 0)
            memcpy(r->sizes + k * n, from[k], nslot * sizeof *r->sizes);
    }
    r->job.sizes.in = r->sizes;
    r->job.sizes.in_at = r->sizes + n;
    r->job.sizes.out = r->sizes + 2 * n;
    r->job.sizes.out_at = r->sizes + 3 * n;
    return PLAIT_OK;
}

/* ---- Beginning ------------------------------------------------------------------------------------------ */

void plait_request_open(struct plait_request *r)
{
    atomic_store_explicit(&r->ended, false, memory_order_relaxed);
    atomic_store_explicit(&r->passed, false, memory_order_relaxed);
    atomic_store_explicit(&r->placed, false, memory_order_relaxed);
    atomic_store_explicit(&r->open, r->stream == NULL, memory_order_relaxed);
    atomic_store_explicit(&r->started, true, memory_order_relaxed);
    r->next = NULL;
    r->alone = false;
}

void plait_request_begin(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;

    plait_device_withdraw(r); /* from its last start */
    plait_request_open(r);
    atomic_fetch_add_explicit(&comm->pending, 1, memory_order_relaxed);
    plait_progress_add(comm);
    if (r->kind != PLAIT_REQUEST_COLLECTIVE) {
        comm->drive->begin_message(r);
    } else {
        if (comm->first == NULL)
            comm->end = &comm->first;
        *comm->end = r;
        comm->end = &r->next;
    }
    if (r->stream != NULL)
        plait_stream_add(r);
}

void plait_request_run(struct plait_request *r)
{
    struct plait_comm *comm = r->comm;
    const bool now = r->stream == NULL;

    plait_request_begin(r);
    if (now)
        comm->drive->turn(comm, false); /* other ranks need not wait for the caller's next call */
    pthread_mutex_unlock(&comm->lock);
    plait_progress_news();
}

/* Set the taker and the stream of the request; begin it, or add it to the group. Releases the comm's lock. */
static enum plait_status dispatch(struct plait_request *r, const struct plait_call *call)
{
    struct plait_comm *comm = r->comm;
    const bool held = call != NULL && call->request != NULL, streamed = call != NULL && call->stream != NULL;
    const bool waits = !held && (!streamed || r->queue != NULL);

    r->stream = streamed && r->queue == NULL ? call->stream : NULL;
    r->streamed = streamed && r->queue != NULL;
    r->through = r->queue != NULL && (held || !streamed);
    r->persistent = call != NULL && call->persistent;
    if (held)
        *call->request = r;
    if (r->persistent || plait_in_group()) {
        pthread_mutex_unlock(&comm->lock);
        if (!r->persistent)
            plait_group_add(r, waits);
        return PLAIT_OK;
    }
    plait_request_run(r);
    if (held && r->streamed)
        plait_request_await_placed(r);
    return waits ? plait_wait(&r) : PLAIT_OK;
}

/* End the call without an operation. Releases the comm's lock. */
static enum plait_status refuse(struct plait_comm *comm, enum plait_status status)
{
    pthread_mutex_unlock(&comm->lock);
    return plait_refuse(status);
}

enum plait_status plait_request_collective(struct plait_comm *comm, const struct plait_job *job,
                                           const struct plait_call *call, enum plait_status status)
{
    struct plait_request *r = status == PLAIT_OK ? plait_request_get(comm) : NULL;

    if (status == PLAIT_OK && r == NULL)
        status = plait_fail_memory("out of memory for a pending operation");
    if (r != NULL) {
        r->kind = PLAIT_REQUEST_COLLECTIVE;
        r->job = *job;
        r->queue = job->queue;
        r->job.deadline = call != NULL ? call->deadline : 0;
        r->job.scale = call != NULL ? call->scale : NULL;
        if (r->job.scale != NULL && call->scale_when == PLAIT_SCALE_NOW)
            r->job.scale = memcpy(r->scalar, call->scale, job->o->size);
        r->job.late = call != NULL && call->scale_when == PLAIT_SCALE_LATE;
        if (job->o->sized)
            status = copy_sizes(r);
        if (status != PLAIT_OK)
            plait_request_give_back(r);
    }
    if (status != PLAIT_OK)
        return refuse(comm, job->o == NULL ? status : plait_cannot_run(comm, status, job->o));
    comm->last->users++;
    return dispatch(r, call);
}

enum plait_status plait_request_message(struct plait_comm *comm, enum plait_request_kind kind,
                                        const struct plait_letter *letter, const struct plait_call *call,
                                        enum plait_status status)
{
    struct plait_request *r = status == PLAIT_OK ? plait_request_get(comm) : NULL;

    if (status == PLAIT_OK && r == NULL)
        status = plait_comm_fail(comm, plait_fail_memory("out of memory for a message"), "%s", plait_last_error());
    if (r == NULL)
        return refuse(comm, status);
    r->kind = kind;
    r->letter = *letter;
    r->queue = letter->queue;
    return dispatch(r, call);
}

/* ---- Ending --------------------------------------------------------------------------------------------- */

void plait_request_end(struct plait_request *r, enum plait_status status)
{
    struct plait_comm *comm = r->comm;

    r->status = status;
    if (r->kind == PLAIT_REQUEST_COLLECTIVE && !r->persistent)
        plait_unbind((struct plait_op_plan *)(uintptr_t)r->job.o);
    if (status == PLAIT_OK && r->through && plait_device_mark(r))
        return;
    r->next = comm->over;
    comm->over = r;
}

void plait_requests_tell(struct plait_comm *comm)
{
    struct plait_request *r = comm->over;
    uint32_t n = comm->let_go;

    if (r == NULL && n == 0)
        return;
    comm->over = NULL;
    comm->let_go = 0;
    for (const struct plait_request *each = r; each != NULL; each = each->next)
        n++;
    if (atomic_load_explicit(&comm->pending, memory_order_relaxed) == n)
        plait_progress_remove(comm, n);
    atomic_fetch_sub_explicit(&comm->pending, n, memory_order_release);
    while (r != NULL) {
        struct plait_request *next = r->next;
        atomic_store_explicit(&r->ended, true, memory_order_release); /* from here on the taker owns it */
        r = next;
    }
    plait_progress_news();
}

static void end_first(struct plait_comm *comm, enum plait_status status)
{
    struct plait_request *r = comm->first;

    comm->first = r->next;
    comm->running = false;
    plait_request_end(r, status);
}

void plait_requests_fail(struct plait_comm *comm, enum plait_status status)
{
    plait_device_rest(comm);
    while (comm->first != NULL)
        end_first(comm, status);
    plait_device_marked_fail(comm, status);
    comm->drive->fail_messages(comm, status);
}

/* ---- Held up by a host's stream ------------------------------------------------------------------------- */

uint32_t plait_request_blame_stream(const struct plait_comm *comm, const char *call, char *text, size_t room)
{
    snprintf(
        text, room,
        "rank %u waits for its own stream, which has not come to %s: a function there still runs, or waits for what "
        "this rank called later",
        comm->rank, call);
    return comm->rank + 1;
}

static uint32_t nobody(const void *comm, uint32_t *ranks, uint32_t most)
{
    (void)comm, (void)ranks, (void)most;
    return 0;
}

/* The held-up operation is number comm->sequence + 1: ranks that have not done it are needed. */
static bool needs(const void *context, uint32_t rank)
{
    const struct plait_comm *comm = context;

    return rank != comm->rank &&
           atomic_load_explicit(&comm->peers[rank].control->done, memory_order_acquire) <= comm->sequence;
}

static uint32_t blame_stream(const void *context, char *text, size_t room)
{
    const struct plait_comm *comm = context;
    const struct plait_op_plan *o = comm->first->job.o;
    char call[64];

    snprintf(call, sizeof call, "%s%s #%llu", plait_coll_name(o->coll), o->sized ? "v" : "",
             (unsigned long long)comm->sequence + 1);
    return plait_request_blame_stream(comm, call, text, room);
}

static void note_nothing(const void *comm, uint64_t now)
{
    (void)comm, (void)now;
}

void plait_requests_prepare(struct plait_comm *comm)
{
    static const struct plait_wait_kind for_stream = { needs, blame_stream, note_nothing };

    plait_wait_init(&comm->run->held, &for_stream, nobody, comm);
}

/* The first collective waits for its host stream. */
static enum plait_status wait_for_stream(struct plait_comm *comm, bool rarely)
{
    struct plait_wait *w = &comm->run->held;
    const struct plait_request *held = plait_request_held_up(comm->first);

    if (held == NULL) {
        plait_wait_progress(comm, w);
        return PLAIT_OK;
    }
    w->detector.limit = held->job.deadline;
    return plait_wait_poll(comm, w, rarely);
}

/* ---- Turns ---------------------------------------------------------------------------------------------- */

/* One turn of the first collective. *ended: it is over. */
static enum plait_status turn_first(struct plait_comm *comm, bool rarely, bool *moved, bool *ended)
{
    enum plait_status status = PLAIT_OK;
    bool turned = false;

    *ended = false;
    if (!comm->running) {
        if (!atomic_load_explicit(&comm->first->open, memory_order_acquire))
            return wait_for_stream(comm, rarely);
        plait_wait_progress(comm, &comm->run->held);
        comm->running = *moved = true;
        status = plait_run_begin(comm, &comm->first->job);
    }
    if (status == PLAIT_OK)
        status = plait_run_turn(comm, &turned, ended);
    if (status == PLAIT_OK && !turned && !*ended)
        return plait_wait_poll(comm, &comm->run->wait, rarely);
    plait_wait_progress(comm, &comm->run->wait);
    *moved = true;
    return status;
}

bool plait_requests_turn(struct plait_comm *comm, bool rarely)
{
    enum plait_status status = plait_has_failed(comm) ? plait_probe_failures(comm) : PLAIT_OK;
    bool moved = false, ended = true;

    while (status == PLAIT_OK && comm->first != NULL && ended) {
        status = turn_first(comm, rarely, &moved, &ended);
        if (status == PLAIT_OK && ended)
            end_first(comm, PLAIT_OK);
    }
    if (status == PLAIT_OK)
        status = plait_device_marked_turn(comm, rarely, &moved);
    if (status == PLAIT_OK)
        return moved;
    plait_requests_fail(comm, status);
    return true;
}

uint32_t plait_requests_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most)
{
    const struct plait_wait *w = &comm->run->wait;
    return comm->running ? w->detector.awaited(w->detector.context, ranks, most) : 0;
}

void plait_request_drop(struct plait_request *r, enum plait_status status)
{
    struct plait_comm *comm = r->comm;

    if (comm != NULL && r->kind == PLAIT_REQUEST_COLLECTIVE && !r->persistent) {
        pthread_mutex_lock(&comm->lock);
        plait_unbind((struct plait_op_plan *)(uintptr_t)r->job.o);
        pthread_mutex_unlock(&comm->lock);
    }
    r->status = status;
    atomic_store_explicit(&r->started, true, memory_order_relaxed);
    atomic_store_explicit(&r->passed, true, memory_order_release);
    atomic_store_explicit(&r->ended, true, memory_order_release);
}

/* ---- Taking --------------------------------------------------------------------------------------------- */

static bool has_ended(void *r)
{
    return plait_request_has_ended(r);
}

void plait_request_interrupt(struct plait_request *r)
{
    pthread_mutex_lock(&homes);
    if (r->comm != NULL && !plait_request_has_ended(r))
        plait_comm_announce_abort(r->comm, PLAIT_INTERRUPTED, false);
    pthread_mutex_unlock(&homes);
}

static void interrupt(void *r)
{
    plait_request_interrupt(r);
}

void plait_request_await(struct plait_request *r)
{
    plait_progress_until(has_ended, interrupt, r, r->spins);
}

/* Make the cause of its error this thread's last error. */
static enum plait_status tell(const struct plait_request *r, enum plait_status status)
{
    if (status == PLAIT_OK)
        return PLAIT_OK;
    pthread_mutex_lock(&homes);
    const struct plait_control *own = r->comm != NULL ? r->comm->own : NULL;
    if (own != NULL && atomic_load_explicit(&own->failed, memory_order_acquire) != PLAIT_OK)
        plait_fail(status, "%s", own->failure);
    else
        plait_fail(status, "%s: %s", plait_status_text(status),
                   own != NULL ? "it did not start: a call of its group was refused, as plait_group_end() said, or the "
                                 "group was only estimated"
                               : "its comm failed and was destroyed; plait_comm_destroy() said why");
    pthread_mutex_unlock(&homes);
    return status;
}

enum plait_status plait_request_take(struct plait_request **request)
{
    struct plait_request *r = *request;
    const enum plait_status status = tell(r, r->status);

    atomic_store_explicit(&r->started, false, memory_order_relaxed);
    if (r->persistent)
        return status;
    *request = NULL;
    if (r->own)
        keep(r);
    else
        plait_request_give_back(r);
    return status;
}

enum plait_status plait_request_pass(struct plait_request *r)
{
    if (!r->persistent)
        return plait_request_take(&r);
    const enum plait_status status = tell(r, r->status);
    atomic_store_explicit(&r->passed, true, memory_order_release);
    plait_progress_news();
    return status;
}

struct plait_comm *plait_request_lock(const struct plait_request *r)
{
    pthread_mutex_lock(&homes);
    struct plait_comm *comm = r->comm;
    const bool locked = comm != NULL && pthread_mutex_trylock(&comm->lock) == 0;
    pthread_mutex_unlock(&homes);
    return locked ? comm : NULL;
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
    comm->leaves = true;
    pthread_mutex_unlock(&comm->lock);
    plait_progress_until(has_nothing_pending, interrupt_comm, comm, plait_spins(comm));
    pthread_mutex_lock(&comm->lock); /* the thread that ended the last one may still hold it */
    comm->leaves = false;
    pthread_mutex_unlock(&comm->lock);
}

void plait_requests_forget(struct plait_comm *comm)
{
    pthread_mutex_lock(&homes);
    for (struct plait_request *r = comm->spare; r != NULL; r = r->next)
        r->comm = NULL;
    for (struct plait_request *r = comm->kept; r != NULL; r = r->next)
        r->comm = NULL;
    comm->spare = comm->kept = NULL;
    while (comm->requests != NULL) {
        struct plait_request *r = comm->requests;
        comm->requests = r->next_of_all;
        if (r->comm == NULL) {
            destroy(r);
            continue;
        }
        if (r->kind == PLAIT_REQUEST_COLLECTIVE && r->persistent)
            plait_unbind((struct plait_op_plan *)(uintptr_t)r->job.o);
        r->comm = NULL;
    }
    pthread_mutex_unlock(&homes);
}
