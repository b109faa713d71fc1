/* SPDX-License-Identifier: BSD-3-Clause */
/* Managing, splitting and destroying comms. */
#include "config.h"
#include "error.h"
#include "group.h"
#include "job.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Questions --------------------------------------------------------------------------------------------- */

static ncclResult_t answer(ncclComm_t comm, int *out, size_t field, const char *call, const char *name)
{
    ncclResult_t result = nccl_enter_ready(comm, call);

    if (result != ncclSuccess)
        return result;
    if (out == NULL)
        result = nccl_fail(ncclInvalidArgument, comm, "%s: %s is NULL", call, name);
    else
        memcpy(out, (const char *)comm + field, sizeof *out);
    nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    return answer(comm, count, offsetof(struct ncclComm, nrank), "ncclCommCount", "count");
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    return answer(comm, rank, offsetof(struct ncclComm, rank), "ncclCommUserRank", "rank");
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    return answer(comm, device, offsetof(struct ncclComm, device), "ncclCommCuDevice", "device");
}

static ncclResult_t state_of(struct ncclComm *c)
{
    struct plait_comm *p = atomic_load(&c->plait);

    if (atomic_load(&c->working) > 0)
        return ncclInProgress;
    if (atomic_load(&c->trouble) != ncclSuccess)
        return (ncclResult_t)atomic_load(&c->trouble);
    if (p == NULL)
        return ncclInProgress; /* until its group ends */
    const enum plait_status status = atomic_load(&c->revoked) ? PLAIT_OK : plait_comm_status(p);
    return status < 0 ? nccl_result(status, c, "ncclCommGetAsyncError") : nccl_result_of(status);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    ncclResult_t result = nccl_enter(comm, "ncclCommGetAsyncError");

    if (result != ncclSuccess)
        return result;
    if (asyncError == NULL)
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommGetAsyncError: asyncError is NULL");
    else
        *asyncError = state_of(comm);
    nccl_leave(comm);
    return result;
}

/* ---- Comms made of one --------------------------------------------------------------------------------------- */

/* A job, with a comm for it to create if this rank gets one. */
static struct nccl_job *derive(enum nccl_job_kind kind, const char *call, ncclComm_t parent, ncclComm_t *out,
                               const struct nccl_config *config, bool is_in)
{
    struct nccl_job *j = nccl_job_new(kind, call, parent, config->blocking, config->name);

    if (j == NULL)
        return NULL;
    j->out = out;
    if (is_in && (j->child = nccl_comm_new(0, 0, parent->device, parent->gpu, config->blocking)) == NULL) {
        nccl_jobs_free(j);
        return NULL;
    }
    assert(out != NULL); /* checked by the callers */
    *out = j->child;
    return j;
}

static struct nccl_config config_of(struct ncclComm *parent)
{
    struct nccl_config c = { parent->blocking, "" };

    snprintf(c.name, sizeof c.name, "%s", plait_comm_name(atomic_load(&parent->plait)));
    return c;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    static const char call[] = "ncclCommSplit";
    ncclResult_t result = nccl_enter_ready(comm, call);

    if (result != ncclSuccess)
        return nccl_group_refuse(result);
    struct nccl_config c = config_of(comm);
    if (newcomm == NULL)
        result = nccl_fail(ncclInvalidArgument, comm, "%s: newcomm is NULL", call);
    else if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        result = nccl_fail(ncclInvalidArgument, comm, "%s: color is %d; it is 0 or more, or NCCL_SPLIT_NOCOLOR", call,
                           color);
    if (result == ncclSuccess)
        result = nccl_config_read(config, call, &c);
    struct nccl_job *j =
        result == ncclSuccess ? derive(NCCL_JOB_SPLIT, call, comm, newcomm, &c, color != NCCL_SPLIT_NOCOLOR) : NULL;
    if (j != NULL) {
        j->color = color == NCCL_SPLIT_NOCOLOR ? PLAIT_NO_COLOR : color;
        j->key = key;
        result = nccl_job_do(j);
    } else if (result == ncclSuccess) {
        result = nccl_fail(ncclSystemError, comm, "%s: out of memory", call);
    }
    nccl_leave(comm);
    return nccl_group_refuse(result);
}

static bool copy_excluded(struct nccl_job *j, const int *list, int n)
{
    j->excluded = calloc(n > 0 ? (size_t)n : 1, sizeof *j->excluded);
    j->nexcluded = (uint32_t)n;
    for (int i = 0; i < n && j->excluded != NULL; i++)
        j->excluded[i] = (uint32_t)list[i];
    return j->excluded != NULL;
}

static ncclResult_t check_excluded(struct ncclComm *c, const int *list, int n, const void *newcomm, int flags)
{
    if (newcomm == NULL || list == NULL)
        return nccl_fail(ncclInvalidArgument, c, "ncclCommShrink: %s is NULL",
                         newcomm == NULL ? "newcomm" : "excludeRanksList");
    if (n < 1)
        return nccl_fail(ncclInvalidArgument, c, "ncclCommShrink: excludeRanksCount is %d; it is 1 at least", n);
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
        return nccl_fail(ncclInvalidArgument, c, "ncclCommShrink: shrinkFlags is %d; it is 0 or 1", flags);
    for (int i = 0; i < n; i++)
        if (list[i] < 0 || list[i] >= c->nrank || list[i] == c->rank)
            return nccl_fail(ncclInvalidArgument, c, "ncclCommShrink: rank %d to be excluded is %s", list[i],
                             list[i] == c->rank ? "the caller" : "no rank of the comm");
    return ncclSuccess;
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
                            ncclConfig_t *config, int shrinkFlags)
{
    static const char call[] = "ncclCommShrink";
    ncclResult_t result = nccl_enter_ready(comm, call);

    if (result != ncclSuccess)
        return nccl_group_refuse(result);
    struct nccl_config c = config_of(comm);
    result = check_excluded(comm, excludeRanksList, excludeRanksCount, newcomm, shrinkFlags);
    if (result == ncclSuccess)
        result = nccl_config_read(config, call, &c);
    struct nccl_job *j = result == ncclSuccess ? derive(NCCL_JOB_SHRINK, call, comm, newcomm, &c, true) : NULL;
    if (j != NULL && copy_excluded(j, excludeRanksList, excludeRanksCount)) {
        j->abort = shrinkFlags == NCCL_SHRINK_ABORT;
        result = nccl_job_do(j);
    } else if (result == ncclSuccess) {
        nccl_jobs_drop(j);
        result = nccl_fail(ncclSystemError, comm, "%s: out of memory", call);
    }
    nccl_leave(comm);
    return nccl_group_refuse(result);
}

/* ---- Pausing --------------------------------------------------------------------------------------------------- */

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommSuspend");

    if (result != ncclSuccess)
        return result;
    if (flags != NCCL_SUSPEND_MEM)
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommSuspend: flags is %d: must be NCCL_SUSPEND_MEM", flags);
    else
        result = nccl_result(plait_comm_suspend(atomic_load(&comm->plait)), comm, "ncclCommSuspend");
    comm->suspended |= result == ncclSuccess;
    nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommResume(ncclComm_t comm)
{
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommResume");

    if (result != ncclSuccess)
        return result;
    result = nccl_result(plait_comm_resume(atomic_load(&comm->plait)), comm, "ncclCommResume");
    comm->suspended &= result != ncclSuccess;
    nccl_leave(comm);
    return result;
}

/* ---- The end --------------------------------------------------------------------------------------------------- */

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommRevoke");

    if (result != ncclSuccess)
        return result;
    if (revokeFlags != NCCL_REVOKE_DEFAULT)
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommRevoke: revokeFlags is %d: must be 0", revokeFlags);
    else
        result = nccl_result(plait_comm_revoke(atomic_load(&comm->plait)), comm, "ncclCommRevoke");
    if (result == ncclSuccess)
        atomic_store(&comm->revoked, true);
    nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    static const char call[] = "ncclCommFinalize";
    ncclResult_t result = nccl_enter_ready(comm, call);

    if (result != ncclSuccess)
        return result;
    struct nccl_job *j = NULL;
    if (atomic_load(&comm->revoked) || comm->finalized)
        result = nccl_fail(ncclInvalidUsage, comm, "%s: the comm was %s before", call,
                           comm->finalized ? "finalized" : "revoked");
    else if ((j = nccl_job_new(NCCL_JOB_FINALIZE, call, comm, comm->blocking, "")) == NULL)
        result = nccl_fail(ncclSystemError, comm, "%s: out of memory", call);
    else
        result = nccl_job_do(j);
    nccl_leave(comm);
    return result;
}

/* NULL is allowed, as in NCCL. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result = comm != NULL ? nccl_enter(comm, "ncclCommDestroy") : ncclSuccess;

    if (result != ncclSuccess || comm == NULL)
        return result;
    if (atomic_load(&comm->queued) > 0) {
        result =
            nccl_fail(ncclInvalidUsage, comm, "ncclCommDestroy: %u calls of open groups use the comm; end them first",
                      atomic_load(&comm->queued));
        nccl_leave(comm);
        return result;
    }
    if (atomic_load(&comm->making) == NCCL_MAKING) {
        result =
            nccl_fail(ncclInvalidUsage, comm,
                      "ncclCommDestroy: the comm is still being created; end its group first, or call ncclCommAbort()");
        nccl_leave(comm);
        return result;
    }
    const bool closed = nccl_comm_close(comm);
    nccl_leave(comm);
    if (!closed)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclCommDestroy: another thread is destroying comm %p",
                         (void *)comm);
    nccl_comm_drain(comm);
    result = nccl_result(plait_comm_destroy(atomic_load(&comm->plait)), NULL, "ncclCommDestroy");
    const bool in_order = result == ncclSuccess;
    if (atomic_load(&comm->revoked))
        result = ncclSuccess;
    nccl_comm_free(comm, in_order);
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t result = comm != NULL ? nccl_enter(comm, "ncclCommAbort") : ncclSuccess;

    if (result != ncclSuccess || comm == NULL)
        return result;
    const bool closed = nccl_comm_close(comm);
    if (closed && atomic_load(&comm->plait) != NULL)
        plait_comm_abort(atomic_load(&comm->plait), "ncclCommAbort()");
    const bool left_to_maker = closed && nccl_comm_leave_to_maker(comm);
    nccl_leave(comm);
    if (!closed)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclCommAbort: another thread is destroying comm %p",
                         (void *)comm);
    if (left_to_maker)
        return ncclSuccess;
    nccl_comm_orphan(comm);
    return ncclSuccess;
}

NCCL_TWIN(CommCount);
NCCL_TWIN(CommUserRank);
NCCL_TWIN(CommCuDevice);
NCCL_TWIN(CommGetAsyncError);
NCCL_TWIN(CommSplit);
NCCL_TWIN(CommShrink);
NCCL_TWIN(CommSuspend);
NCCL_TWIN(CommResume);
NCCL_TWIN(CommRevoke);
NCCL_TWIN(CommFinalize);
NCCL_TWIN(CommDestroy);
NCCL_TWIN(CommAbort);
