/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of calls: their beginning, the communicators that they create, and their end. */
#include "call.h"

#include "base/fork.h"
#include "base/interrupt.h"
#include "bootstrap/frame.h"
#include "p2p/message.h"
#include "progress/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Creations of communicators -------------------------------------------------------------------------- */

struct plait_creation { /* of a comm */
    struct plait_creation *next;
    plait_make_comm *make;
    const void *args;
    const struct plait_comm *of; /* the comm that it is made from, or NULL */
    bool chained;                /* it follows another from the same comm, in that one's thread */
    struct plait_comm **out;
    struct plait_error result;
    pthread_t thread;
    int error; /* errno of its thread's start; 0: it has a thread */
    atomic_bool done;
    atomic_bool interrupted; /* its waiter was: waits in its thread end */
};

/* The copied arguments follow it, aligned for any type. */
#define CREATION ((sizeof(struct plait_creation) + 15) / 16 * 16)

/* The first creation of the list that is made from the same comm; NULL: none. Those of no comm have none. */
static struct plait_creation *find_same(struct plait_creation *list, const struct plait_comm *of)
{
    while (list != NULL && (of == NULL || list->of != of))
        list = list->next;
    return list;
}

enum plait_status plait_group_make(plait_make_comm *make, const void *args, size_t bytes, const struct plait_comm *of,
                                   struct plait_comm **out)
{
    struct plait_creation *c = calloc(1, CREATION + bytes);

    if (c == NULL) /* the other ranks must be told */
        return plait_refuse(make(args, plait_fail_memory("out of memory for a comm"), out));
    c->make = make;
    c->args = memcpy((char *)c + CREATION, args, bytes);
    c->of = of;
    c->out = out;
    c->chained = find_same(plait_group.creations, of) != NULL;
    *plait_group.last_creation = c;
    plait_group.last_creation = &c->next;
    return PLAIT_OK;
}

static void make(struct plait_creation *c, enum plait_status own)
{
    c->result = plait_error_of(c->make(c->args, own, c->out));
}

static void *create(void *arg)
{
    struct plait_creation *first = arg;

    plait_interrupt_follow(&first->interrupted);
    for (struct plait_creation *c = first; c != NULL; c = find_same(c->next, c->of))
        make(c, PLAIT_OK);
    atomic_store(&first->done, true);
    plait_progress_wake();
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

/* The other ranks wait for this one, or join only when pending operations of this one have ended: drive these. */
static void tell_why_not(struct plait_creation *first)
{
    for (struct plait_creation *c = first; c != NULL; c = find_same(c->next, c->of)) {
        plait_frame_drive(plait_progress);
        make(c, plait_fail_errno(first->error, "no thread in which a comm of this group could be created"));
        plait_frame_drive(NULL);
    }
}

/*
 * A creation waits for all ranks of its comm, and this thread may hold several of them: so each has its own thread.
 * This one drives pending operations meanwhile: other ranks may wait for those before they join. Creations without a
 * thread report that once all threads run, as the other ranks may be in these.
 */
static void create_all(struct plait_creation *first, struct plait_error *e)
{
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        c->error = c->chained ? 0 : plait_thread_start(&c->thread, create, c);
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        if (c->error != 0)
            tell_why_not(c);
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        if (c->error == 0 && !c->chained) {
            plait_progress_until(is_created, interrupt_creation, c, PLAIT_SPINS_SHARED);
            pthread_join(c->thread, NULL);
        }
    for (struct plait_creation *c = first; c != NULL; c = c->next)
        plait_collect_error(e, c->result.status, c->result.text);
}

static void make_creations(struct plait_creation *first, struct plait_error *e)
{
    if (e->status == PLAIT_OK)
        create_all(first, e);
    while (first != NULL) {
        struct plait_creation *c = first;
        first = c->next;
        free(c);
    }
}

/* ---- The group ------------------------------------------------------------------------------------------- */

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
    struct plait_error error;
    const int saved = errno; /* of calls that fail on the way to success */
    error.status = PLAIT_OK; /* no initialiser: to clear its text takes as long as a short message */
    plait_group.first = NULL;
    plait_group.creations = NULL;
    refuse_without_comm(first);
    const enum plait_status refused = plait_group.refused.status;
    plait_collect_error(&error, refused, plait_group.refused.text);
    make_creations(creations, &error);
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
