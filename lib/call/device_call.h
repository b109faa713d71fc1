/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on device memory. */
#ifndef PLAIT_LIB_CALL_DEVICE_CALL_H
#define PLAIT_LIB_CALL_DEVICE_CALL_H

#include "operation/run.h"

/*
 * Find the memory of a call's buffers and check that it fits the call. *queue: the stream's, or, without a stream, the
 * comm's own; NULL: host memory. in_bytes, out_bytes: 0: not used. size: of an element of a reduction, to which GPU
 * memory must be aligned; else 1.
 */
enum plait_status plait_device_find(struct plait_comm *comm, const char *name, const void *in, size_t in_bytes,
                                    const void *out, size_t out_bytes, size_t size, const struct plait_call *call,
                                    struct plait_queue **queue);

/*
 * PLAIT_ERR_UNSUPPORTED if the comm spans hosts and this queue is under capture; nothing has happened then. Between
 * hosts the CPU takes part in each message, and the CPU does not know when a graph runs.
 */
enum plait_status plait_device_check_capture(const struct plait_comm *comm, const char *name,
                                             struct plait_queue *queue);

/* The call failed. If the driver is at fault, fail the comm, so that no rank waits. Returns the call's status. */
enum plait_status plait_device_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);

/* Must the call become a request? The caller waits for it, or plait_must_queue() says so. */
bool plait_device_must_queue(const struct plait_comm *comm, const struct plait_call *call);

/* Put comm->last on the queue of `a`. sizes: of a v-form; else NULL. */
enum plait_status plait_device_run(struct plait_comm *comm, const struct plait_args *a, const struct plait_sizes *sizes,
                                   const struct plait_call *call);

#endif
