/* SPDX-License-Identifier: BSD-3-Clause */
/* What both ends of a message must agree on, and finding out that they do not. */
#ifndef PLAIT_LIB_P2P_MESSAGE_AGREE_H
#define PLAIT_LIB_P2P_MESSAGE_AGREE_H

#include "request/request.h"

/* It travels with each message: type, count, kind of memory, and the last bits of its number. */
uint64_t plait_message_note(const struct plait_letter *m);
uint32_t plait_message_print(const struct plait_letter *m); /* its fingerprint */

/* What is received next is sent with another note. */
enum plait_status plait_message_differs(struct plait_comm *comm, const struct plait_letter *m, uint64_t note);

/* Does the peer send something else than what is received next? */
enum plait_status plait_message_look_in(struct plait_comm *comm, const struct plait_letter *m);

/* Of a device's memory, for which the peer is not ready: does it receive this message into the host's? */
enum plait_status plait_message_look_out(struct plait_comm *comm, const struct plait_letter *m);

#endif
