/* SPDX-License-Identifier: BSD-3-Clause */
#include "object.h"

#include "call.h"
#include "device/device_comm.h"
#include "memory/devices.h"

#include <stdio.h>

bool plait_work_free_later(struct plait_comm *comm, void *memory)
{
    plait_object_lock(comm);
    const bool used = comm->device != NULL;
    if (used)
        plait_device_free_later(comm, memory);
    plait_object_unlock(comm);
    return used;
}

enum plait_status plait_work_open(struct plait_comm *comm, const char *call, const struct plait_queue *queue)
{
    return plait_device_open(comm, call, plait_device_used()->device_of(queue));
}

struct plait_queue *plait_work_begin(struct plait_comm *comm)
{
    plait_device_use_queue(comm, &(struct plait_target){ .queue = comm->own_queue });
    return plait_device_queue(comm);
}

bool plait_work_note(struct plait_comm *comm, const char *why)
{
    plait_device_note(comm, why);
    return plait_device_works(comm);
}

void plait_work_end(struct plait_comm *comm)
{
    plait_device_end_operation(comm);
}

enum plait_status plait_work_status(struct plait_comm *comm)
{
    return plait_device_status(comm);
}

void plait_work_enqueues(struct plait_request *r)
{
    r->until_executed = false;
}

/* ---- Copies between operations ----------------------------------------------------------------------- */

static enum plait_status check_place(size_t i, const char *which, const void *memory, int device)
{
    struct plait_location at;
    char name[48];

    snprintf(name, sizeof name, ": copies[%zu].%s", i, which);
    const enum plait_status status = plait_device_find("plait_comm_copy", name, memory, &at);
    return status == PLAIT_OK ? plait_device_is_on("plait_comm_copy", name, memory, &at, 1, device) : status;
}

enum plait_status plait_comm_copy(struct plait_comm *comm, const struct plait_copy *copies, size_t n,
                                  struct plait_stream *stream)
{
    struct plait_target target = { 0 };
    enum plait_status status = plait_enter(comm, "plait_comm_copy", PLAIT_SUM, NULL);

    if (status == PLAIT_OK)
        status = plait_stream_queue("plait_comm_copy", stream, &target.queue);
    if (status != PLAIT_OK)
        return status;
    if (target.queue == NULL || (copies == NULL && n > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_copy: %s",
                          target.queue == NULL ? "stream is none of CUDA's" : "copies is NULL, but n is not 0");
    const int device = plait_device_used()->device_of(target.queue);
    status = plait_device_open(comm, "plait_comm_copy", device);
    for (size_t i = 0; i < n && status == PLAIT_OK; i++) {
        if (copies[i].bytes > 0)
            status = check_place(i, "to", copies[i].to, device);
        if (copies[i].bytes > 0 && status == PLAIT_OK)
            status = check_place(i, "from", copies[i].from, device);
    }
    if (status != PLAIT_OK)
        return status;
    pthread_mutex_lock(&comm->lock);
    status = plait_comm_fail_too(comm, plait_device_captures(comm, &target));
    if (status == PLAIT_OK) {
        plait_device_use_queue(comm, &target);
        struct plait_queue *queue = plait_device_queue(comm);
        if (queue != NULL)
            plait_device_note(comm, comm->device->plugin->copies(queue, copies, n));
        plait_device_end_operation(comm);
        status = plait_device_status(comm);
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}
