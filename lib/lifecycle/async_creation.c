/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

#include "base/status.h"
#include "base/thread.h"
#include "failure/failure.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct plait_async_creation {
    struct plait_comm_options options; /* all that they point to is a copy of this struct's */
    struct plait_unique_id id;
    pthread_t thread;
    struct plait_watch watch;
    atomic_bool cancelled; /* by plait_comm_abort() or destroy; the rendezvous polls the flag */
    atomic_bool aborted;   /* by plait_comm_abort() */
    atomic_bool over;      /* the result is final */
    struct plait_error result;
};

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    return to != NULL ? memcpy(to, from, bytes) : NULL;
}

static enum plait_status look_if_cancelled(const void *context)
{
    const struct plait_async_creation *a = context;

    return atomic_load(&a->cancelled) ? plait_fail(PLAIT_ERR_FAILED, "comm creation: aborted on this rank") : PLAIT_OK;
}

static void *create_in_thread(void *arg)
{
    struct plait_comm *comm = arg;
    struct plait_async_creation *a = comm->async_creation;

    a->watch = (struct plait_watch){ look_if_cancelled, a };
    a->result = plait_error_of(plait_comm_create_as(comm, &a->options, &a->watch));
    atomic_store(&a->over, true);
    if (a->result.status == PLAIT_OK &&
        atomic_load(&a->aborted)) /* abort came after the rendezvous last polled the flag */
        plait_comm_announce_abort(comm, "while it was created", false);
    return NULL;
}

static void forget(struct plait_comm *comm)
{
    if (comm->async_creation == NULL)
        return;
    free((char *)(uintptr_t)comm->async_creation->options.name);
    free((uint32_t *)(uintptr_t)comm->async_creation->options.node);
    free((void *)(uintptr_t)comm->async_creation->options.algorithms);
    free(comm->async_creation);
    comm->async_creation = NULL;
}

/* Deep copy: the caller may free the objects that the options point to before the creation ends. */
static bool copy_options(struct plait_async_creation *a, const struct plait_comm_options *o)
{
    size_t n = 0;

    a->options = *o;
    a->options.node = NULL;
    a->options.algorithms = NULL;
    a->options.name = strdup(o->name != NULL ? o->name : "comm");
    if (o->id != NULL) {
        a->id = *o->id;
        a->options.id = &a->id;
    }
    if (o->node != NULL)
        a->options.node = copy(o->node, o->nrank * sizeof *o->node);
    while (o->algorithms != NULL && o->algorithms[n] != NULL)
        n++;
    if (o->algorithms != NULL)
        a->options.algorithms = copy(o->algorithms, (n + 1) * sizeof *o->algorithms);
    return a->options.name != NULL && (o->node == NULL || a->options.node != NULL) &&
           (o->algorithms == NULL || a->options.algorithms != NULL);
}

enum plait_status plait_async_creation_begin(const struct plait_comm_options *options, struct plait_comm **out)
{
    struct plait_comm *comm;
    int error = ENOMEM;

    comm = plait_comm_allocate(options);
    if (comm != NULL && (comm->async_creation = calloc(1, sizeof *comm->async_creation)) != NULL &&
        copy_options(comm->async_creation, options)) {
        error = plait_thread_start(&comm->async_creation->thread, create_in_thread, comm);
    }
    if (error == 0) {
        *out = comm;
        return PLAIT_OK;
    }
    if (comm != NULL) {
        forget(comm);
        plait_comm_discard(comm);
    }
    /* The other ranks wait for this one: tell them of the error. */
    return plait_comm_connect(NULL, options, plait_fail_errno(error, "no thread to create a comm in the background"),
                              NULL);
}

bool plait_async_creation_abort(struct plait_comm *comm)
{
    atomic_store(&comm->async_creation->aborted, true);
    atomic_store(&comm->async_creation->cancelled, true);
    return plait_comm_uncreated(comm);
}

enum plait_status plait_async_creation_end(struct plait_comm *comm)
{
    enum plait_status status;

    atomic_store(&comm->async_creation->cancelled, true);
    pthread_join(comm->async_creation->thread, NULL);
    status = comm->async_creation->result.status;
    forget(comm);
    return status;
}

enum plait_status plait_comm_status(struct plait_comm *comm)
{
    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_status: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_status");
    if (comm->async_creation != NULL) {
        if (!atomic_load_explicit(&comm->async_creation->over, memory_order_acquire))
            return PLAIT_IN_PROGRESS;
        if (comm->async_creation->result.status != PLAIT_OK)
            return plait_fail(comm->async_creation->result.status, "%s", comm->async_creation->result.text);
    }
    /* A rank that waits notices other ranks' failures. This rank may not be waiting, so look now. */
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
