/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include "bootstrap/frame.h"
#include "device_request.h"
#include "exchange.h"
#include "fork.h"
#include "interrupt.h"
#include "progress.h"
#include "request.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plait_creation { /* of a comm */
    struct plait_creation *next;
    plait_make_comm *make;
    const void *args;
    const struct plait_comm *of; /* what it is made of, or NULL */
    struct plait_creation *then; /* the next of the same, in the same thread */
    bool chained;                /* behind another */
    struct plait_comm **out;
    enum plait_status status;
    char text[512];
    pthread_t thread;
    int error; /* why there is no thread for it; 0: there is */
    atomic_bool done;
    atomic_bool interrupted; /* whoever waits for it: its thread's waits end */
};

/* Arguments that are copied lie behind it, aligned as anything. */
#define CREATION ((sizeof(struct plait_creation) + 15) / 16 * 16)

struct outcome {
    enum plait_status status; /* the first that is an error */
    char text[1024];          /* a line for each cause: a comm that fails ends many calls */
};

/* Not all zeroes: that takes as long as a short message. */
static void clear(struct outcome *o)
{
    o->status = PLAIT_OK;
    o->text[0] = '\0';
}

static void note(struct outcome *o, enum plait_status status, const char *text)
{
    if (status == PLAIT_OK)
        return;
    const size_t n = strlen(o->text);
    if (o->status == PLAIT_OK)
        o->status = status;
    if (n > 0 && strstr(o->text, text) != NULL)
        return;
    snprintf(o->text + n, sizeof o->text - n, "%s%s", n > 0 ? "\n" : "", text);
}

_Thread_local struct plait_group plait_group;
atomic_bool plait_grouped;
static _Thread_local struct outcome refusal; /* of the group's calls; once one was */
static _Thread_local bool creator;           /* this thread creates a comm for another */

enum plait_status plait_not_in_group(enum plait_status status, const char *call)
{
    if (status != PLAIT_OK || !plait_in_group())
        return status;
    return plait_fail(PLAIT_ERR_ARG, "%s: a group is open; call plait_group_end() first", call);
}

void plait_group_add(struct plait_request *r, bool own)
{
    r->grouped = true;
    r->own = own;
    r->next_of_group = NULL;
    *plait_group.end = r;
    plait_group.end = &r->next_of_group;
}

static void refuse(enum plait_status status, const char *text)
{
    if (plait_group.refused == PLAIT_OK)
        clear(&refusal);
    note(&refusal, status, text);
    plait_group.refused = refusal.status;
}

enum plait_status plait_refuse(enum plait_status status)
{
    if (plait_in_group() && status != PLAIT_OK)
        refuse(status, plait_last_error());
    return status;
}

/* Behind the last one of the same comm. */
static void chain(struct plait_creation *c)
{
    for (struct plait_creation *e = c->of != NULL ? plait_group.creations : NULL; e != NULL; e = e->next)
        if (e->of == c->of && e->then == NULL) {
            e->then = c;
            c->chained = true;
            return;
        }
}

enum plait_status plait_group_make(plait_make_comm *make, const void *args, size_t bytes, const struct plait_comm *of,
                                   struct plait_comm **out)
{
    struct plait_creation *c = calloc(1, CREATION + bytes);

    if (c == NULL) /* which the others must hear of */
        return plait_refuse(make(args, plait_fail_memory("out of memory for a comm"), out));
    c->make = make;
    c->args = memcpy((char *)c + CREATION, args, bytes);
    c->of = of;
    c->out = out;
    chain(c);
    *plait_group.last_creation = c;
    plait_group.last_creation = &c->next;
    return PLAIT_OK;
}

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

/* ---- The end --------------------------------------------------------------------------------------------- */

static void make(struct plait_creation *c, enum plait_status own)
{
    c->status = c->make(c->args, own, c->out);
    if (c->status != PLAIT_OK)
        snprintf(c->text, sizeof c->text, "%s", plait_last_error());
}

static void *create(void *arg)
{
    struct plait_creation *first = arg;

    creator = true;
    plait_interrupt_follow(&first->interrupted);
    for (struct plait_creation *c = first; c != NULL; c = c->then)
        make(c, PLAIT_OK);
    atomic_store(&first->done, true);
    plait_progress_news();
    return NULL;
}

static bool is_created(void *creation)
{
    return atomic_load(&((struct plait_creation *)creation)->done);
}

static void interrupt_creation(void *creation)
{
    atomic_store(&((struct plait_creation *)creation)->interrupted, true);
}

/* The other ranks may wait for pending operations of this one before they come. */
static void await_creation(struct plait_creation *c)
{
    plait_progress_until(is_created, interrupt_creation, c, PLAIT_SPINS_SHARED);
    pthread_join(c->thread, NULL);
}

/* The others, who can, wait for this rank; or come only when pending operations of this one have ended. */
static void tell_why_not(struct plait_creation *first)
{
    plait_frame_drive(plait_progress);
    for (struct plait_creation *c = first; c != NULL; c = c->then)
        make(c, plait_fail_errno(first->error, "no thread in which a comm of this group could be created"));
    plait_frame_drive(NULL);
}

/*
 * Ranks of one comm must come together: each in a thread of its own until it has. Those without one say so once all
 * threads run, in which the others may be.
 */
static void create_all(struct plait_creation *first, struct outcome *o)
{
    sigset_t all, saved;

    sigfillset(&all); /* the caller's signals arrive as before */
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        c->error = c->chained ? 0 : pthread_create(&c->thread, NULL, create, c);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        if (c->error != 0)
            tell_why_not(c);
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        if (c->error == 0 && !c->chained)
            await_creation(c);
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        note(o, c->status, c->text);
}

bool plait_creation_needs_thread(void)
{
    return !creator && atomic_load_explicit(&plait_nactive, memory_order_relaxed) > 0;
}

enum plait_status plait_make_in_thread(plait_make_comm *how, const void *args, struct plait_comm **out)
{
    struct plait_creation c = { .make = how, .args = args, .out = out };
    struct outcome o = { PLAIT_OK, "" };

    create_all(&c, &o);
    return o.status == PLAIT_OK ? PLAIT_OK : plait_fail(o.status, "%s", o.text);
}

/*
 * Begin all, or, when one was refused, end all so. Those that the group waits for are left, to their end or until a
 * device's stream has them: the others have takers.
 */
static struct plait_request *begin_all(struct plait_request *first, enum plait_status refused)
{
    struct plait_request *own = NULL, **end = &own, *next;

    for (struct plait_request *r = first; r != NULL; r = next) {
        next = r->next_of_group;
        if (r->own || (refused == PLAIT_OK && r->streamed) ||
            (refused != PLAIT_OK && r->stream != NULL && !r->persistent)) {
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

/* Nothing of the group is grouped any more. */
static void open_up(struct plait_request *first)
{
    for (struct plait_request *r = first; r != NULL; r = r->next_of_group) {
        r->grouped = false;
        if (r->comm == NULL)
            refuse(PLAIT_ERR_ARG, "plait_group_end: a comm of this group's calls was destroyed before");
    }
}

enum plait_status plait_group_end(void)
{
    if (plait_group.depth == 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_group_end: this thread has no group; call plait_group_start() first");
    if (--plait_group.depth > 0)
        return PLAIT_OK;
    struct plait_request *first = plait_group.first, *r, *next;
    struct plait_creation *creations = plait_group.creations;
    struct outcome o;
    const int saved = errno; /* of calls that fail on the way to success */
    clear(&o);
    plait_group.first = NULL;
    plait_group.creations = NULL;
    open_up(first);
    if (plait_group.refused != PLAIT_OK)
        note(&o, refusal.status, refusal.text);
    if (o.status == PLAIT_OK && creations != NULL)
        create_all(creations, &o);
    const bool begun = plait_group.refused == PLAIT_OK && plait_exchange_group(first);
    for (r = begun ? first : begin_all(first, plait_group.refused); r != NULL; r = next) {
        next = r->next_of_group;
        if (r->streamed && !r->own) {
            plait_request_await_placed(r);
            continue;
        }
        const enum plait_status status = plait_request_has_ended(r) ? plait_request_take(&r) : plait_wait(&r);
        if (status != PLAIT_OK && plait_group.refused == PLAIT_OK)
            note(&o, status, plait_last_error());
    }
    while (creations != NULL) {
        struct plait_creation *c = creations;
        creations = c->next;
        free(c);
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

/* Of the comm's collectives, one after the other, when `r` is the first of them in the group. */
static double time_of_comm(const struct plait_request *r, double latency, double bandwidth)
{
    double seconds = 0;

    for (const struct plait_request *e = plait_group.first; e != r; e = e->next_of_group)
        if (e->comm == r->comm && e->kind == PLAIT_REQUEST_COLLECTIVE)
            return 0; /* counted there */
    for (const struct plait_request *e = r; e != NULL; e = e->next_of_group)
        if (e->comm == r->comm && e->kind == PLAIT_REQUEST_COLLECTIVE)
            seconds += time_of(e, latency, bandwidth);
    return seconds;
}

/* Of the comm's messages, which go in both directions at the same time. */
static double time_of_messages(const struct plait_comm *comm, double latency, double bandwidth)
{
    double sent = 0, received = 0;
    bool some = false;

    for (const struct plait_request *r = plait_group.first; r != NULL; r = r->next_of_group) {
        if (r->comm != comm || r->kind == PLAIT_REQUEST_COLLECTIVE)
            continue;
        some = true;
        *(r->kind == PLAIT_REQUEST_SEND ? &sent : &received) += (double)r->letter.bytes;
    }
    return some ? latency + (sent > received ? sent : received) / bandwidth : 0;
}

/* Comms, among them the ranks of one that this thread holds, go on at the same time. */
static double estimate(double latency, double bandwidth)
{
    const struct plait_comm *counted = NULL; /* its messages are */
    double collectives = 0, messages = 0;

    for (const struct plait_request *r = plait_group.first; r != NULL; r = r->next_of_group) {
        if (r->kind == PLAIT_REQUEST_COLLECTIVE) {
            const double t = time_of_comm(r, latency, bandwidth);
            collectives = t > collectives ? t : collectives;
        } else if (r->comm != counted) {
            const double t = time_of_messages(r->comm, latency, bandwidth);
            messages = t > messages ? t : messages;
            counted = r->comm;
        }
    }
    return collectives + messages;
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
    plait_refuse(plait_fail(PLAIT_ERR_ARG, "plait_group_estimate: the group was estimated and not begun"));
    plait_group_end();
    *seconds = result;
    return PLAIT_OK;
}

void plait_groups_fork(enum plait_fork when)
{
    if (when != PLAIT_FORK_CHILD)
        return;
    memset(&plait_group, 0, sizeof plait_group); /* its calls were the parent's */
}
