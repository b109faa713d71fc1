/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include "environment.h"
#include "error.h"
#include "group.h"
#include "stream.h"

#include <plait/group.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nccl_job *nccl_job_new(enum nccl_job_kind kind, const char *call, struct ncclComm *parent, bool blocking,
                              const char *name)
{
    static const struct plait_comm_options defaults = PLAIT_COMM_OPTIONS_DEFAULT;
    struct nccl_job *j = calloc(1, sizeof *j);

    if (j == NULL)
        return NULL;
    j->kind = kind;
    j->call = call;
    j->parent = parent;
    j->generation = parent != NULL ? parent->generation : 0;
    j->blocking = blocking;
    j->options = defaults;
    j->options.name = j->name;
    snprintf(j->name, sizeof j->name, "%s", name);
    return j;
}

void nccl_jobs_free(struct nccl_job *jobs)
{
    while (jobs != NULL) {
        struct nccl_job *next = jobs->next;
        free(jobs->excluded);
        free(jobs);
        jobs = next;
    }
}

/* ---- What they do --------------------------------------------------------------------------------------------- */

static struct plait_comm *parent_of(const struct nccl_job *j)
{
    return j->through != NULL ? j->through : atomic_load(&j->parent->plait);
}

/* The comm may exist and have failed since, which its next call reports. */
static bool is_there(const struct plait_comm *comm)
{
    struct plait_comm_memory memory;

    plait_comm_memory(comm, &memory);
    return memory.control > 0;
}

/* In the background, so that ncclCommAbort() from another thread can end it. */
static enum plait_status create(struct nccl_job *j)
{
    enum plait_status status;

    j->options.background = j->alone;
    status = plait_comm_create(&j->options, &j->made);
    if (status != PLAIT_OK || !j->alone)
        return status;
    while ((status = plait_comm_status(j->made)) == PLAIT_IN_PROGRESS) {
        if (atomic_load(&j->child->making) == NCCL_UNWANTED)
            plait_comm_abort(j->made, "ncclCommAbort()");
        usleep(200);
    }
    if (status == PLAIT_OK || is_there(j->made))
        return PLAIT_OK;
    plait_comm_destroy(j->made); /* which keeps the error text */
    j->made = NULL;
    return status;
}

static enum plait_status make(struct nccl_job *j)
{
    switch (j->kind) {
    case NCCL_JOB_CREATE:
        return create(j);
    case NCCL_JOB_SPLIT:
        return plait_comm_split(parent_of(j), j->color, j->key, j->name, &j->made);
    case NCCL_JOB_SHRINK:
        return plait_comm_shrink(parent_of(j), j->excluded, j->nexcluded, 0, j->name, &j->made);
    case NCCL_JOB_FINALIZE:
        break;
    }
    return plait_comm_finalize(parent_of(j));
}

static void stop(struct nccl_job *jobs)
{
    for (struct nccl_job *j = jobs; j != NULL; j = j->next)
        if (j->abort)
            plait_comm_revoke(parent_of(j));
}

/* A revoked comm has failed: its ranks first create another one, which is then split. */
static enum plait_status make_way(struct nccl_job *j)
{
    if (j->kind != NCCL_JOB_SPLIT || !atomic_load(&j->parent->revoked))
        return PLAIT_OK;
    return plait_comm_shrink(parent_of(j), NULL, 0, 0, j->name, &j->through);
}

/* In one group of the library, since one thread may hold several ranks of a comm. */
static enum plait_status all(struct nccl_job *jobs, enum plait_status (*what)(struct nccl_job *))
{
    if (jobs->next == NULL)
        return what(jobs);
    plait_group_start();
    for (struct nccl_job *j = jobs; j != NULL; j = j->next)
        what(j);
    return plait_group_end();
}

static enum plait_status work(struct nccl_job *jobs)
{
    enum plait_status status;

    jobs->alone = jobs->next == NULL;
    stop(jobs);
    status = all(jobs, make_way);

    if (status == PLAIT_OK)
        status = all(jobs, make);
    for (struct nccl_job *j = jobs; j != NULL; j = j->next)
        plait_comm_destroy(j->through);
    return status;
}

static void configure(struct ncclComm *c)
{
    const char *algorithms = nccl_environment("NCCL_ALGO");
    char own[256];

    nccl_setting("PLAIT_ALGO", own, sizeof own);
    if (own[0] != '\0')
        algorithms = NULL;
    c->fusion = nccl_setting_bytes("PLAIT_NCCL_FUSION");
    snprintf(c->algorithms, sizeof c->algorithms, "%s", algorithms != NULL ? algorithms : "");
}

/* The comm exists now. */
static void deliver(struct nccl_job *j)
{
    struct ncclComm *c = j->child;

    configure(c);
    c->nrank = (int)plait_comm_nrank(j->made);
    c->rank = (int)plait_comm_rank(j->made);
    atomic_store(&c->plait, j->made);
}

/* The comm could not be created. If it was aborted meanwhile, its creator frees it. */
static void withdraw(struct nccl_job *j)
{
    struct ncclComm *c = j->child;

    if (c == NULL)
        return;
    if (j->out != NULL)
        *j->out = NULL;
    if (!nccl_comm_close(c) && atomic_load(&c->making) == NCCL_MADE)
        return;
    nccl_comm_drain(c); /* an abort reads it until then */
    nccl_comm_free(c, true);
}

/* It was aborted while it was created. */
static ncclResult_t discard(struct nccl_job *j)
{
    plait_comm_abort(j->made, "ncclCommAbort()");
    plait_comm_destroy(j->made);
    withdraw(j);
    return nccl_fail(ncclRemoteError, NULL, "%s: the comm was aborted while it was created", j->call);
}

/* ---- Now -------------------------------------------------------------------------------------------------------- */

static ncclResult_t do_now(struct nccl_job *jobs)
{
    const enum plait_status status = work(jobs);
    ncclResult_t result = ncclSuccess;

    for (struct nccl_job *j = jobs; j != NULL; j = j->next) {
        if (status != PLAIT_OK && j->made == NULL)
            result = nccl_result(status, j->parent, j->call);
        if (j->made != NULL)
            deliver(j);
        if (j->made != NULL && !nccl_comm_made(j->child))
            result = discard(j);
        else if (j->made == NULL && status != PLAIT_OK)
            withdraw(j);
        if (j->kind == NCCL_JOB_FINALIZE)
            j->parent->finalized = status == PLAIT_OK;
        if (j->parent != NULL)
            nccl_leave(j->parent);
    }
    nccl_jobs_free(jobs);
    return result;
}

/* ---- In the background ------------------------------------------------------------------------------------------ */

static void end(struct ncclComm *c, ncclResult_t result)
{
    if (c == NULL)
        return;
    if (result != ncclSuccess)
        atomic_store(&c->trouble, result);
    nccl_comm_worked(c);
}

static void *do_in_background(void *arg)
{
    struct nccl_job *jobs = arg;
    const enum plait_status status = work(jobs);

    for (struct nccl_job *j = jobs; j != NULL; j = j->next) {
        ncclResult_t result = ncclSuccess;
        if (status != PLAIT_OK && j->made == NULL)
            result = nccl_result(status, j->child != NULL ? j->child : j->parent, j->call);
        if (j->made != NULL)
            deliver(j);
        if (j->kind == NCCL_JOB_FINALIZE)
            j->parent->finalized = status == PLAIT_OK;
        const bool unwanted = j->child != NULL && !nccl_comm_made(j->child);
        end(j->child, result);
        if (unwanted)
            discard(j);
        end(j->parent, j->child == NULL ? result : ncclSuccess); /* a failed comm reports it by itself */
        nccl_leave(j->parent);
    }
    nccl_jobs_free(jobs);
    return NULL;
}

static void mark(const struct nccl_job *jobs, int n)
{
    for (const struct nccl_job *j = jobs; j != NULL; j = j->next) {
        if (j->child != NULL)
            atomic_fetch_add(&j->child->working, (uint32_t)n);
        if (j->child != NULL)
            nccl_comm_made(j->child); /* destroying it from now on waits */
        atomic_fetch_add(&j->parent->working, (uint32_t)n);
    }
}

static ncclResult_t do_later(struct nccl_job *jobs)
{
    sigset_t every, saved;
    pthread_attr_t attr;
    pthread_t thread;

    mark(jobs, 1);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&every); /* signals go to the caller's threads */
    pthread_sigmask(SIG_SETMASK, &every, &saved);
    const int error = pthread_create(&thread, &attr, do_in_background, jobs);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attr);
    if (error == 0)
        return ncclInProgress;
    mark(jobs, -1);
    return do_now(jobs); /* slower, but correct */
}

/* Comms without a parent are created in the background by the library, where creation can be aborted. */
static ncclResult_t create_later(struct nccl_job *j)
{
    j->options.background = 1;
    const enum plait_status status = plait_comm_create(&j->options, &j->made);
    if (status == PLAIT_OK) {
        atomic_store(&j->child->creating, true);
        deliver(j);
        const ncclResult_t result = nccl_comm_made(j->child) ? ncclInProgress : discard(j);
        nccl_jobs_free(j);
        return result;
    }
    const ncclResult_t result = nccl_result(status, NULL, j->call);
    withdraw(j);
    nccl_jobs_free(j);
    return result;
}

/* ---- All of a group --------------------------------------------------------------------------------------------- */

static ncclResult_t first_error(ncclResult_t a, ncclResult_t b)
{
    return a == ncclSuccess || (a == ncclInProgress && b != ncclSuccess) ? b : a;
}

static ncclResult_t enter_parents(const struct nccl_job *jobs)
{
    for (const struct nccl_job *j = jobs; j != NULL; j = j->next) {
        ncclResult_t result = j->parent != NULL ? nccl_enter_ready(j->parent, j->call) : ncclSuccess;
        if (result == ncclSuccess && j->parent != NULL && j->parent->generation != j->generation) {
            nccl_leave(j->parent);
            result = nccl_fail(ncclInvalidArgument, NULL, "%s: the comm was destroyed before its group ended", j->call);
        }
        for (const struct nccl_job *k = jobs; k != j && result != ncclSuccess; k = k->next)
            if (k->parent != NULL)
                nccl_leave(k->parent);
        if (result != ncclSuccess)
            return result;
    }
    return ncclSuccess;
}

static ncclResult_t check_children(const struct nccl_job *jobs)
{
    for (const struct nccl_job *j = jobs; j != NULL; j = j->next)
        if (j->child != NULL && atomic_load(&j->child->making) == NCCL_UNWANTED)
            return nccl_fail(ncclInvalidUsage, NULL, "%s: the comm was aborted before its group ended", j->call);
    return ncclSuccess;
}

ncclResult_t nccl_jobs_do(struct nccl_job *jobs)
{
    struct nccl_job *now = NULL, **now_end = &now, *later = NULL, **later_end = &later;
    ncclResult_t result = check_children(jobs);

    if (result == ncclSuccess)
        result = enter_parents(jobs);
    if (result != ncclSuccess) {
        nccl_jobs_drop(jobs);
        return result;
    }
    while (jobs != NULL) {
        struct nccl_job *j = jobs;
        jobs = j->next;
        j->next = NULL;
        if (j->blocking) {
            *now_end = j;
            now_end = &j->next;
        } else if (j->parent == NULL) {
            result = first_error(result, create_later(j));
        } else {
            *later_end = j;
            later_end = &j->next;
        }
    }
    if (later != NULL)
        result = first_error(result, do_later(later));
    return now != NULL ? first_error(result, do_now(now)) : result;
}

void nccl_jobs_drop(struct nccl_job *jobs)
{
    for (struct nccl_job *j = jobs; j != NULL; j = j->next)
        withdraw(j);
    nccl_jobs_free(jobs);
}

ncclResult_t nccl_job_do(struct nccl_job *job)
{
    if (!nccl_group_is_open() || job->kind == NCCL_JOB_FINALIZE)
        return nccl_jobs_do(job);
    nccl_group_add_job(job);
    return job->blocking ? ncclSuccess : ncclInProgress;
}
