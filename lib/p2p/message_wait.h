/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for messages: their records in the ring, stall detection, and the look for mismatches. */
#ifndef PLAIT_LIB_P2P_MESSAGE_WAIT_H
#define PLAIT_LIB_P2P_MESSAGE_WAIT_H

#include "message.h"

/* The first send whose receiver is awaited, or NULL. */
static inline struct plait_request *plait_message_first_out(const struct plait_pair *pair)
{
    return pair->unread.first != NULL ? pair->unread.first : pair->sends.first;
}

/* Write its record into the ring. */
void plait_message_show(struct plait_request *r);

/* Its record there; NULL: it has none, or a later one overwrote it. */
static inline struct plait_message_record *plait_message_record(const struct plait_comm *comm,
                                                                const struct plait_message *m)
{
    return plait_message_ring_find(&comm->own->messages, m->place);
}

/* Count n more slices as offered or taken. */
void plait_message_count(const struct plait_comm *comm, struct plait_message *m, uint64_t n);

void plait_message_wait_init(struct plait_pair *pair);

/*
 * After a turn of the pair. Without progress probe for failures and mismatches: now and then, or each time if polled
 * rarely. An error fails the comm.
 */
enum plait_status plait_message_wait_turn(struct plait_comm *comm, struct plait_pair *pair, bool rarely);

#endif
