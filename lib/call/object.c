/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include "base/status.h"
#include "device/device_comm.h"

#include <plait/coll.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- Checks ------------------------------------------------------------------------------------------------ */

enum plait_status plait_check_numbers(const char *call, const struct plait_number *numbers, size_t n)
{
    for (const struct plait_number *x = numbers; x < numbers + n; x++)
        if (!x->good)
            return plait_fail(PLAIT_ERR_ARG, "%s: %s is %g; it must be %s", call, x->name, x->value, x->allowed);
    return PLAIT_OK;
}

enum plait_status plait_object_enter(struct plait_comm *comm, const char *call)
{
    return plait_not_in_group(plait_enter(comm, call, PLAIT_SUM, NULL), call);
}

enum plait_status plait_object_check(const struct plait_comm *comm, const char *call, const char *name)
{
    if (plait_comm_closed(comm))
        return plait_comm_is_closed(comm, call);
    if (plait_has_failed(comm))
        return plait_fail(PLAIT_ERR_FAILED, "%s: %s failed earlier: %s", call, name, comm->own->failure);
    return PLAIT_OK;
}

/* ---- The comm ---------------------------------------------------------------------------------------------- */

enum plait_status plait_object_drive(struct plait_comm *comm)
{
    if (comm->progress)
        return PLAIT_OK;
    const enum plait_status status = plait_progress_thread_start();
    comm->progress = status == PLAIT_OK;
    return status;
}

enum plait_status plait_object_fail(struct plait_comm *comm, enum plait_status status)
{
    if (status == PLAIT_OK)
        return PLAIT_OK;
    pthread_mutex_lock(&comm->lock);
    status = plait_comm_fail(comm, status, "%s", plait_last_error());
    pthread_mutex_unlock(&comm->lock);
    return status;
}

void plait_object_drop(struct plait_request **r)
{
    if (*r != NULL)
        plait_wait(r);
    plait_request_free(r);
}

bool plait_object_free_later(struct plait_comm *comm, void *memory)
{
    pthread_mutex_lock(&comm->lock);
    const bool used = comm->device != NULL;
    if (used)
        plait_device_free_later(comm, memory);
    pthread_mutex_unlock(&comm->lock);
    return used;
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
