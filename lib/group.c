/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include "bind.h"
#include "progress.h"
#include "request.h"
#include "status.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct creation { /* of a comm */
    struct creation *next;
    enum plait_status (*make)(const void *args, struct plait_comm **out);
    _Alignas(16) char args[PLAIT_GROUP_ARGS];
    struct plait_comm **out;
    enum plait_status status;
    char text[512];
    pthread_t thread;
};

struct group {
    unsigned depth;
    struct plait_request *first, **end;
    struct creation *creations, **last_creation;
    enum plait_status refused; /* the first call that was */
    char text[512];
};

_Atomic unsigned plait_ngroup;
static _Thread_local struct group group;

bool plait_in_group(void)
{
    return atomic_load_explicit(&plait_ngroup, memory_order_relaxed) > 0 && group.depth > 0;
}

void plait_group_add(struct plait_request *r, bool own)
{
    r->grouped = true;
    r->own = own;
    r->next_of_group = NULL;
    *group.end = r;
    group.end = &r->next_of_group;
}

enum plait_status plait_group_refuse(enum plait_status status)
{
    if (group.refused == PLAIT_OK) {
        group.refused = status;
        snprintf(group.text, sizeof group.text, "%s", plait_last_error());
    }
    return status;
}

enum plait_status plait_group_make(enum plait_status (*make)(const void *args, struct plait_comm **out),
                                   const void *args, size_t bytes, struct plait_comm **out)
{
    struct creation *c = calloc(1, sizeof *c);

    if (c == NULL)
        return plait_group_refuse(plait_fail_memory("out of memory for a comm"));
    c->make = make;
    memcpy(c->args, args, bytes);
    c->out = out;
    *group.last_creation = c;
    group.last_creation = &c->next;
    return PLAIT_OK;
}

enum plait_status plait_group_start(void)
{
    if (group.depth++ > 0)
        return PLAIT_OK;
    atomic_fetch_add(&plait_ngroup, 1);
    group.end = &group.first;
    group.last_creation = &group.creations;
    group.refused = PLAIT_OK;
    return PLAIT_OK;
}

/* ---- The end --------------------------------------------------------------------------------------------- */

struct outcome {
    enum plait_status status; /* the first that is an error */
    char text[2048];          /* a line for each */
};

static void note(struct outcome *o, enum plait_status status, const char *text)
{
    const size_t n = strlen(o->text);

    if (status == PLAIT_OK)
        return;
    if (o->status == PLAIT_OK)
        o->status = status;
    snprintf(o->text + n, sizeof o->text - n, "%s%s", n > 0 ? "\n" : "", text);
}

/* What was refused is not begun: whoever holds a request is told. */
static void drop(struct plait_request *r, enum plait_status status)
{
    struct plait_comm *comm = r->comm;

    if (r->persistent)
        return;
    pthread_mutex_lock(&comm->lock);
    if (r->kind == PLAIT_REQUEST_COLLECTIVE)
        plait_unbind((struct plait_op_plan *)(uintptr_t)r->job.o);
    pthread_mutex_unlock(&comm->lock);
    r->status = status;
    r->started = true;
    atomic_store_explicit(&r->ended, true, memory_order_release);
    if (r->own || r->stream != NULL)
        plait_request_take(&r);
}

static void *create(void *arg)
{
    struct creation *c = arg;

    c->status = c->make(c->args, c->out);
    if (c->status != PLAIT_OK)
        snprintf(c->text, sizeof c->text, "%s", plait_last_error());
    return NULL;
}

/* Ranks of one comm must come together: each in a thread of its own until it has. */
static void create_all(struct creation *first, struct outcome *o)
{
    sigset_t all, saved;

    sigfillset(&all); /* the caller's signals arrive as before */
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    for (struct creation *c = first; c != NULL; c = c->next) {
        const int error = pthread_create(&c->thread, NULL, create, c);
        if (error != 0) {
            c->status = plait_fail_errno(error, "no thread in which a comm of this group could be created");
            snprintf(c->text, sizeof c->text, "%s", plait_last_error());
            c->out = NULL;
        }
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    for (struct creation *c = first; c != NULL; c = c->next) {
        if (c->out != NULL)
            pthread_join(c->thread, NULL);
        note(o, c->status, c->text);
    }
}

static void begin_all(struct plait_request *first)
{
    for (struct plait_request *r = first; r != NULL; r = r->next_of_group) {
        pthread_mutex_lock(&r->comm->lock);
        plait_request_begin(r);
        pthread_mutex_unlock(&r->comm->lock);
    }
    plait_progress();
    plait_progress_news();
}

enum plait_status plait_group_end(void)
{
    if (group.depth == 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_group_end: this thread has no group; call plait_group_start() first");
    if (--group.depth > 0)
        return PLAIT_OK;
    struct plait_request *first = group.first, *r, *next;
    struct creation *creations = group.creations;
    struct outcome o = { PLAIT_OK, "" };
    group.first = NULL;
    group.creations = NULL;
    atomic_fetch_sub(&plait_ngroup, 1);
    note(&o, group.refused, group.text);
    for (r = first; r != NULL; r = r->next_of_group)
        r->grouped = false;
    if (o.status == PLAIT_OK) {
        create_all(creations, &o);
        begin_all(first);
    }
    for (r = first; r != NULL; r = next) {
        next = r->next_of_group;
        if (group.refused != PLAIT_OK) {
            drop(r, group.refused);
        } else if (r->own) {
            plait_request_await(r);
            note(&o, plait_request_take(&r), plait_last_error());
        }
    }
    while (creations != NULL) {
        struct creation *c = creations;
        creations = c->next;
        free(c);
    }
    return o.status == PLAIT_OK ? PLAIT_OK : plait_fail(o.status, "%s", o.text);
}
