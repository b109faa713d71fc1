/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room p2p: send and receive, outside collectives.
 *
 * A message is one SEND at one rank and one RECV at another. There is nothing to emit, prove or choose, so it has no
 * plan. Each ordered pair of ranks has its queue at both ends and works it off in order. The queues do not wait for
 * each other, nor for collectives, which have a channel of their own. Long messages travel in slices, of which
 * several are in flight. What the receiver cannot read in place is staged in library memory of that pair, or copied
 * by the kernel.
 *
 * exchange.c runs messages that block at once, while nothing else is pending. message_agree.c compares what sender
 * and receiver say of a message; message_wait.c waits for one and names who does not come.
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

#define PLAIT_MESSAGE_SLICE    ((size_t)512 << 10) /* bytes; equal at both ends */
#define PLAIT_MESSAGE_TOGETHER 8                   /* slices that go as one where the kernel copies them */
#define PLAIT_MESSAGE_STAGE    4                   /* staged slices of a pair on the way */
#define PLAIT_MESSAGE_PARTS    16                  /* of the place of one, for shorter ones */
#define PLAIT_MESSAGE_SMALL    PLAIT_EAGER_SOME    /* up to these bytes as many as the window has */

/* Of a pair, in bytes. */
#define PLAIT_MESSAGE_SMALL_STAGES (PLAIT_WINDOW * PLAIT_MESSAGE_SMALL)
#define PLAIT_MESSAGE_STAGES       (PLAIT_MESSAGE_STAGE * PLAIT_MESSAGE_SLICE)

struct plait_line {
    struct plait_request *first, **end;
    uint64_t n; /* messages that ever entered */
};

struct plait_pair { /* this rank and another, or itself */
    struct plait_comm *comm;
    uint32_t peer;
    struct plait_line sends, recvs;
    struct plait_line lent; /* offered, but still read where they lie */
    struct plait_pair *next_busy;
    bool busy;                            /* some message is in a queue: it has turns */
    bool offered;                         /* something, in this turn */
    struct plait_wait sending, receiving; /* each its own: what moves elsewhere does not excuse who is awaited here */
    char *small;                          /* [PLAIT_WINDOW][PLAIT_MESSAGE_SMALL], or NULL */
    char *stage;                          /* [PLAIT_MESSAGE_STAGE][PLAIT_MESSAGE_SLICE], or NULL */
    uint32_t used[PLAIT_MESSAGE_STAGE];   /* number of the slice that last used it */
    bool ever[PLAIT_MESSAGE_STAGE];       /* one did */
};

struct plait_messages {         /* of a comm */
    uint32_t nrecv;             /* pending receives */
    uint32_t nborrow;           /* of these may be read where they lie; that there are some is in the control block */
    uint64_t nshown;            /* records written into the ring */
    struct plait_pair *busy;    /* those that have turns */
    struct plait_pair *pairs[]; /* [nrank]; NULL before the first message */
};

/* Room for messages with `peer`, and the ways to it: allocates at the first. */
enum plait_status plait_message_prepare(struct plait_comm *comm, uint32_t peer);

/* It gets its number, then its place in its queue: in the same order. plait_message_prepare() was called. */
void plait_message_enter(struct plait_request *r);
void plait_message_queue(struct plait_request *r);

/*
 * May it go past its queue, which would be empty but for it? Then: false: not yet, or there is an error, that its turn
 * in the queue finds. What is sent may be read where it lies after this; it ends in a turn.
 */
bool plait_message_passes(const struct plait_request *r);
bool plait_message_send_now(struct plait_request *r);
bool plait_message_take_now(struct plait_request *r);

/* One turn of all queues; see struct plait_drive. Something moved? */
bool plait_messages_turn(struct plait_comm *comm, bool rarely);
uint32_t plait_messages_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);

/* The comm has failed: all end with this. */
void plait_messages_fail(struct plait_comm *comm, enum plait_status status);

/* Nobody reads staged slices any more. */
void plait_messages_destroy(struct plait_comm *comm);

/* Memory for staged slices: how much; given back, where all of them have been read. */
size_t plait_messages_bytes(const struct plait_comm *comm);
void plait_messages_empty(struct plait_comm *comm);

#endif
