/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in the memory space of GPUs. All functions need the comm's lock. */
#ifndef PLAIT_LIB_P2P_DEVICE_MESSAGE_H
#define PLAIT_LIB_P2P_DEVICE_MESSAGE_H

#include "device/device_comm.h"
#include "request/request.h"

/* Begin a message: ask for the graph capture of its queue. An error fails the comm. */
void plait_device_message_begin(struct plait_message *m, struct plait_comm *comm);

/* From a send of this rank to its own receive. */
void plait_device_message_to_itself(struct plait_comm *comm, const struct plait_message *from,
                                    const struct plait_message *to);

/* End a message: all of it is on its queue, or the comm has failed. Its result: the device may have refused it. */
enum plait_status plait_device_message_end(const struct plait_message *m, struct plait_comm *comm,
                                           enum plait_status status);

/* Stall report: do sends of this rank wait for its own queue? Then the text and rank + 1; else 0. */
uint32_t plait_device_message_blame(const struct plait_comm *comm, char *text, size_t room);

#endif
