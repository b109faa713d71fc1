/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room lifecycle: creation, division and end of communicators.
 *
 * life.c creates, destroy.c destroys and frees when nobody reads. connect.c runs the rendezvous and maps the ranks'
 * arenas; cards.c compares their options and settings. split.c makes communicators from others (split, duplicate,
 * shrink), manage.c suspends, finalizes and revokes.
 *
 * The room promises: creation is collective. All ranks get the communicator, or all that are still there get one error
 * that names the culprit. Destroying waits for ranks that still read, never for dead ones.
 *
 * It is above all rooms that a communicator is made of, so it may know each of them.
 */
#ifndef PLAIT_LIB_LIFECYCLE_LIFE_H
#define PLAIT_LIB_LIFECYCLE_LIFE_H

#include "bootstrap/frame.h"
#include "comm/comm.h"

/* plait_comm_create() that ignores an open group. `own` and `watch`: see plait_comm_connect(). */
enum plait_status plait_comm_make(const struct plait_comm_options *options, enum plait_status own,
                                  const struct plait_watch *watch, struct plait_comm **out);

/* Wait until nothing is pending and nobody reads this rank's memory for an operation that has ended. */
enum plait_status plait_comm_settle(struct plait_comm *comm);

/* Free a comm whose creation failed. */
void plait_comm_discard(struct plait_comm *comm);

/*
 * The rendezvous of a comm's ranks: compare options and settings, map each other's arenas.
 *
 * o      their id, rank, nrank and timeout
 * watch  polled while the rank waits, to end the rendezvous from outside; or NULL
 * own    this rank's status so far. A rank that has failed takes part too, to tell the others; comm may be NULL then.
 * Returns `own` if it is an error; else the first error of any rank, the same on all ranks that can be told.
 */
enum plait_status plait_comm_connect(struct plait_comm *comm, const struct plait_comm_options *o, enum plait_status own,
                                     const struct plait_watch *watch);

/*
 * Asynchronous creation. abort: end it with an error, or, if it has just succeeded, make the comm fail; false: the comm
 * was complete before the call; any thread. end: cancel it if it still runs, and join its thread; PLAIT_OK: the comm is
 * complete.
 */
bool plait_async_creation_abort(struct plait_comm *comm);
enum plait_status plait_async_creation_end(struct plait_comm *comm);

/* ---- Deferred teardown: see destroy.c ---- */

/* Leave `comm` (NULL: none), then free every comm that no peer reads any more. */
void plait_teardown(struct plait_comm *comm);

/* plait_comm_revoke() without the checks of its argument. */
void plait_comm_stop(struct plait_comm *comm);

#endif
