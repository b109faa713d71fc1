/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between a comm's operations on a device. */
#include "call.h"

#include "base/status.h"
#include "device/device_comm.h"
#include "failure/failure.h"
#include "memory/devices.h"
#include "request/stream.h"

/* The comm's lock is held. */
static enum plait_status copy(struct plait_comm *comm, const struct plait_copy *copies, size_t n,
                              struct plait_queue *queue)
{
    uint64_t capture = 0;
    enum plait_status status = plait_device_captures(comm, queue, &capture);

    if (status != PLAIT_OK)
        return plait_comm_fail(comm, status, "%s", plait_last_error());
    plait_device_aim(comm, queue, capture);
    struct plait_queue *here = plait_device_here(comm);
    if (here != NULL)
        plait_device_note(comm, comm->device->plugin->copies(here, copies, n));
    plait_device_rest(comm);
    return plait_device_status(comm);
}

enum plait_status plait_comm_copy(struct plait_comm *comm, const struct plait_copy *copies, size_t n,
                                  struct plait_stream *stream)
{
    struct plait_queue *queue = stream != NULL ? plait_stream_queue(stream) : NULL;
    enum plait_status status = plait_enter(comm, "plait_comm_copy", PLAIT_SUM, NULL);

    if (status != PLAIT_OK)
        return status;
    if (queue == NULL || (copies == NULL && n > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_copy: %s",
                          queue == NULL ? "stream is none of CUDA's" : "copies is NULL, but n is not 0");
    const int device = plait_device_used()->device_of(queue);
    if (comm->device == NULL)
        status = plait_device_open(comm, device);
    if (status != PLAIT_OK)
        return status;
    if (comm->device->device != device)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_comm_copy: the stream is of GPU %d, but this rank has used GPU %d with this comm",
                          device, comm->device->device);
    pthread_mutex_lock(&comm->lock);
    status = copy(comm, copies, n, queue);
    pthread_mutex_unlock(&comm->lock);
    return status;
}
