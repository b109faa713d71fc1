/* SPDX-License-Identifier: BSD-3-Clause */
#include "birth.h"

#include "base/status.h"
#include "bootstrap/frame.h"
#include "failure/failure.h"
#include "meet.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plait_birth {
    struct plait_comm_options options; /* with copies of what they pointed to */
    struct plait_unique_id id;
    pthread_t thread;
    struct plait_watch watch;
    atomic_bool cancelled; /* by plait_comm_abort() or destroy: the meeting looks */
    atomic_bool aborted;   /* by plait_comm_abort() */
    atomic_bool over;      /* the rest is known */
    enum plait_status status;
    char text[512];
};

static void *memcpy_new(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    return to != NULL ? memcpy(to, from, bytes) : NULL;
}

static enum plait_status look_if_cancelled(const void *context)
{
    const struct plait_birth *b = context;

    return atomic_load(&b->cancelled) ? plait_fail(PLAIT_ERR_FAILED, "comm creation: aborted on this rank") : PLAIT_OK;
}

static void *give_birth(void *arg)
{
    struct plait_comm *comm = arg;
    struct plait_birth *b = comm->birth;

    b->watch = (struct plait_watch){ look_if_cancelled, b };
    b->status = plait_comm_create_as(comm, &b->options, &b->watch);
    if (b->status != PLAIT_OK)
        snprintf(b->text, sizeof b->text, "%s", plait_last_error());
    atomic_store(&b->over, true);
    if (b->status == PLAIT_OK && atomic_load(&b->aborted)) /* after the meeting's last look, before its end was known */
        plait_comm_announce_abort(comm, "while it was created", false);
    return NULL;
}

static void forget(struct plait_comm *comm)
{
    if (comm->birth == NULL)
        return;
    free((char *)(uintptr_t)comm->birth->options.name);
    free((uint32_t *)(uintptr_t)comm->birth->options.node);
    free((void *)(uintptr_t)comm->birth->options.algorithms);
    free(comm->birth);
    comm->birth = NULL;
}

/* What the options point to may be gone before the comm is there. */
static bool copy_options(struct plait_birth *b, const struct plait_comm_options *o)
{
    size_t n = 0;

    b->options = *o;
    b->options.node = NULL;
    b->options.algorithms = NULL;
    b->options.name = strdup(o->name != NULL ? o->name : "comm");
    if (o->id != NULL) {
        b->id = *o->id;
        b->options.id = &b->id;
    }
    if (o->node != NULL)
        b->options.node = memcpy_new(o->node, o->nrank * sizeof *o->node);
    while (o->algorithms != NULL && o->algorithms[n] != NULL)
        n++;
    if (o->algorithms != NULL)
        b->options.algorithms = memcpy_new(o->algorithms, (n + 1) * sizeof *o->algorithms);
    return b->options.name != NULL && (o->node == NULL || b->options.node != NULL) &&
           (o->algorithms == NULL || b->options.algorithms != NULL);
}

enum plait_status plait_birth_begin(const struct plait_comm_options *options, struct plait_comm **out)
{
    struct plait_comm *comm;
    sigset_t all, saved;
    int error = ENOMEM;

    comm = plait_comm_allocate(options);
    if (comm != NULL && (comm->birth = calloc(1, sizeof *comm->birth)) != NULL && copy_options(comm->birth, options)) {
        sigfillset(&all); /* the caller's signals arrive as before */
        pthread_sigmask(SIG_SETMASK, &all, &saved);
        error = pthread_create(&comm->birth->thread, NULL, give_birth, comm);
        pthread_sigmask(SIG_SETMASK, &saved, NULL);
    }
    if (error == 0) {
        *out = comm;
        return PLAIT_OK;
    }
    if (comm != NULL) {
        forget(comm);
        plait_comm_discard(comm);
    }
    /* The others, who can, wait for this rank. */
    return plait_meet(NULL, options, plait_fail_errno(error, "no thread to create a comm in the background"), NULL);
}

bool plait_birth_abort(struct plait_comm *comm)
{
    atomic_store(&comm->birth->aborted, true);
    atomic_store(&comm->birth->cancelled, true);
    return plait_comm_unborn(comm);
}

enum plait_status plait_birth_end(struct plait_comm *comm)
{
    enum plait_status status;

    atomic_store(&comm->birth->cancelled, true);
    pthread_join(comm->birth->thread, NULL);
    status = comm->birth->status;
    forget(comm);
    return status;
}

enum plait_status plait_comm_status(struct plait_comm *comm)
{
    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_status: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_status");
    if (comm->birth != NULL) {
        if (!atomic_load_explicit(&comm->birth->over, memory_order_acquire))
            return PLAIT_IN_PROGRESS;
        if (comm->birth->status != PLAIT_OK)
            return plait_fail(comm->birth->status, "%s", comm->birth->text);
    }
    /* Other ranks' failures reach a rank that waits; this one may not. */
    const struct plait_control *failed = comm->own;
    for (uint32_t r = 0; r < comm->nrank && atomic_load(&failed->failed) == PLAIT_OK; r++)
        failed = comm->peers[r].control;
    const enum plait_status status = (enum plait_status)atomic_load(&failed->failed);
    if (status == PLAIT_OK)
        return PLAIT_OK;
    if (failed != comm->own)
        plait_announce_failure(comm, status, failed->failure, failed->culprit);
    return plait_fail(status, "%s", comm->own->failure);
}
