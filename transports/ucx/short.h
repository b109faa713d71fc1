/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages of a network of UCX's: header and data in one piece, by tag.
 *
 * Over TCP that is one send(); an active message, which has a header of its user's, is a sendmsg() of four pieces, and
 * what comes is copied once more. What UCX does not take at once is not sent here: it goes as an active message after
 * all, so that nothing is kept of what is sent. Receives of any tag are posted into slots, which hold what came until
 * it is released.
 */
#ifndef PLAIT_TRANSPORTS_UCX_SHORT_H
#define PLAIT_TRANSPORTS_UCX_SHORT_H

#include "../../lib/plugin/net.h"

#include <ucp/api/ucp.h>

#define PLAIT_SHORT ((size_t)2048 - PLAIT_NET_HEADER) /* bytes; longer ones UCX does not copy behind its own header */

struct slot;

struct inbox {
    ucp_worker_h worker;
    const struct plait_net_options *options;
    struct slot *slots, *spare; /* all; those that hold nothing and are not posted */
    uint32_t nposted, nwanted;  /* receives; 0 wanted: there are no short messages */
};

/* Does this process's UCX_TLS allow for them? */
bool plait_short_possible(void);

void plait_short_open(struct inbox *b, ucp_worker_h worker, const struct plait_net_options *options);

/* Before the worker ends; the slots are there until free(). */
void plait_short_cancel(struct inbox *b);
void plait_short_free(struct inbox *b);

/* At most PLAIT_SHORT bytes. False: it has not gone. */
bool plait_short_send(ucp_ep_h ep, const void *header, const void *data, size_t bytes);

/* Before each turn of the worker: post what is wanted; what came when nothing was posted is shown. */
void plait_short_post(struct inbox *b);

/* Nothing can have come that is not shown. */
static inline bool plait_short_is_posted(const struct inbox *b)
{
    return b->nposted == b->nwanted;
}

/* False: it is not held here. */
bool plait_short_release(struct inbox *b, void *held);

#endif
