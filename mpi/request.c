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

/* Errors of requests that this thread has completed. */
static _Thread_local struct {
    int code;
    MPI_Comm comm;
} failed;

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

/* MPI asks when the request is completed for the program. */
static int query(void *state, MPI_Status *status)
{
    const struct plait_mpi_call *c = state;

    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    if (c->code != MPI_SUCCESS) {
        failed.code = c->code;
        failed.comm = c->comm->mpi;
    }
    return MPI_SUCCESS; /* else MPI calls the handler of MPI_COMM_WORLD */
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
    plait_mpi_comm_drop(c->comm);
    free(c);
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

/* Complete a request of ours if its operation has ended, or wait for that. */
static void drive(MPI_Request handle, bool waits)
{
    struct plait_mpi_call *c = find(handle);
    enum plait_status status;
    int done = 1;

    if (c == NULL || c->request == NULL)
        return;
    plait_mpi_enter();
    status = waits ? plait_wait(&c->request) : plait_test(&c->request, &done);
    plait_mpi_leave();
    if (!done)
        return;
    c->request = NULL;
    plait_mpi_call_close(c, status);
    PMPI_Grequest_complete(handle);
}

static void drive_all(int n, const MPI_Request *requests, bool wait)
{
    for (int i = 0; requests != NULL && i < n && atomic_load_explicit(&npending, memory_order_relaxed) > 0; i++)
        drive(requests[i], wait);
}

static bool has_ours(int n, const MPI_Request *requests)
{
    for (int i = 0; requests != NULL && i < n; i++)
        if (find(requests[i]) != NULL)
            return true;
    return false;
}

/* The error of each request that has failed, [n]; NULL: none has. Waiting and testing forget the requests. */
static int *codes_of(int n, const MPI_Request *requests)
{
    int *codes = NULL;

    for (int i = 0; requests != NULL && i < n; i++) {
        const struct plait_mpi_call *c = find(requests[i]);
        if (c == NULL || c->code == MPI_SUCCESS)
            continue;
        if (codes == NULL && (codes = calloc((size_t)n, sizeof *codes)) == NULL)
            break; /* the caller gets MPI_ERR_IN_STATUS all the same */
        codes[i] = c->code;
    }
    return codes;
}

/* MPI's result, but the error of a request of ours if there is one. */
static int result(int code)
{
    const int own = failed.code;

    if (own == MPI_SUCCESS)
        return code;
    failed.code = MPI_SUCCESS;
    return plait_mpi_handle(failed.comm, own);
}

/* The same of several requests, whose errors are in `n` statuses; frees `codes`. */
static int result_of_all(int code, int *codes, int n, const int *indices, MPI_Status *statuses)
{
    const bool own = failed.code != MPI_SUCCESS;

    for (int i = 0; own && statuses != MPI_STATUSES_IGNORE && i < n; i++) {
        const int found = codes != NULL ? codes[indices != NULL ? indices[i] : i] : MPI_SUCCESS;
        if (found != MPI_SUCCESS || code == MPI_SUCCESS) /* else MPI has set it */
            statuses[i].MPI_ERROR = found;
    }
    free(codes);
    code = result(code);
    return own ? MPI_ERR_IN_STATUS : code;
}

int plait_mpi_Wait(MPI_Request *request, MPI_Status *status)
{
    drive_all(1, request, true);
    return result(PMPI_Wait(request, status));
}

int plait_mpi_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
    drive_all(n, requests, true);
    int *const codes = codes_of(n, requests), code = PMPI_Waitall(n, requests, statuses);
    return result_of_all(code, codes, n, NULL, statuses);
}

int plait_mpi_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status)
{
    int flag = 0, code = MPI_SUCCESS;

    if (!has_ours(n, requests))
        return PMPI_Waitany(n, requests, index, status);
    while (code == MPI_SUCCESS && !flag) {
        drive_all(n, requests, false);
        code = PMPI_Testany(n, requests, index, &flag, status);
        sched_yield();
    }
    return result(code);
}

int plait_mpi_Waitsome(int n, MPI_Request requests[], int *nout, int indices[], MPI_Status statuses[])
{
    int code;

    if (!has_ours(n, requests))
        return PMPI_Waitsome(n, requests, nout, indices, statuses);
    do {
        code = plait_mpi_Testsome(n, requests, nout, indices, statuses);
        sched_yield();
    } while (code == MPI_SUCCESS && *nout == 0);
    return code;
}

int plait_mpi_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    drive_all(1, request, false);
    return result(PMPI_Test(request, flag, status));
}

int plait_mpi_Testall(int n, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    drive_all(n, requests, false);
    int *const codes = codes_of(n, requests), code = PMPI_Testall(n, requests, flag, statuses);
    return result_of_all(code, codes, n, NULL, statuses);
}

int plait_mpi_Testany(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    drive_all(n, requests, false);
    return result(PMPI_Testany(n, requests, index, flag, status));
}

int plait_mpi_Testsome(int n, MPI_Request requests[], int *nout, int indices[], MPI_Status statuses[])
{
    drive_all(n, requests, false);
    int *const codes = codes_of(n, requests), code = PMPI_Testsome(n, requests, nout, indices, statuses);
    return result_of_all(code, codes, *nout == MPI_UNDEFINED ? 0 : *nout, indices, statuses);
}

/* The request stays, and so its error is yet to be handled. */
int plait_mpi_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    drive_all(1, &request, false);
    const int code = PMPI_Request_get_status(request, flag, status);
    if (failed.code != MPI_SUCCESS && status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = failed.code;
    failed.code = MPI_SUCCESS;
    return code;
}

int plait_mpi_Request_free(MPI_Request *request)
{
    drive_all(1, request, true);
    return PMPI_Request_free(request);
}
