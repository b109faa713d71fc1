/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting the other ranks at creation: compare what must be equal, map each other's arenas. */
#ifndef PLAIT_LIB_LIFECYCLE_MEET_H
#define PLAIT_LIB_LIFECYCLE_MEET_H

#include "bootstrap/frame.h"
#include "comm/comm.h"

/*
 * watch  what ends the meeting from outside, or NULL
 * own   how this rank has fared so far: one that has failed comes too, to say so. comm may be NULL then.
 * Returns `own` if it is an error; else the first error of any rank, the same on all that can be told.
 */
enum plait_status plait_meet(struct plait_comm *comm, const struct plait_comm_options *o, enum plait_status own,
                             const struct plait_watch *watch);

#endif
