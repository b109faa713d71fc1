/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is left of comms that were destroyed: control block, peers, flights, and the network and news of other hosts,
 * until the other ranks have left too, or died, and nobody reads them. The next comm that is made or destroyed looks
 * again.
 */
#ifndef PLAIT_LIB_LIFECYCLE_RETIRE_H
#define PLAIT_LIB_LIFECYCLE_RETIRE_H

#include "comm/comm.h"

#include <stdatomic.h>

extern atomic_uint plait_comms_alive; /* or being made: unloading the library, and the end of the process, leave them */

/* Leave the comm (or none), and release all that nobody reads any more. */
void plait_teardown(struct plait_comm *comm);

/* Free what nobody reads. */
void plait_comm_release(struct plait_comm *comm);

#endif
