/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking messages, alone or in a group of nothing else, while nothing is pending in this process. Their caller gives
 * them their first turns, without the comm's lock, the list of active comms and the failure detector. Those that have
 * not ended after a spin become pending like any others.
 */
#ifndef PLAIT_LIB_P2P_EXCHANGE_H
#define PLAIT_LIB_P2P_EXCHANGE_H

#include "request/request.h"

/* Does the call block, with nothing of this comm pending? Then only the calling thread touches the comm. */
static inline bool plait_blocks_alone(const struct plait_comm *comm, const struct plait_call *call)
{
    return atomic_load_explicit(&comm->pending, memory_order_acquire) == 0 && (call == NULL || call->request == NULL);
}

/* Run a blocking message after plait_message_prepare(), or add it to the open group. Takes the request. */
enum plait_status plait_exchange_call(struct plait_request *r);

/* Are all calls of a group blocking messages of one comm? Then begin them; the caller waits for each as usual. */
bool plait_exchange_group(struct plait_request *first);

#endif
