/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: calls that are begun together.
 *
 *     plait_group_start();
 *     for (r = 0; r < nrank; r++) {
 *         plait_send(comm, out[r], n, PLAIT_FLOAT32, r, NULL);
 *         plait_recv(comm, in[r], n, PLAIT_FLOAT32, r, NULL);
 *     }
 *     plait_group_end();
 *
 * Collectives, sends and receives of any comms, and creations of comms, between start and end return at once and run
 * at the end, all together: in whatever order ranks call them, they do not wait for each other, but for the
 * collectives of one comm, whose order must be the same on all ranks as always. One thread may so hold several ranks of
 * a comm. A comm that is created in a group is there when that has ended; what its options point to must stay so long.
 */
#ifndef PLAIT_GROUP_H
#define PLAIT_GROUP_H

#include <plait/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Begin a group of this thread. Groups may be nested: the outermost counts.
 *
 * Thread: any; the group is the thread's
 * Errors: none
 */
PLAIT_API enum plait_status plait_group_start(void);

/**
 * End it: begin all its calls; wait for those that are neither requests nor on a stream.
 *
 * Result: PLAIT_OK when all succeeded, else the first error; plait_last_error() has a line for each cause. When calls of
 *         the group were refused (wrong argument, failed comm), nothing of it is begun, and its requests end with the
 *         first one's error. When a comm of it cannot be made its other calls are begun all the same, as on the ranks
 *         that may not know.
 * Thread: the one that began it
 * Errors: PLAIT_ERR_ARG when no group was begun; those of the calls
 */
PLAIT_API enum plait_status plait_group_end(void);

/**
 * End it without beginning anything, and say how long it would take by the algorithms' claims (plan.h): of each
 * collective the messages on its longest path, one more for every further slice, and the bytes of the rank that sends
 * or receives most. Collectives of a comm follow each other, those of different comms overlap; sends and receives come
 * on top, those of the comm with the most bytes. Ranks of a comm that this thread holds are comms here. Combining costs
 * nothing here. Its requests end with PLAIT_ERR_ARG.
 *
 * latency    seconds of a message
 * bandwidth  bytes per second that a rank sends or receives; plait-perf measures both
 * Thread:    the one that began it
 * Errors:    PLAIT_ERR_ARG (no group, a nested one, no positive number); what plait_group_end() would say of calls that
 *            were refused
 */
PLAIT_API enum plait_status plait_group_estimate(double latency, double bandwidth, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
