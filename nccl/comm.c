/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm.h"

#include "error.h"
#include "memory.h"
#include "operator.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_REST  1024 /* freed handles before the oldest is reused */
#define DEAD     0x64656164u
#define PATIENCE 5000 /* polls, 200 us apart */

static pthread_mutex_t resting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *oldest, *youngest;
static unsigned nresting;

static struct ncclComm *take_rested(void)
{
    struct ncclComm *c = NULL;

    pthread_mutex_lock(&resting_lock);
    if (nresting > AT_REST) {
        c = oldest;
        oldest = c->next;
        nresting--;
    }
    pthread_mutex_unlock(&resting_lock);
    return c;
}

struct ncclComm *nccl_comm_new(int nrank, int rank, int device, bool gpu, bool blocking)
{
    struct ncclComm *c = take_rested();

    if (c == NULL && (c = calloc(1, sizeof *c)) != NULL)
        pthread_mutex_init(&c->lock, NULL);
    if (c == NULL)
        return NULL;
    c->generation++;
    c->nrank = nrank;
    c->rank = rank;
    c->device = device;
    c->gpu = gpu;
    c->blocking = blocking;
    c->suspended = c->finalized = false;
    c->error[0] = '\0';
    c->next = NULL;
    atomic_store(&c->plait, NULL);
    atomic_store(&c->creating, false);
    atomic_store(&c->trouble, ncclSuccess);
    atomic_store(&c->ncollective, 0);
    atomic_store(&c->orphaned, false);
    atomic_store(&c->revoked, false);
    atomic_store(&c->making, NCCL_MAKING);
    atomic_store(&c->life, NCCL_ALIVE);
    return c;
}

void nccl_comm_free(struct ncclComm *c, bool in_order)
{
    atomic_store(&c->life, DEAD);
    nccl_operators_free(c);
    nccl_memory_free(c, in_order);
    pthread_mutex_lock(&resting_lock);
    if (nresting++ > 0)
        youngest->next = c;
    else
        oldest = c;
    youngest = c;
    pthread_mutex_unlock(&resting_lock);
}

static bool cannot_be_one(const struct ncclComm *c)
{
    return c == NULL || (uintptr_t)c % alignof(struct ncclComm) != 0;
}

bool nccl_try_enter(struct ncclComm *c)
{
    if (cannot_be_one(c))
        return false;
    atomic_fetch_add(&c->users, 1);
    if (atomic_load(&c->life) == NCCL_ALIVE)
        return true;
    nccl_leave(c);
    return false;
}

ncclResult_t nccl_enter(struct ncclComm *c, const char *call)
{
    if (nccl_try_enter(c))
        return ncclSuccess;
    if (cannot_be_one(c))
        return nccl_fail(ncclInvalidArgument, NULL, "%s: comm is %p, which is not a comm", call, (void *)c);
    return nccl_fail(ncclInvalidArgument, NULL, "%s: comm %p was destroyed or aborted, or never was a comm", call,
                     (void *)c);
}

static bool is_created(struct ncclComm *c)
{
    struct plait_comm *p = atomic_load(&c->plait);

    if (p == NULL || plait_comm_status(p) == PLAIT_IN_PROGRESS)
        return false;
    atomic_store(&c->creating, false);
    return true;
}

ncclResult_t nccl_enter_ready(struct ncclComm *c, const char *call)
{
    ncclResult_t result = nccl_enter(c, call);

    if (result != ncclSuccess)
        return result;
    if (atomic_load(&c->working) > 0 || (atomic_load(&c->creating) && !is_created(c)))
        result =
            nccl_fail(ncclInvalidArgument, c,
                      "%s: a call of the comm is in progress; poll ncclCommGetAsyncError() until it has ended", call);
    else if (atomic_load(&c->plait) == NULL && atomic_load(&c->trouble) != ncclSuccess)
        result =
            nccl_fail(ncclInvalidUsage, c, "%s: the comm could not be created; only ncclCommAbort() is possible", call);
    else if (atomic_load(&c->plait) == NULL)
        result = nccl_fail(ncclInvalidUsage, c,
                           "%s: the comm does not exist before its group ends; call ncclGroupEnd() first", call);
    if (result != ncclSuccess)
        nccl_leave(c);
    return result;
}

static bool is_in_use(struct ncclComm *c)
{
    return atomic_load(&c->users) > 0 || atomic_load(&c->working) > 0;
}

/* The first to see the comm unused ends it. */
static void bury_if_orphan(struct ncclComm *c)
{
    bool orphaned = true;

    if (!atomic_load(&c->orphaned) || is_in_use(c) || !atomic_compare_exchange_strong(&c->orphaned, &orphaned, false))
        return;
    struct plait_comm *p = atomic_load(&c->plait);
    if (p != NULL)
        plait_comm_abort(p, "ncclCommAbort()"); /* it may have been created since */
    plait_comm_destroy(p);                      /* the comm's error is the abort */
    nccl_comm_free(c, false);
}

void nccl_leave(struct ncclComm *c)
{
    atomic_fetch_sub(&c->users, 1);
    bury_if_orphan(c);
}

void nccl_comm_worked(struct ncclComm *c)
{
    atomic_fetch_sub(&c->working, 1);
    bury_if_orphan(c);
}

bool nccl_comm_made(struct ncclComm *c)
{
    uint32_t making = NCCL_MAKING;

    return atomic_compare_exchange_strong(&c->making, &making, NCCL_MADE) || making == NCCL_MADE;
}

bool nccl_comm_leave_to_maker(struct ncclComm *c)
{
    uint32_t making = NCCL_MAKING;

    return atomic_compare_exchange_strong(&c->making, &making, NCCL_UNWANTED);
}

bool nccl_comm_close(struct ncclComm *c)
{
    uint32_t alive = NCCL_ALIVE;

    return atomic_compare_exchange_strong(&c->life, &alive, DEAD);
}

void nccl_comm_drain(struct ncclComm *c)
{
    while (is_in_use(c))
        usleep(200);
}

void nccl_comm_orphan(struct ncclComm *c)
{
    for (int i = 0; i < PATIENCE && is_in_use(c); i++)
        usleep(200);
    atomic_store(&c->orphaned, true);
    bury_if_orphan(c);
}
