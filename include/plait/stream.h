/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA streams: a call with call->stream puts its operation on the stream and returns; it runs in the stream's order.
 *
 * A forked child has none of its parent's streams: every call with one is PLAIT_ERR_ARG, but for
 * plait_stream_destroy(), which does nothing.
 */
#ifndef PLAIT_STREAM_H
#define PLAIT_STREAM_H

#include <plait/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_comm;
struct plait_stream;

/**
 * Wrap a CUDA stream (a CUstream or cudaStream_t, NULL for the default one): calls with it use memory of its GPU, and
 * their operations are queued on it.
 *
 * cuda     stays the caller's, who destroys it after this one
 * A call with it (call->stream) returns when its steps are on the stream, for which the ranks it exchanges data with
 * must have called too. So one thread that drives several ranks begins their calls in a group.
 * If the stream is being captured, the operation becomes part of the graph, on all ranks of the comm or on none; it
 * runs with every launch. Operations on several streams of one capture follow each other. A graph may run beside other
 * operations of the comm, but not beside its other graphs. A program that launches those on several streams orders them
 * with events, in the same way on all ranks.
 * Ranks that are threads of a process: none may queue a copy to malloc's memory behind an operation that another rank
 * is yet to launch. The copy waits in the driver, which may keep the other rank from launching. Synchronize the stream
 * first, or copy to pinned memory (docs/gpu.md).
 * Thread:  any
 * Errors:  PLAIT_ERR_UNSUPPORTED (no GPU, no driver, no plug-in), PLAIT_ERR_ARG (the stream is of another context than
 *          the primary one of its GPU)
 */
PLAIT_API enum plait_status plait_stream_create_cuda(void *cuda, struct plait_stream **out);

/**
 * The same on a given GPU: NULL is that GPU's default stream, whatever the thread's current GPU is.
 *
 * device  the GPU's number, 0 or more
 * Thread: any
 * Errors: as plait_stream_create_cuda(); PLAIT_ERR_ARG (the stream is of another GPU, or there is no such GPU)
 */
PLAIT_API enum plait_status plait_stream_create_cuda_on(int device, void *cuda, struct plait_stream **out);

/**
 * Later operations on `stream` wait for all operations now on `other`. If `other` is being captured, `stream` becomes
 * part of its graph.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (NULL), PLAIT_ERR_SYSTEM (the driver's error)
 */
PLAIT_API enum plait_status plait_stream_follow(struct plait_stream *stream, struct plait_stream *other);

/**
 * Is the stream being captured into a graph? *capture is 0 if not, else the number of the capture: streams with the
 * same number are part of one capture, and no two captures of a process have the same.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (NULL), PLAIT_ERR_SYSTEM (the driver's error)
 */
PLAIT_API enum plait_status plait_stream_captures(struct plait_stream *stream, uint64_t *capture);

struct plait_copy {
    void *to;
    const void *from;
    size_t bytes;
};

/**
 * Copy memory of this rank's GPU, in the order of the comm's operations: after those on any stream now, before later
 * ones. So the same memory may be used for one operation after the other.
 *
 * copies  [n], none of which may overlap another; done in no order, in one launch if they are few hundred. Not kept
 * stream  the CUDA stream for the copies; they are queued at once, also while a group is open
 * Thread: as a collective of the comm
 * Errors: PLAIT_ERR_ARG; after any other the comm has failed
 */
PLAIT_API enum plait_status plait_comm_copy(struct plait_comm *comm, const struct plait_copy *copies, size_t n,
                                            struct plait_stream *stream);

/** Wait until everything on the stream has ended. Thread: any. Errors: PLAIT_ERR_ARG; the driver's. */
PLAIT_API enum plait_status plait_stream_synchronize(struct plait_stream *stream);

/** Forget the stream, which stays CUDA's; waits for nothing. NULL is allowed. Thread: any. Errors: none. */
PLAIT_API enum plait_status plait_stream_destroy(struct plait_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
