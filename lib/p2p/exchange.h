/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that block, alone or in a group of their own, while nothing else is pending in this process: the thread that
 * calls them runs them at once, as it does a blocking collective, without the comm's lock and the list of active comms.
 * When they do not end soon they are pending like any others.
 */
#ifndef PLAIT_LIB_P2P_EXCHANGE_H
#define PLAIT_LIB_P2P_EXCHANGE_H

#include "request/request.h"

/* Nothing of this comm is pending, and the call blocks: only its thread touches the comm. */
static inline bool plait_blocks_alone(const struct plait_comm *comm, const struct plait_call *call)
{
    return atomic_load_explicit(&comm->pending, memory_order_acquire) == 0 &&
           (call == NULL || (call->request == NULL && call->stream == NULL && !call->persistent));
}

/* Such a call, of a message whose place is prepared: in a group it becomes the group's. The request is taken. */
enum plait_status plait_exchange_call(struct plait_request *r);

/* Are the calls of a group such, of one comm? Then begin them; each is waited for as any other. */
bool plait_exchange_group(struct plait_request *first);

#endif
