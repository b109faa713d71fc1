/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The probes of a waiting rank: have the others made the same calls, are they alive, are their data reachable? A probe
 * finds nothing, or fails the comm and names the culprit.
 */
#ifndef PLAIT_LIB_PROGRESS_LOOK_H
#define PLAIT_LIB_PROGRESS_LOOK_H

#include "wait.h"

/* Has another rank failed, or called the operation in progress with other arguments? */
enum plait_status plait_look_at_calls(struct plait_comm *comm);

/*
 * Did a rank call one of the operations since own->unheard with other arguments? All ranks may have returned from such
 * an operation: in rooted collectives with small messages not every rank waits for every other.
 */
enum plait_status plait_look_at_past_calls(struct plait_comm *comm);

/* Has a needed rank left or died? The first probe sets w->suspect, the second one fails the comm. */
enum plait_status plait_look_for_gone(struct plait_comm *comm, struct plait_wait *w, double now);

/* Does another process claim this rank? The comm may then have ranks of two jobs. Checked once a second. */
enum plait_status plait_look_at_claim(struct plait_comm *comm, double now);

/* Has a single copy of a message failed? */
enum plait_status plait_look_at_unread(struct plait_comm *comm, const struct plait_wait *w, double now);

/* Is the link to a needed rank broken? */
enum plait_status plait_look_at_links(struct plait_comm *comm, struct plait_wait *w, double now);

/* Is `rank` needed to end this wait? Messages need some ranks, a collective needs all. */
bool plait_wait_needs(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank);

/* Has a rank finished the operation in progress? One that has left or died may have done so before. */
bool plait_peer_finished(const struct plait_comm *comm, uint32_t rank);

/* Has the process of another rank ended? Ranks that are threads of this process never count. And the process's ID. */
bool plait_peer_died(const struct plait_peer *peer);
int plait_peer_pid(const struct plait_peer *peer);

#endif
