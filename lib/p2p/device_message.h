/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a device's memory: what message.c does on their queues. All with the comm's lock held. */
#ifndef PLAIT_LIB_P2P_DEVICE_MESSAGE_H
#define PLAIT_LIB_P2P_DEVICE_MESSAGE_H

#include "device/device_comm.h"
#include "request/request.h"

/* It begins. What keeps it from that has failed the comm. */
void plait_device_message_begin(struct plait_letter *m, struct plait_comm *comm);

/* What comes next is put on its queue. */
static inline void plait_device_message_aim(const struct plait_comm *comm, const struct plait_letter *m)
{
    if (m->queue != NULL)
        plait_device_aim(comm, m->queue, m->capture);
}

/* Copy on that queue; from a message of this rank's to another. */
void plait_device_message_copy(struct plait_comm *comm, void *to, const void *from, size_t bytes);
void plait_device_message_to_itself(struct plait_comm *comm, const struct plait_letter *from,
                                    const struct plait_letter *to);

/* It is over so: all of it is on its queue, or the comm has failed. How it ends: the device may have refused it. */
enum plait_status plait_device_message_end(const struct plait_letter *m, struct plait_comm *comm,
                                           enum plait_status status);

/* Of a stall: does this rank wait for its own queue with what it sends? rank + 1, in words, or 0. */
uint32_t plait_device_message_blame(const struct plait_comm *comm, char *text, size_t room);

#endif
