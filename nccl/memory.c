/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include "error.h"
#include "stream.h"

#include <plait/memory.h>

#include <pthread.h>
#include <stdlib.h>

/* A handle of ncclCommRegister(). Memory needs no registration here: handles only detect misuse. */
struct nccl_registration {
    struct nccl_registration *next;
};

struct nccl_pack {
    struct nccl_pack *older; /* also for smaller sizes */
    void *memory;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nccl_pack *left; /* left by failed comms */

static void free_packs(struct nccl_pack **packs)
{
    while (*packs != NULL) {
        struct nccl_pack *p = *packs;
        *packs = p->older;
        plait_mem_free(p->memory);
        free(p);
    }
}

static size_t pack_bytes(const struct ncclComm *c)
{
    size_t bytes = 0;

    for (int k = 0; k < NCCL_NPACK; k++)
        for (const struct nccl_pack *p = c->pack[k]; p != NULL; p = p->older)
            bytes += p->bytes;
    return bytes;
}

void *nccl_memory_pack(struct ncclComm *c, enum nccl_pack_kind kind, size_t bytes)
{
    struct nccl_pack **packs = &c->pack[kind];

    if (*packs != NULL && bytes <= (*packs)->bytes)
        return (*packs)->memory;
    if (kind == NCCL_PACK_HOST)
        free_packs(packs);
    else if (*packs != NULL && bytes < 2 * (*packs)->bytes)
        bytes = 2 * (*packs)->bytes; /* the older ones together are no larger than this one */
    struct nccl_pack *p = calloc(1, sizeof *p);
    if (p == NULL || (kind != NCCL_PACK_HOST ? plait_mem_alloc_on(c->device, bytes, &p->memory)
                                             : plait_mem_alloc(bytes, &p->memory)) != PLAIT_OK) {
        free(p);
        return NULL;
    }
    p->bytes = bytes;
    p->older = *packs;
    *packs = p;
    return p->memory;
}

static void leave_packs(struct nccl_pack **packs)
{
    while (*packs != NULL) {
        struct nccl_pack *p = *packs;
        *packs = p->older;
        p->older = left;
        left = p;
    }
}

void nccl_memory_free(struct ncclComm *c, bool in_order)
{
    pthread_mutex_lock(&lock);
    for (int k = 0; k < NCCL_NPACK; k++)
        if (k != NCCL_PACK_HOST && !in_order)
            leave_packs(&c->pack[k]);
    struct nccl_pack *others = in_order ? left : NULL;
    left = in_order ? NULL : left;
    pthread_mutex_unlock(&lock);
    free_packs(&others);
    for (int k = 0; k < NCCL_NPACK; k++)
        free_packs(&c->pack[k]);
    while (c->registrations != NULL) {
        struct nccl_registration *next = c->registrations->next;
        free(c->registrations);
        c->registrations = next;
    }
}

/* Memory of the current GPU, if this process uses one. */
ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
    bool gpu = false;
    int device = 0;

    if (ptr == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclMemAlloc: ptr is NULL");
    const ncclResult_t result = nccl_device_now("ncclMemAlloc", &device, &gpu);
    if (result != ncclSuccess)
        return result;
    size += size == 0;
    return nccl_result(gpu ? plait_mem_alloc_on(device, size, ptr) : plait_mem_alloc(size, ptr), NULL, "ncclMemAlloc");
}

ncclResult_t ncclMemFree(void *ptr)
{
    return nccl_result(plait_mem_free(ptr), NULL, "ncclMemFree");
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommRegister");

    if (result != ncclSuccess)
        return result;
    struct nccl_registration *r = handle != NULL && buff != NULL && size > 0 ? calloc(1, sizeof *r) : NULL;
    if (r != NULL) {
        pthread_mutex_lock(&comm->lock);
        r->next = comm->registrations;
        comm->registrations = r;
        pthread_mutex_unlock(&comm->lock);
        *handle = r;
    } else {
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommRegister: %s",
                           handle == NULL ? "handle is NULL"
                           : buff == NULL ? "buff is NULL"
                                          : "size is 0: nothing to register");
    }
    nccl_leave(comm);
    return result;
}

/* Remove it from the list; NULL: not in it. */
static struct nccl_registration *unlink_registration(struct ncclComm *c, const void *handle)
{
    struct nccl_registration **at = &c->registrations, *found;

    pthread_mutex_lock(&c->lock);
    while (*at != NULL && *at != handle)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&c->lock);
    return found;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    ncclResult_t result = nccl_enter(comm, "ncclCommDeregister");

    if (result != ncclSuccess)
        return result;
    struct nccl_registration *r = handle != NULL ? unlink_registration(comm, handle) : NULL;
    if (handle != NULL && r == NULL) /* NCCL accepts NULL */
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommDeregister: %p is not a handle of this comm", handle);
    free(r);
    nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
    struct plait_comm_memory m;
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommMemStats");

    if (result != ncclSuccess)
        return result;
    plait_comm_memory(atomic_load(&comm->plait), &m);
    const uint64_t persist = m.control + m.device + pack_bytes(comm);
    const uint64_t values[] = {
        [ncclStatGpuMemSuspend] = m.staging,
        [ncclStatGpuMemSuspended] = comm->suspended,
        [ncclStatGpuMemPersist] = persist,
        [ncclStatGpuMemTotal] = m.staging + persist,
    };
    if (value == NULL)
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommMemStats: value is NULL");
    else if ((unsigned)stat >= sizeof values / sizeof *values)
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommMemStats: stat is %d; it is 0 to 3", (int)stat);
    else
        *value = values[stat];
    nccl_leave(comm);
    return result;
}

/* ---- Windows, of which there are none ------------------------------------------------------------------ */

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags)
{
    ncclResult_t result = nccl_enter_ready(comm, "ncclCommWindowRegister");

    (void)buff;
    (void)size;
    (void)winFlags;
    if (result != ncclSuccess)
        return result;
    if (win == NULL)
        result = nccl_fail(ncclInvalidArgument, comm, "ncclCommWindowRegister: win is NULL");
    else
        *win = NULL;
    nccl_leave(comm);
    return result;
}

static ncclResult_t check_window(ncclComm_t comm, ncclWindow_t win, const char *call)
{
    ncclResult_t result = nccl_enter(comm, call);

    if (result != ncclSuccess)
        return result;
    if (win != NULL)
        result = nccl_fail(ncclInvalidArgument, comm,
                           "%s: %p is not a window of this library; its windows are all NULL", call, (void *)win);
    nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    return check_window(comm, win, "ncclCommWindowDeregister");
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
    if (outUserPtr == NULL)
        return nccl_fail(ncclInvalidArgument, NULL, "ncclWinGetUserPtr: outUserPtr is NULL");
    const ncclResult_t result = check_window(comm, win, "ncclWinGetUserPtr");
    if (result == ncclSuccess)
        *outUserPtr = NULL;
    return result;
}

NCCL_TWIN(MemAlloc);
NCCL_TWIN(MemFree);
NCCL_TWIN(CommRegister);
NCCL_TWIN(CommDeregister);
NCCL_TWIN(CommMemStats);
NCCL_TWIN(CommWindowRegister);
NCCL_TWIN(CommWindowDeregister);
NCCL_TWIN(WinGetUserPtr);
