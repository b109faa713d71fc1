/* SPDX-License-Identifier: BSD-3-Clause */
/* The rendezvous of a comm's ranks at creation: compare options and settings, map each other's arenas. */
#ifndef PLAIT_LIB_LIFECYCLE_MEET_H
#define PLAIT_LIB_LIFECYCLE_MEET_H

#include "bootstrap/frame.h"
#include "comm/comm.h"

/*
 * watch  polled while the rank waits, to end the rendezvous from outside; or NULL
 * own    this rank's status so far. A rank that has failed takes part too, to tell the others; comm may be NULL then.
 * Returns `own` if it is an error; else the first error of any rank, the same on all ranks that can be told.
 */
enum plait_status plait_meet(struct plait_comm *comm, const struct plait_comm_options *o, enum plait_status own,
                             const struct plait_watch *watch);

#endif
