/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include "base/status.h"
#include "request/request.h"

const struct plait_space *plait_spaces[PLAIT_MOST_SPACES + 1] = { &plait_gpu_space };

enum plait_status plait_space_find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes,
                                   size_t size, const struct plait_call *call, struct plait_args *a)
{
    enum plait_status status = PLAIT_OK;

    a->space = &plait_host_space;
    for (unsigned i = 0; plait_spaces[i] != NULL && status == PLAIT_OK && a->space == &plait_host_space; i++)
        status = plait_spaces[i]->find(comm, name, in_bytes, out_bytes, size, call, a);
    return status;
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
