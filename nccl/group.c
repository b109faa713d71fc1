/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include "error.h"
#include "fuse.h"
#include "stream.h"

#include <plait/group.h>
#include <plait/stream.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group {
    unsigned depth;
    size_t n;
    struct nccl_call *calls, *last;
    struct nccl_job *jobs, *last_job;
    ncclResult_t refused; /* of the first failed call */
};

static _Thread_local struct group *group; /* NULL: no group is open */

static void drop_calls(struct nccl_call *calls)
{
    while (calls != NULL) {
        struct nccl_call *next = calls->next;
        if (calls->comm->generation == calls->generation)
            atomic_fetch_sub(&calls->comm->queued, 1);
        nccl_stream_close(calls);
        free(calls);
        calls = next;
    }
}

/* Remove the calls from the group. */
static struct nccl_job *ungroup_jobs(struct nccl_job *jobs)
{
    for (struct nccl_job *j = jobs; j != NULL; j = j->next)
        if (j->parent != NULL && j->parent->generation == j->generation)
            atomic_fetch_sub(&j->parent->queued, 1);
    return jobs;
}

/* ---- A thread that ends with an open group ------------------------------------------------------------------- */

static pthread_key_t at_thread_end;

static void leave_open(void *arg)
{
    struct group *g = arg;

    nccl_log(PLAIT_LOG_WARN,
             "a thread ended between ncclGroupStart() and ncclGroupEnd(): %zu operations were not started", g->n);
    for (struct nccl_job *j = g->jobs; j != NULL; j = j->next)
        j->out = NULL; /* it may have been on the thread's stack */
    drop_calls(g->calls);
    nccl_jobs_drop(ungroup_jobs(g->jobs));
    free(g);
}

static void make_key(void)
{
    pthread_key_create(&at_thread_end, leave_open);
}

/* ---- Start, and what is called then --------------------------------------------------------------------------- */

ncclResult_t ncclGroupStart(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (group != NULL) {
        group->depth++;
        return ncclSuccess;
    }
    pthread_once(&once, make_key);
    group = calloc(1, sizeof *group);
    if (group == NULL || pthread_setspecific(at_thread_end, group) != 0) {
        free(group);
        group = NULL;
        return nccl_fail(ncclSystemError, NULL, "ncclGroupStart: out of memory");
    }
    group->depth = 1;
    return ncclSuccess;
}

bool nccl_group_is_open(void)
{
    return group != NULL;
}

/* Keep the streams of a group's calls until it ends, so that a handle remains the same stream. */
const struct nccl_call *nccl_group_stream(const struct ncclComm *comm, cudaStream_t stream)
{
    const struct nccl_call *last = group != NULL ? group->last : NULL;

    if (last == NULL || last->comm != comm || last->native != stream || last->on == NULL)
        return NULL;
    return last->shared != NULL ? last->shared : last;
}

ncclResult_t nccl_group_refuse(ncclResult_t result)
{
    if (group != NULL && group->refused == ncclSuccess && result != ncclSuccess && result != ncclInProgress)
        group->refused = result;
    return result;
}

ncclResult_t nccl_group_add(const struct nccl_call *c)
{
    struct nccl_call *copy = malloc(sizeof *copy);

    if (copy == NULL)
        return nccl_fail(ncclSystemError, c->comm, "%s: out of memory for a call of a group", c->kind->name);
    *copy = *c;
    copy->next = NULL;
    atomic_fetch_add(&copy->comm->queued, 1);
    *(group->calls == NULL ? &group->calls : &group->last->next) = copy;
    group->last = copy;
    group->n++;
    return ncclSuccess;
}

void nccl_group_add_job(struct nccl_job *job)
{
    if (job->parent != NULL)
        atomic_fetch_add(&job->parent->queued, 1);
    *(group->jobs == NULL ? &group->jobs : &group->last_job->next) = job;
    group->last_job = job;
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

static void leave_all(const struct nccl_call *calls, const struct nccl_call *end)
{
    for (const struct nccl_call *c = calls; c != end; c = c->next)
        nccl_leave(c->comm);
}

/* A comm may have been aborted meanwhile. */
static ncclResult_t enter_all(const struct nccl_call *calls)
{
    for (const struct nccl_call *c = calls; c != NULL; c = c->next) {
        ncclResult_t result = nccl_enter_ready(c->comm, c->kind->name);
        if (result == ncclSuccess && c->comm->generation != c->generation) {
            nccl_leave(c->comm);
            result = nccl_fail(ncclInvalidArgument, NULL, "%s: the comm was destroyed before its group ended",
                               c->kind->name);
        }
        if (result != ncclSuccess) {
            leave_all(calls, c);
            return result;
        }
    }
    return ncclSuccess;
}

/* The first call of this comm in the group that is on a stream. */
static const struct nccl_call *first_on_stream(const struct nccl_call *calls, const struct ncclComm *comm)
{
    while (calls->comm != comm || !nccl_call_streams(calls))
        calls = calls->next;
    return calls;
}

/*
 * The streams of a comm must belong to one capture, or none may be captured: fused calls would enter the other calls
 * into the graph.
 */
static ncclResult_t find_captures(struct nccl_call *calls)
{
    for (struct nccl_call *c = calls; c != NULL; c = c->next) {
        if (!nccl_call_streams(c))
            continue;
        if (c->shared != NULL && nccl_call_streams(c->shared))
            c->capture = c->shared->capture;
        else if (plait_stream_captures(c->on, &c->capture) != PLAIT_OK)
            return nccl_fail(ncclSystemError, c->comm, "%s: %s", c->kind->name, plait_last_error());
        if (c->capture != first_on_stream(calls, c->comm)->capture)
            return nccl_fail(ncclInvalidUsage, c->comm,
                             "%s: a group has calls of this comm on captured and other streams, or in two captures; "
                             "put the calls of each capture in a group of their own",
                             c->kind->name);
    }
    return ncclSuccess;
}

static void begin_all(const struct nccl_call *calls)
{
    plait_group_start();
    for (const struct nccl_call *c = calls; c != NULL; c = c->next) {
        const struct nccl_call *stands_for = nccl_fuse_stands_for(c);
        if (stands_for != NULL)
            nccl_call_run(stands_for); /* the end of the group reports the error */
    }
}

/* Set the error of each comm of the group, as far as possible. */
static ncclResult_t result_of_all(enum plait_status status, const struct nccl_call *calls)
{
    ncclResult_t result = ncclSuccess;

    for (const struct nccl_call *c = calls; c != NULL && status != PLAIT_OK; c = c->next)
        if (c->next == NULL || c->next->comm != c->comm)
            result = nccl_result(status, c->comm, "ncclGroupEnd");
    return result;
}

static enum plait_status wait_all(const struct nccl_call *calls)
{
    enum plait_status status = PLAIT_OK;

    for (const struct nccl_call *c = calls; c != NULL && status == PLAIT_OK; c = c->next)
        status = nccl_stream_wait(c);
    return status;
}

static enum plait_status run_all(const struct nccl_call *calls)
{
    enum plait_status status = wait_all(calls);

    if (status == PLAIT_OK)
        status = nccl_fuse_pack(calls);
    if (status != PLAIT_OK)
        return status;
    begin_all(calls);
    status = plait_group_end();
    return status == PLAIT_OK ? nccl_fuse_unpack(calls) : status;
}

static ncclResult_t run_calls(struct nccl_call *calls, size_t n)
{
    ncclResult_t result = enter_all(calls);

    if (result != ncclSuccess)
        return result;
    struct nccl_bucket *buckets = calloc(n, sizeof *buckets);
    result = find_captures(calls);
    if (result == ncclSuccess && buckets == NULL)
        result = nccl_fail(ncclSystemError, calls->comm, "ncclGroupEnd: out of memory for %zu operations", n);
    if (result == ncclSuccess)
        result = nccl_fuse(calls, buckets);
    if (result == ncclSuccess)
        result = result_of_all(run_all(calls), calls);
    leave_all(calls, NULL);
    free(buckets);
    return result;
}

/* Close this thread's group; the caller now owns the calls. */
static struct group take(void)
{
    struct group g = *group;

    pthread_setspecific(at_thread_end, NULL);
    free(group);
    group = NULL;
    ungroup_jobs(g.jobs);
    return g;
}

static ncclResult_t worse(ncclResult_t a, ncclResult_t b)
{
    return a == ncclSuccess || (a == ncclInProgress && b != ncclSuccess) ? b : a;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group == NULL)
        return nccl_fail(ncclInvalidUsage, NULL, "ncclGroupEnd: this thread has no group; call ncclGroupStart() first");
    if (--group->depth > 0)
        return ncclSuccess;
    struct group g = take();
    ncclResult_t result = g.refused;
    if (result == ncclSuccess && g.jobs != NULL)
        result = nccl_jobs_do(g.jobs);
    else
        nccl_jobs_drop(g.jobs);
    if ((result == ncclSuccess || result == ncclInProgress) && g.calls != NULL)
        result = worse(run_calls(g.calls, g.n), result);
    drop_calls(g.calls);
    return result;
}

static bool is_sim_info(const ncclSimInfo_t *info)
{
    return info == NULL || (info->magic == NCCL_SIM_INFO_MAGIC && info->size >= sizeof *info);
}

/* Ends the group without beginning its calls. There is no estimate. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
    if (group == NULL || group->depth > 1)
        return nccl_fail(ncclInvalidUsage, NULL, "ncclGroupSimulateEnd: this thread has %s",
                         group == NULL ? "no group" : "nested groups; end the inner ones first");
    struct group g = take();
    ncclResult_t result = g.refused;
    if (result == ncclSuccess && g.jobs != NULL)
        result = nccl_fail(ncclInvalidUsage, NULL,
                           "ncclGroupSimulateEnd: this group creates comms, which cannot be simulated");
    if (result == ncclSuccess && !is_sim_info(simInfo))
        result = nccl_fail(ncclInvalidArgument, NULL,
                           "ncclGroupSimulateEnd: simInfo does not begin with "
                           "NCCL_SIM_INFO_INITIALIZER");
    nccl_jobs_drop(g.jobs);
    drop_calls(g.calls);
    if (result == ncclSuccess && simInfo != NULL)
        simInfo->estimatedTime = NCCL_UNDEF_FLOAT;
    return result;
}

NCCL_TWIN(GroupStart);
NCCL_TWIN(GroupEnd);
NCCL_TWIN(GroupSimulateEnd);
