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
 * A group takes collectives, sends and receives of any comms, and creations of comms. Between start and end these calls
 * return at once; at the end they all run together. They do not wait for each other, in whatever order ranks call them.
 * Only the collectives of one comm must have the same order on all ranks, as always. So one thread may hold several
 * ranks of a comm. A comm created in a group exists when the group has ended; what its options point to must live that
 * long.
 */
#ifndef PLAIT_GROUP_H
#define PLAIT_GROUP_H

#include <plait/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Begin a group of this thread. Groups may be nested: only the outermost counts.
 *
 * Thread: any; the group is the thread's
 * Errors: none
 */
PLAIT_API enum plait_status plait_group_start(void);

/**
 * End the group: begin all its calls; wait for those that are neither requests nor on a stream.
 *
 * Result: PLAIT_OK when all succeeded, else the first error; plait_last_error() has a line for each cause. If calls
 *         were refused (wrong argument, failed comm), nothing of the group is begun, and its requests end with the
 *         first call's error. If a comm cannot be made, the group's other calls are begun all the same, as on ranks
 *         that may not know of the failure.
 * Thread: the one that began it
 * Errors: PLAIT_ERR_ARG when no group was begun; those of the calls
 */
PLAIT_API enum plait_status plait_group_end(void);

#ifdef __cplusplus
}
#endif
#endif
