/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that wait: whom for, what the ring says of them meanwhile, and whether the peer means the same message. */
#ifndef PLAIT_LIB_P2P_MESSAGE_WAIT_H
#define PLAIT_LIB_P2P_MESSAGE_WAIT_H

#include "message.h"

/* The first of a queue, if it is open; or NULL. */
static inline struct plait_request *plait_message_first(const struct plait_line *q)
{
    return q->first != NULL && atomic_load_explicit(&q->first->open, memory_order_acquire) ? q->first : NULL;
}

/* The first message whose receiver is awaited, or NULL; who sends it is that of the first of `recvs`. */
static inline struct plait_request *plait_message_first_out(const struct plait_pair *pair)
{
    return pair->lent.first != NULL ? pair->lent.first : plait_message_first(&pair->sends);
}

/* From now on it is in the ring. */
void plait_message_show(struct plait_request *r);

/* Its record there; NULL: it has none, or later ones took its place. */
static inline struct plait_message_record *plait_message_record(const struct plait_comm *comm,
                                                                const struct plait_letter *m)
{
    return plait_message_ring_find(&comm->own->messages, m->place);
}

/* n more slices are offered or taken. */
void plait_message_count(const struct plait_comm *comm, struct plait_letter *m, uint64_t n);

void plait_message_wait_init(struct plait_pair *pair);

/*
 * Something came in, or went out, in this turn of the pair; or not: then look around, now and then, or at once if it is
 * polled rarely. An error fails the comm.
 */
enum plait_status plait_message_wait_turn(struct plait_comm *comm, struct plait_pair *pair, bool in, bool out,
                                          bool rarely);

/* The peer, if it is another rank: how many ranks these are. */
uint32_t plait_message_awaited(const void *pair, uint32_t *ranks, uint32_t most);

#endif
