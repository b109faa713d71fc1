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
 */
PLAIT_API enum plait_status plait_group_start(void);

/**
 * End it: begin all its calls; wait for those that are neither requests nor on a stream.
 *
 * Result: PLAIT_OK when all succeeded. When a call of the group was refused (wrong argument, failed comm), nothing of
 *         it is begun, and its requests end with the same error; else the first error, and plait_last_error() has a
 *         line for each call that failed.
 * Thread: the one that began it
 * Errors: PLAIT_ERR_ARG when no group was begun; those of the calls
 */
PLAIT_API enum plait_status plait_group_end(void);

#ifdef __cplusplus
}
#endif
#endif
