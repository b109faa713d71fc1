/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_message.h"

#include "base/status.h"
#include "failure/failure.h"

#include <stdio.h>

/* plait_device_here() orders work within one capture, or outside captures; two graphs may run concurrently. */
static enum plait_status check_capture(struct plait_device_comm *d, const struct plait_message *m)
{
    if (m->capture == 0)
        return PLAIT_OK;
    if (d->ncapture > 0 && d->capturing != m->capture)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "messages of one group are on streams of several captures: put them on streams of one, or in "
                          "a group for each");
    d->ncapture++;
    d->capturing = m->capture;
    return PLAIT_OK;
}

void plait_device_message_begin(struct plait_message *m, struct plait_comm *comm)
{
    enum plait_status status = plait_device_captures(comm, m->queue, &m->capture);

    if (status == PLAIT_OK)
        status = check_capture(comm->device, m);
    if (status == PLAIT_OK)
        return;
    m->capture = 0;
    if (comm->failed == PLAIT_OK)
        plait_comm_fail(comm, status, "%s", plait_last_error());
}

uint32_t plait_device_message_blame(const struct plait_comm *comm, char *text, size_t room)
{
    if (comm->device == NULL || comm->device->nstaging == 0)
        return 0;
    snprintf(text, room, "rank %u waits for its own stream: what was put there before has not happened", comm->rank);
    return comm->rank + 1;
}

/* The two queues wait for each other before and after the copy. */
void plait_device_message_to_itself(struct plait_comm *comm, const struct plait_message *from,
                                    const struct plait_message *to)
{
    plait_device_aim(comm, from->queue, from->capture);
    plait_device_here(comm);
    plait_device_aim(comm, to->queue, to->capture);
    if (from->data != to->data)
        plait_device_copy(comm, to->data, from->data, to->bytes);
    plait_device_aim(comm, from->queue, from->capture);
    plait_device_here(comm);
}

enum plait_status plait_device_message_end(const struct plait_message *m, struct plait_comm *comm,
                                           enum plait_status status)
{
    comm->device->ncapture -= m->capture != 0;
    plait_device_rest(comm);
    return status == PLAIT_OK ? plait_device_status(comm) : status;
}
