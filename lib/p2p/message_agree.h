/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a message must agree on its type, count and kind of memory: checks that they do. */
#ifndef PLAIT_LIB_P2P_MESSAGE_AGREE_H
#define PLAIT_LIB_P2P_MESSAGE_AGREE_H

#include "request/request.h"

/* The header word of each slice: type, count, kind of memory, and the last bits of the message's number. */
uint64_t plait_message_note(const struct plait_message *m);
uint32_t plait_message_print(const struct plait_message *m); /* its fingerprint */

/* The next message to receive came with another header word. Fails the comm. */
enum plait_status plait_message_differs(struct plait_comm *comm, const struct plait_message *m, uint64_t note);

/* Does the peer send another message than the next one to receive? That fails the comm. */
enum plait_status plait_message_look_in(struct plait_comm *comm, const struct plait_message *m);

/* The message is in device memory, and the peer has no device: does the peer receive it into host memory? */
enum plait_status plait_message_look_out(struct plait_comm *comm, const struct plait_message *m);

#endif
