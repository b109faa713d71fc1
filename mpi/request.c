/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of nonblocking calls: MPI's generalized requests, so that programs can mix them with others. Plait's thread
 * drives the operation. The thread that waits or tests completes the request, as only it may call MPI. So all functions
 * that wait or test look for such requests first.
 */
#include "call.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#define NBUCKET 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_mpi_call *buckets[NBUCKET];
static atomic_uint npending;

/* The calls that MPI's present function has completed with an error. */
static _Thread_local struct plait_mpi_call *failed;

static struct plait_mpi_call **bucket_of(MPI_Request handle)
{
    return &buckets[((uintptr_t)handle >> 4 ^ (uintptr_t)handle) % NBUCKET];
}

static struct plait_mpi_call *find(MPI_Request handle)
{
    struct plait_mpi_call *c;

    if (atomic_load_explicit(&npending, memory_order_relaxed) == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    for (c = *bucket_of(handle); c != NULL && c->handle != handle; c = c->next)
        ;
    pthread_mutex_unlock(&lock);
    return c;
}

/* ---- What MPI asks of a generalized request ---------------------------------------------------------------------- */

/* No errors: MPI would call the handler of MPI_COMM_WORLD. */
static int query(void *state, MPI_Status *status)
{
    (void)state;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static void free_call(struct plait_mpi_call *c)
{
    plait_mpi_comm_drop(c->comm);
    free(c);
}

static int release(void *state)
{
    struct plait_mpi_call *c = state, **link;

    pthread_mutex_lock(&lock);
    for (link = bucket_of(c->handle); *link != c; link = &(*link)->next)
        ;
    *link = c->next;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&npending, 1);
    if (c->code == MPI_SUCCESS) {
        free_call(c);
    } else {
        c->next = failed;
        failed = c;
    }
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS; /* collectives cannot be cancelled */
}

int plait_mpi_request_make(struct plait_mpi_call *c, MPI_Request *out)
{
    plait_mpi_comm_hold(c->comm);
    c->code = PMPI_Grequest_start(query, release, cancel, c, &c->handle);
    if (c->code != MPI_SUCCESS)
        return plait_mpi_error(c->comm->mpi, "MPI makes no generalized request"); /* the buffers are in use */
    pthread_mutex_lock(&lock);
    c->next = *bucket_of(c->handle);
    *bucket_of(c->handle) = c;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&npending, 1);
    *out = c->handle;
    return MPI_SUCCESS;
}

/* ---- Before MPI's function, and after it ------------------------------------------------------------------------- */

/* Complete those requests of ours whose operations have ended, or wait for that. Returns whether there are any. */
static bool drive(int n, const MPI_Request *requests, bool waits)
{
    bool found = false;

    for (int i = 0; requests != NULL && i < n; i++) {
        struct plait_mpi_call *c = find(requests[i]);
        enum plait_status status;
        int done = 1;
        if (c == NULL)
            continue;
        found = true;
        c->index = i;
        if (c->request == NULL) /* completed by an earlier test */
            continue;
        plait_mpi_enter();
        status = waits ? plait_wait(&c->request) : plait_test(&c->request, &done);
        plait_mpi_leave();
        if (!done)
            continue;
        c->request = NULL;
        plait_mpi_call_close(c, status);
        PMPI_Grequest_complete(c->handle);
    }
    return found;
}

/* MPI's result, but the error of a request of ours if one has failed. */
static int result(int code)
{
    struct plait_mpi_call *c = failed;

    if (c == NULL)
        return code;
    const MPI_Comm comm = c->comm->mpi;
    code = c->code;
    while ((c = failed) != NULL) {
        failed = c->next;
        free_call(c);
    }
    return plait_mpi_handle(comm, code);
}

/* The same of several requests, whose errors are in `n` statuses, those of the requests `indices`; NULL: in order. */
static int result_of_all(int code, int n, const int *indices, MPI_Status *statuses)
{
    if (failed == NULL)
        return code;
    for (int i = 0; statuses != MPI_STATUSES_IGNORE && i < n; i++) {
        if (code == MPI_SUCCESS) /* else MPI has set it */
            statuses[i].MPI_ERROR = MPI_SUCCESS;
        for (const struct plait_mpi_call *c = failed; c != NULL; c = c->next)
            if (c->index == (indices != NULL ? indices[i] : i))
                statuses[i].MPI_ERROR = c->code;
    }
    result(code);
    return MPI_ERR_IN_STATUS;
}

/* ---- MPI's functions --------------------------------------------------------------------------------------------- */

int plait_mpi_Wait(MPI_Request *request, MPI_Status *status)
{
    drive(1, request, true);
    return result(PMPI_Wait(request, status));
}

int plait_mpi_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
    drive(n, requests, true);
    return result_of_all(PMPI_Waitall(n, requests, statuses), n, NULL, statuses);
}

int plait_mpi_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    drive(1, request, false);
    return result(PMPI_Test(request, flag, status));
}

int plait_mpi_Testall(int n, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    drive(n, requests, false);
    return result_of_all(PMPI_Testall(n, requests, flag, statuses), n, NULL, statuses);
}

int plait_mpi_Testany(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    drive(n, requests, false);
    return result(PMPI_Testany(n, requests, index, flag, status));
}

int plait_mpi_Testsome(int n, MPI_Request requests[], int *nout, int indices[], MPI_Status statuses[])
{
    drive(n, requests, false);
    const int code = PMPI_Testsome(n, requests, nout, indices, statuses);
    return result_of_all(code, failed != NULL ? *nout : 0, indices, statuses);
}

int plait_mpi_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status)
{
    int flag = 0, code = MPI_SUCCESS;

    if (!drive(n, requests, false))
        return PMPI_Waitany(n, requests, index, status);
    while (code == MPI_SUCCESS && !flag) {
        code = plait_mpi_Testany(n, requests, index, &flag, status);
        sched_yield();
    }
    return code;
}

int plait_mpi_Waitsome(int n, MPI_Request requests[], int *nout, int indices[], MPI_Status statuses[])
{
    int code;

    if (!drive(n, requests, false))
        return PMPI_Waitsome(n, requests, nout, indices, statuses);
    do {
        code = plait_mpi_Testsome(n, requests, nout, indices, statuses);
        sched_yield();
    } while (code == MPI_SUCCESS && *nout == 0);
    return code;
}

/* The request stays, and so its error is yet to be handled. */
int plait_mpi_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    drive(1, &request, false);
    const int code = PMPI_Request_get_status(request, flag, status);
    const struct plait_mpi_call *c = find(request);
    if (code == MPI_SUCCESS && *flag && status != MPI_STATUS_IGNORE && c != NULL && c->code != MPI_SUCCESS)
        status->MPI_ERROR = c->code;
    return code;
}
