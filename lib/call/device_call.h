/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on a device's memory. */
#ifndef PLAIT_LIB_CALL_DEVICE_CALL_H
#define PLAIT_LIB_CALL_DEVICE_CALL_H

#include "operation/run.h"

/*
 * Where do the buffers of a call lie, and does that fit how it is called? *queue becomes the stream's, or, of a
 * blocking call, the comm's own; NULL: the processor's memory. bytes: of each buffer; 0: it is not used. size: of an
 * element of what is combined, to which memory of a GPU must be aligned; else 1.
 */
enum plait_status plait_device_find(struct plait_comm *comm, const char *name, const void *in, size_t in_bytes,
                                    const void *out, size_t out_bytes, size_t size, const struct plait_call *call,
                                    struct plait_queue **queue);

/*
 * Over hosts the host takes part in each message, and it does not know when a graph runs: PLAIT_ERR_UNSUPPORTED if this
 * queue is captured now. Nothing has happened then.
 */
enum plait_status plait_device_check_capture(const struct plait_comm *comm, const char *name,
                                             struct plait_queue *queue);

/* It did not work: if that is the driver's fault the others must not wait for this rank. Returns what the call does. */
enum plait_status plait_device_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);

/* May it not be put on its queue here and now? It is to be waited for, or as in plait_must_queue(). */
bool plait_device_must_queue(const struct plait_comm *comm, const struct plait_call *call);

/* Put comm->last on the queue of `a`. sizes: of blocks that differ; else NULL. */
enum plait_status plait_device_run(struct plait_comm *comm, const struct plait_args *a, const struct plait_sizes *sizes,
                                   const struct plait_call *call);

#endif
