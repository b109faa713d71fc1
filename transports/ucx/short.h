/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages over UCX: header and data in one piece, sent by tag.
 *
 * Over TCP that is one send(). An active message with a user header is a sendmsg() of four pieces, and the receiver
 * copies it once more. A message that UCX does not take at once is not sent here: it goes as an active message, so that
 * no copy of it is kept. Receives of any tag are posted into slots, which hold the message until it is released.
 */
#ifndef PLAIT_TRANSPORTS_UCX_SHORT_H
#define PLAIT_TRANSPORTS_UCX_SHORT_H

#include "../../lib/plugin/net.h"

#include <ucp/api/ucp.h>

#define PLAIT_SHORT ((size_t)2048 - PLAIT_NET_HEADER) /* bytes; UCX does not copy longer ones behind its own header */

struct slot;

struct inbox {
    ucp_worker_h worker;
    const struct plait_net_options *options;
    struct slot *slots, *spare; /* all; free and not posted */
    uint32_t nposted, nwanted;  /* receives; nwanted 0: no short messages */
};

/* Does UCX_TLS of this process allow short messages? */
bool plait_short_possible(void);

void plait_short_open(struct inbox *b, ucp_worker_h worker, const struct plait_net_options *options);

/* Call before the worker is destroyed; the slots stay until free(). */
void plait_short_cancel(struct inbox *b);
void plait_short_free(struct inbox *b);

/* At most PLAIT_SHORT bytes. False: not sent. */
bool plait_short_send(ucp_ep_h ep, const void *header, const void *data, size_t bytes);

/*
 * Call before each turn of the worker: post the missing receives. Messages that came while none was posted are
 * delivered.
 */
void plait_short_post(struct inbox *b);

/* True: no message can have come that was not delivered. */
static inline bool plait_short_is_posted(const struct inbox *b)
{
    return b->nposted == b->nwanted;
}

/* False: no slot of the inbox holds it. */
bool plait_short_release(struct inbox *b, void *held);

#endif
