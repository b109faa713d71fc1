/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

#include "base/status.h"
#include "base/thread.h"
#include "failure/failure.h"

#include <errno.h>
#include <stdlib.h>

struct plait_async_creation {
    struct plait_comm_options options; /* only what plait_comm_connect() needs: the caller's arrays may be gone */
    struct plait_unique_id id;
    struct plait_saved_error own; /* this rank's error, before it meets the others */
    pthread_t thread;
    atomic_bool cancelled; /* by plait_comm_abort() or destroy; the rendezvous polls the flag */
    atomic_bool aborted;   /* by plait_comm_abort() */
    atomic_bool over;      /* the result is final */
    struct plait_saved_error result;
};

static enum plait_status check_cancelled(const void *context)
{
    const struct plait_async_creation *a = context;

    return atomic_load(&a->cancelled) ? plait_fail(PLAIT_ERR_FAILED, "comm creation: aborted on this rank") : PLAIT_OK;
}

static void *create_in_thread(void *arg)
{
    struct plait_comm *comm = arg;
    struct plait_async_creation *a = comm->async_creation;
    const struct plait_watch watch = { check_cancelled, a };

    plait_save_error(&a->result, plait_comm_meet(comm, &a->options, plait_restore_error(&a->own), &watch));
    atomic_store(&a->over, true);
    if (a->result.status == PLAIT_OK &&
        atomic_load(&a->aborted)) /* abort came after the rendezvous last polled the flag */
        plait_comm_announce_abort(comm, "while it was created", false);
    return NULL;
}

enum plait_status plait_async_creation_begin(const struct plait_comm_options *options, struct plait_comm **out)
{
    struct plait_comm *comm = plait_comm_allocate(options);
    struct plait_async_creation *a = comm != NULL ? calloc(1, sizeof *a) : NULL;
    int error = ENOMEM;

    if (a != NULL) {
        comm->async_creation = a;
        a->options = *options;
        a->options.id = options->id != NULL ? &a->id : NULL;
        if (options->id != NULL)
            a->id = *options->id;
        plait_save_error(&a->own, plait_comm_prepare(comm, options));
        error = plait_thread_start(&a->thread, create_in_thread, comm);
    }
    if (error == 0) {
        *out = comm;
        return PLAIT_OK;
    }
    if (comm != NULL) {
        comm->async_creation = NULL;
        plait_comm_discard(comm);
    }
    free(a);
    /* The other ranks wait for this one: tell them of the error. */
    return plait_comm_make(options, plait_fail_errno(error, "no thread to create a comm in the background"), NULL, out);
}

bool plait_async_creation_abort(struct plait_comm *comm)
{
    atomic_store(&comm->async_creation->aborted, true);
    atomic_store(&comm->async_creation->cancelled, true);
    return plait_comm_uncreated(comm);
}

enum plait_status plait_async_creation_end(struct plait_comm *comm)
{
    struct plait_async_creation *a = comm->async_creation;

    atomic_store(&a->cancelled, true);
    pthread_join(a->thread, NULL);
    const enum plait_status status = a->result.status;
    comm->async_creation = NULL;
    free(a);
    return status;
}

enum plait_status plait_comm_status(struct plait_comm *comm)
{
    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_status: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_status");
    const struct plait_async_creation *a = comm->async_creation;
    if (a != NULL && !atomic_load_explicit(&a->over, memory_order_acquire))
        return PLAIT_IN_PROGRESS;
    if (a != NULL && a->result.status != PLAIT_OK)
        return plait_restore_error(&a->result);
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
