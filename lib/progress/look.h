/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank that waits looks at: what the others have called, whether they are there, whether their data can be
 * reached. Each look finds nothing, or fails the comm and names who is at fault.
 */
#ifndef PLAIT_LIB_PROGRESS_LOOK_H
#define PLAIT_LIB_PROGRESS_LOOK_H

#include "wait.h"

/* Has another rank failed, or called the operation in progress with other arguments? */
enum plait_status plait_look_at_calls(struct plait_comm *comm);

/*
 * Did a rank call one of the operations since own->unheard with other arguments? Where ranks do not hear of each other
 * (rooted collectives) and messages are small, all may have returned from it.
 */
enum plait_status plait_look_at_past_calls(struct plait_comm *comm);

/* Has a rank left or died without which this wait cannot end? Sets w->suspect a look before it fails. */
enum plait_status plait_look_for_gone(struct plait_comm *comm, struct plait_wait *w, double now);

/* Does another process claim this rank? Then ranks of two jobs may be in the comm. Asked once a second. */
enum plait_status plait_look_at_claim(struct plait_comm *comm, double now);

/* Is there a message that the kernel does not copy? */
enum plait_status plait_look_at_unread(struct plait_comm *comm, const struct plait_wait *w, double now);

/* Is the way to a rank broken without which this wait cannot end? */
enum plait_status plait_look_at_links(struct plait_comm *comm, struct plait_wait *w, double now);

/* Can this wait not end without that rank? Messages are awaited from some ranks, a collective from all. */
bool plait_wait_needs(const struct plait_comm *comm, const struct plait_wait *w, uint32_t rank);

/* Has a rank finished the operation in progress? One that has left or died cannot, unless it has done so already. */
bool plait_peer_finished(const struct plait_comm *comm, uint32_t rank);

/* Has the process of another rank ended (threads of this one do not, alone)? And its number. */
bool plait_peer_died(const struct plait_peer *peer);
int plait_peer_pid(const struct plait_peer *peer);

#endif
