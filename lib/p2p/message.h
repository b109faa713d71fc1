/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room p2p: send and receive, outside collectives.
 *
 * A message is one SEND at one rank and one RECV at another. There is nothing to emit, prove or choose, so it has no
 * plan. Each ordered pair of ranks has a queue at both ends and processes it in order. Queues do not wait for each
 * other, nor for collectives, which use another channel. Long messages travel in slices, several of them in flight.
 * Data that the receiver cannot read in place goes through a staging buffer of the pair, or by single copy (CMA).
 *
 * exchange.c gives blocking messages their first turns, while nothing else is pending. message_wait.c waits for a
 * message, names the missing rank and compares the arguments of sender and receiver; pair.c has the staging buffers.
 *
 * The room promises: messages of a pair arrive in the order of the calls. Sizes or types that differ fail the
 * communicator with both values.
 *
 * It does not know groups of calls or plans.
 */
#ifndef PLAIT_LIB_P2P_MESSAGE_H
#define PLAIT_LIB_P2P_MESSAGE_H

#include <plait/message.h>

#include "request/request.h"

#define PLAIT_MESSAGE_SLICE ((size_t)512 << 10) /* bytes; both ends must agree */
#define PLAIT_MESSAGE_STAGE 4                   /* staging slots of a pair, one slice each */
#define PLAIT_MESSAGE_PARTS 16                  /* at most, of a staging slot, for shorter slices */
#define PLAIT_MESSAGE_SMALL PLAIT_EAGER_SOME    /* bytes; slices up to this have PLAIT_WINDOW slots */

/* Staging buffers of a pair, in bytes. */
#define PLAIT_MESSAGE_SMALL_STAGES (PLAIT_WINDOW * PLAIT_MESSAGE_SMALL)
#define PLAIT_MESSAGE_STAGES       (PLAIT_MESSAGE_STAGE * PLAIT_MESSAGE_SLICE)

struct plait_message_queue {
    struct plait_request *first, **end;
    uint64_t n; /* messages that ever entered */
};

struct plait_pair { /* this rank and another, or itself */
    struct plait_comm *comm;
    uint32_t peer;
    struct plait_message_queue sends, recvs;
    struct plait_message_queue unread; /* sends that are offered, but still read in place */
    struct plait_pair *next;
    bool in, out; /* progress in its last turn: of receives, of sends */
    struct plait_pair_wait {
        struct plait_wait wait;
        const struct plait_pair *pair;
        bool out;
        struct plait_awaited *shown; /* the message, in a long wait; or NULL */
    } sending, receiving;            /* one each: progress of one must not hide a stall of the other */
    char *small;                     /* [PLAIT_WINDOW][PLAIT_MESSAGE_SMALL], or NULL */
    char *stage;                     /* [PLAIT_MESSAGE_STAGE][PLAIT_MESSAGE_SLICE], or NULL */
};

struct plait_messages { /* of a comm */
    uint32_t n, nrecv;  /* pending messages; receives among them */
    uint32_t nborrow;   /* receives that may read the sender's memory in place; if any, own->receiving is 1 */
    const struct plait_space *queued; /* of the latest message of a queued space, or NULL */
    struct plait_request *done;       /* messages of it that end with this turn */
    struct plait_pair *first;         /* all pairs */
    struct plait_pair *pairs[];       /* [nrank]; NULL before the first message */
};

static inline struct plait_pair *plait_first_pair(const struct plait_comm *comm)
{
    return comm->messages != NULL ? comm->messages->first : NULL;
}

/* Make queues for, and links to, `peer`, for data in `space`; the first call allocates. */
enum plait_status plait_message_prepare(struct plait_comm *comm, uint32_t peer, const struct plait_space *space);

/* Put a message into its queue. plait_message_prepare() was called. */
void plait_message_begin(struct plait_request *r);

/* One turn of all queues; see struct plait_drive. */
bool plait_messages_turn(struct plait_comm *comm, bool rarely);
uint32_t plait_messages_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);

/* The comm has failed: end all messages with `status`. */
void plait_messages_fail(struct plait_comm *comm, enum plait_status status);

/* The slot for the next slice of a link. NULL: the receiver still reads it, or memory is short (*status). */
char *plait_message_find_stage(struct plait_comm *comm, struct plait_pair *pair, const struct plait_link *link,
                               size_t bytes, enum plait_status *status);

/* Have the last n slices up to this number been read? */
bool plait_message_all_read(const struct plait_link *link, uint32_t last, uint64_t n);

/* No rank may still read staged slices. */
void plait_messages_destroy(struct plait_comm *comm);

/* bytes: of the staging buffers. empty: free those whose slices have all been read. */
size_t plait_messages_bytes(const struct plait_comm *comm);
void plait_messages_empty(struct plait_comm *comm);

/* ---- Both ends must agree on type, count and kind of memory -------------------------------------------------- */

/* The header word of each slice: type, count, kind of memory, and the last bits of the message's number. */
uint64_t plait_message_header(const struct plait_message *m);
uint32_t plait_message_print(const struct plait_message *m); /* its fingerprint */

/* The next message to receive came with another header word. Fails the comm. */
enum plait_status plait_message_differs(struct plait_comm *comm, const struct plait_message *m, uint64_t header_word);

/* ---- Waiting ------------------------------------------------------------------------------------------------ */

/* The first send whose receiver is awaited, or NULL. */
static inline struct plait_request *plait_message_first_out(const struct plait_pair *pair)
{
    return pair->unread.first != NULL ? pair->unread.first : pair->sends.first;
}

void plait_message_wait_init(struct plait_pair *pair);

/*
 * After a turn of the pair. Without progress probe for failures and mismatches: now and then, or each time if polled
 * rarely. An error fails the comm.
 */
enum plait_status plait_message_wait_turn(struct plait_comm *comm, struct plait_pair *pair, bool rarely);

/* ---- Blocking messages (exchange.c) -------------------------------------------------------------------------- */

/* Run a blocking message after plait_message_prepare(), or add it to the open group. Takes the request. */
enum plait_status plait_exchange_call(struct plait_request *r);

/* Are all calls of a group blocking messages of one comm? Then begin them; the caller waits for each as usual. */
bool plait_exchange_group(struct plait_request *first);

#endif
