/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_work.h"

#include "call.h"
#include "device/device_comm.h"

enum plait_status plait_work_queue(const char *call, const struct plait_stream *s, struct plait_queue **out)
{
    *out = s != NULL ? plait_stream_queue(s) : NULL;
    return s != NULL ? plait_stream_check(call, s) : PLAIT_OK;
}

enum plait_status plait_work_alloc(const struct plait_queue *queue, const char *whose, size_t bytes, void **out)
{
    const int device = plait_device_used()->device_of(queue);
    const char *why = plait_device_used()->alloc(PLAIT_MEMORY_DEVICE, device, bytes, out);

    return why == NULL ? PLAIT_OK
                       : plait_fail(PLAIT_ERR_NOMEM, "no %zu bytes on GPU %d for %s: %s", bytes, device, whose, why);
}

bool plait_work_free_later(struct plait_comm *comm, void *memory)
{
    plait_object_lock(comm);
    const bool used = comm->device != NULL;
    if (used)
        plait_device_free_later(comm, memory);
    plait_object_unlock(comm);
    return used;
}

int plait_work_device(const struct plait_comm *comm)
{
    return comm->device != NULL ? comm->device->device : -1;
}

struct plait_queue *plait_work_begin(struct plait_comm *comm)
{
    plait_device_aim(comm, comm->own_queue, 0);
    return plait_device_here(comm);
}

bool plait_work_note(struct plait_comm *comm, const char *why)
{
    plait_device_note(comm, why);
    return plait_device_works(comm);
}

void plait_work_end(struct plait_comm *comm)
{
    plait_device_rest(comm);
}

enum plait_status plait_work_status(struct plait_comm *comm)
{
    return plait_device_status(comm);
}

void plait_work_enqueues(struct plait_request *r)
{
    r->until_executed = false;
}
