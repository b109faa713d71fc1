/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control-plane updates between hosts: they keep the replicas of control blocks up to date (update.h).
 *
 * The ranks of a comm that spans hosts keep the rendezvous connections: every rank has one to rank 0. A rank sends an
 * update when its state changes, at most 10 times a second unless it is urgent; rank 0 relays it to all others. While
 * all ranks wait, rank 0 sends ranks^2 updates of some 300 bytes per 0.1 s. Operations that end sooner send nothing.
 * One thread per process takes a turn of every comm when something arrives, and every 0.1 s. A rank with an urgent
 * update wakes it.
 *
 * A connection that closes is a death, unless its rank has departed. A host that is cut off, down or stopped closes
 * none. So every process repeats its last update twice a second as a heartbeat, even while its rank computes. Rank 0
 * does not relay heartbeats; it tells the others when a rank falls silent and when that rank is heard again. While rank
 * 0 itself is silent, the others' state is unknown, and they do not count as silent (plait_remote_heard()). A turn
 * never blocks on a host: what a connection does not accept is sent later, and left out if it is superseded by then.
 */
#ifndef PLAIT_LIB_FAILURE_REMOTE_REMOTE_H
#define PLAIT_LIB_FAILURE_REMOTE_REMOTE_H

#include "update.h"

#define PLAIT_REMOTE_SILENCE 1.5 /* seconds without an update after which a rank is silent: three heartbeats */

struct plait_remote; /* one comm of this process that spans hosts */

/* Create it for a comm whose peers on other hosts have replicas. Nothing is sent or received yet. */
enum plait_status plait_remote_create(struct plait_comm *comm, struct plait_remote **out);

/*
 * Start to exchange updates.
 *
 * sockets  on rank 0 [nrank], one to each other rank; else [1], to rank 0. The remote takes ownership
 */
void plait_remote_begin(struct plait_remote *remote, const int *sockets);

/*
 * Clock at which a rank of another host, or rank 0, was last heard. For a rank that rank 0 reports as silent: at least
 * PLAIT_REMOTE_SILENCE ago; else as of the last update from rank 0, which relays all others.
 */
double plait_remote_heard(const struct plait_remote *remote, uint32_t rank);

/* An error if the program has closed a descriptor of the remote. NULL is allowed. */
enum plait_status plait_remote_check(const struct plait_remote *remote);

/* Is the connection to rank 0 lost, so that no more updates arrive? NULL is allowed: no. */
bool plait_remote_is_over(const struct plait_remote *remote);

/* Send this rank's changed state now (urgent). Any thread; signal-safe; NULL is allowed. */
void plait_remote_tell(struct plait_remote *remote);

/*
 * Send the last update, which says that this rank departs; waits at most 1 s. Until destroy, others' updates are still
 * received and relayed. NULL is allowed.
 */
void plait_remote_depart(struct plait_remote *remote);
void plait_remote_destroy(struct plait_remote *remote); /* NULL is allowed */

#endif
