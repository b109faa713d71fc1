/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deferred teardown. A destroyed comm keeps its control block, peers, slices in flight, network and control-plane
 * updates until every other rank has left or died: until then a peer may read them. Each creation and destruction of a
 * comm frees the comms that no peer reads any more.
 */
#ifndef PLAIT_LIB_LIFECYCLE_TEARDOWN_H
#define PLAIT_LIB_LIFECYCLE_TEARDOWN_H

#include "comm/comm.h"

#include <stdatomic.h>

extern atomic_uint plait_comms_alive; /* or being created; while > 0, unload() frees nothing */

/* Leave `comm` (NULL: none), then free every comm that no peer reads any more. */
void plait_teardown(struct plait_comm *comm);

/* Free the rest of a comm that no peer reads. */
void plait_comm_release(struct plait_comm *comm);

#endif
