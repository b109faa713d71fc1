/* SPDX-License-Identifier: BSD-3-Clause */
#include "spaces.h"

#include "base/status.h"
#include "engine/operate.h"
#include "request/request.h"

#define MOST_SPACES 4

static const struct plait_space *spaces[MOST_SPACES] = { &plait_gpu_space };
static unsigned nspace = 1;

void plait_space_add(const struct plait_space *space)
{
    PLAIT_KNOWN(nspace < MOST_SPACES);
    spaces[nspace++] = space;
    atomic_store_explicit(&plait_other_spaces, true, memory_order_release);
}

enum plait_status plait_space_find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes,
                                   size_t size, const struct plait_call *call, struct plait_args *a)
{
    enum plait_status status = PLAIT_OK;

    a->space = &plait_host_space;
    for (unsigned i = 0; i < nspace && status == PLAIT_OK && a->space == &plait_host_space; i++)
        status = spaces[i]->find(comm, name, in_bytes, out_bytes, size, call, a);
    return status;
}

enum plait_status plait_spaces_poll(struct plait_comm *comm)
{
    enum plait_status status = PLAIT_OK;

    for (unsigned i = 0; i < nspace && status == PLAIT_OK; i++)
        status = spaces[i]->poll(comm);
    return status;
}

void plait_spaces_settle(struct plait_comm *comm)
{
    for (unsigned i = 0; i < nspace; i++)
        spaces[i]->settle(comm);
}

bool plait_spaces_leave_some(struct plait_comm *comm)
{
    bool some = false;

    for (unsigned i = 0; i < nspace; i++)
        some |= spaces[i]->leaves_some(comm);
    return some;
}

void plait_spaces_close(struct plait_comm *comm)
{
    for (unsigned i = 0; i < nspace; i++)
        spaces[i]->close(comm);
}

size_t plait_spaces_bytes(const struct plait_comm *comm)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < nspace; i++)
        bytes += spaces[i]->bytes(comm);
    return bytes;
}

enum plait_status plait_space_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a)
{
    pthread_mutex_lock(&comm->lock); /* its other operations may be in progress */
    status = plait_cannot_begin(comm, status, a);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

bool plait_space_must_queue(const struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    if (!a->space->queued)
        return plait_must_queue(comm, call);
    return call == NULL || call->stream == NULL || call->request != NULL || plait_must_queue(comm, NULL);
}
