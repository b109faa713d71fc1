/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host streams: a queue of work that a thread does in order.
 *
 * A call with call->stream returns at once; its operation begins when everything before it on the stream has ended,
 * and what comes after it begins when it has ended. What a GPU's stream is to kernels, this is to functions on the
 * host.
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
 * Make a stream and its thread.
 *
 * out     written only on success; free it with plait_stream_destroy()
 * Thread: any
 * Errors: PLAIT_ERR_ARG (out is NULL), PLAIT_ERR_NOMEM, PLAIT_ERR_SYSTEM (no thread)
 */
PLAIT_API enum plait_status plait_stream_create(struct plait_stream **out);

/**
 * Take a stream of CUDA's (a CUstream or cudaStream_t, NULL for the default one) as a stream: calls with it are on memory
 * of its GPU, and what they do is put on it.
 *
 * cuda     stays the caller's, who destroys it after this one
 * A call with it (call->stream) returns when its steps are on the stream, for which the ranks it exchanges data with must
 *          have called too: who drives several ranks from one thread begins their calls in a group. Where the stream is
 *          being captured, the operation becomes part of the graph, on all ranks of the comm or on none; it runs with
 *          every launch. Operations on several streams of one capture follow each other. A graph may run beside other
 *          operations of the comm, but not beside its other graphs: whoever launches those on several streams orders
 *          them with events, on all ranks in the same way. Where ranks are threads of a process, none may put
 *          a copy to malloc's memory behind an operation that another rank is to launch yet: it waits in the driver,
 *          which may keep the other from launching. Synchronize the stream first, or copy to pinned memory (docs/gpu.md).
 * plait_stream_destroy() of it waits for nothing.
 * Thread:  any
 * Errors:  PLAIT_ERR_UNSUPPORTED (no GPU, no driver, no plug-in), PLAIT_ERR_ARG (the stream is of another context than the
 *          primary one of its GPU)
 */
PLAIT_API enum plait_status plait_stream_create_cuda(void *cuda, struct plait_stream **out);

/**
 * The same of a GPU that the caller names: NULL is that GPU's default stream, whichever the thread's current one is.
 *
 * device  the GPU's number, 0 or more
 * Thread: any
 * Errors: as plait_stream_create_cuda(); PLAIT_ERR_ARG (the stream is of another GPU, or there is no such GPU)
 */
PLAIT_API enum plait_status plait_stream_create_cuda_on(int device, void *cuda, struct plait_stream **out);

/**
 * What comes on `stream` from now on waits for what is on `other` now. Both are CUDA's. Where `other` is being captured,
 * `stream` becomes part of its graph.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (one is a host's), PLAIT_ERR_SYSTEM (what the driver said)
 */
PLAIT_API enum plait_status plait_stream_follow(struct plait_stream *stream, struct plait_stream *other);

/**
 * Does what is put on it now happen (*capture 0), or go into a graph? Then which: streams with the same number are part of
 * one capture, and no two captures of a process have the same. A host's stream is never captured.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (NULL), PLAIT_ERR_SYSTEM (what the driver said)
 */
PLAIT_API enum plait_status plait_stream_captures(struct plait_stream *stream, uint64_t *capture);

struct plait_copy {
    void *to;
    const void *from;
    size_t bytes;
};

/**
 * Copy memory of this rank's GPU, in the order of the comm's operations: behind those that are on streams, whichever these
 * are, and before those that are called later. So memory may be used for one operation after the other.
 *
 * copies  [n], none of which may overlap another; done in no order, in one launch if they are few hundred. Not kept
 * stream  CUDA's, on which they are put; at once, also where a group is open
 * Thread: as a collective of the comm
 * Errors: PLAIT_ERR_ARG; after any other the comm has failed
 */
PLAIT_API enum plait_status plait_comm_copy(struct plait_comm *comm, const struct plait_copy *copies, size_t n,
                                            struct plait_stream *stream);

/**
 * Do something in its turn.
 *
 * function  called with `context` by the stream's thread; may call this library, but not wait for this stream; on a
 *           stream of CUDA's: may call neither this library nor CUDA, and is to wait for nothing, as one function of a
 *           process runs at a time there
 * Thread:   any; the order of calls from several threads is theirs to settle
 * Errors:   PLAIT_ERR_ARG (NULL, or a stream of the process that this one was forked from), PLAIT_ERR_NOMEM; the driver's
 */
PLAIT_API enum plait_status plait_stream_call(struct plait_stream *stream, void (*function)(void *context),
                                              void *context);

/**
 * Wait until everything on the stream has ended.
 *
 * Thread:   any but the stream's
 * Errors:   the first one of its operations since the last time; PLAIT_ERR_ARG (called by the stream's own thread)
 */
PLAIT_API enum plait_status plait_stream_synchronize(struct plait_stream *stream);

/**
 * Has everything ended?
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG; those of the operations are left to plait_stream_synchronize()
 */
PLAIT_API enum plait_status plait_stream_query(struct plait_stream *stream, int *done);

/**
 * Wait as plait_stream_synchronize(), end the thread, free the stream. NULL is allowed.
 *
 * Thread, Errors: as plait_stream_synchronize(); it is freed in any case but the last
 */
PLAIT_API enum plait_status plait_stream_destroy(struct plait_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
