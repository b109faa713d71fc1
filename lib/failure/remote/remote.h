/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control blocks of ranks on other hosts: one thread of this process keeps the mirrors of them (update.h).
 *
 * The ranks of a comm that spans hosts keep the connections by which they met: every rank has one to rank 0. Each sends
 * its news when they change, at most 10 times a second unless they are urgent, and rank 0 passes everyone's on to
 * everyone. So rank 0 sends ranks^2 news of some 300 bytes in each tenth of a second in which all of them wait; nothing
 * is sent for operations that end sooner.
 *
 * A connection that closes is a death, unless its rank has departed. A host that is cut off, down or stopped closes
 * none: so every process says its old news again twice a second, also while its rank computes. Rank 0 does not pass
 * such news on; it tells the others when a rank falls silent, and when it is heard again. Where rank 0 itself says
 * nothing, nothing is known of the others, so they are not taken for silent (plait_remote_heard()). The thread never
 * waits for a host: what a connection does not take is left out, as later news say the same and more.
 */
#ifndef PLAIT_LIB_FAILURE_REMOTE_REMOTE_H
#define PLAIT_LIB_FAILURE_REMOTE_REMOTE_H

#include "update.h"

#define PLAIT_REMOTE_SILENCE 1.5 /* seconds in which nothing is heard of a rank: three of its heartbeats */

struct plait_remote; /* one comm of this process that spans hosts */

/* Of a comm whose peers on other hosts have mirrors. Nothing is said or heard yet. */
enum plait_status plait_remote_create(struct plait_comm *comm, struct plait_remote **out);

/*
 * sockets  [nrank] of rank 0: one to each other rank; else the first, to rank 0. They are the remote's
 */
void plait_remote_begin(struct plait_remote *remote, const int *sockets);

/*
 * Until when a rank of another host, or rank 0, was heard of: now, or some PLAIT_REMOTE_SILENCE ago at least, as rank 0
 * tells. Of nobody later than of rank 0 itself, to whom all others listen.
 */
double plait_remote_heard(const struct plait_remote *remote, uint32_t rank);

/* An error when the program has closed a descriptor that news need. NULL is allowed. */
enum plait_status plait_remote_check(const struct plait_remote *remote);

/* Will nothing more be heard of other hosts, as rank 0 is gone? NULL is allowed: no. */
bool plait_remote_is_over(const struct plait_remote *remote);

/* What this rank shows has changed, and others should hear of it now. Any thread; NULL is allowed. */
void plait_remote_tell(struct plait_remote *remote);

/*
 * Tell the last news, that this rank departs among them: for at most a second. What others say is heard, and passed on,
 * until destroy. NULL is allowed.
 */
void plait_remote_depart(struct plait_remote *remote);
void plait_remote_destroy(struct plait_remote *remote); /* NULL is allowed */

#endif
