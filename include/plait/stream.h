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

#ifdef __cplusplus
extern "C" {
#endif

struct plait_stream;

/** Make a stream and its thread. Thread: any. */
PLAIT_API enum plait_status plait_stream_create(struct plait_stream **out);

/**
 * Do something in its turn.
 *
 * function  called with `context` by the stream's thread; may call this library, but not wait for this stream
 * Thread:   any; the order of calls from several threads is theirs to settle
 */
PLAIT_API enum plait_status plait_stream_call(struct plait_stream *stream, void (*function)(void *context),
                                              void *context);

/**
 * Wait until everything on the stream has ended. The first error of its operations since the last time.
 *
 * Thread:   any but the stream's
 */
PLAIT_API enum plait_status plait_stream_synchronize(struct plait_stream *stream);

/** Has everything ended? Errors are left to plait_stream_synchronize(). Thread: any. */
PLAIT_API enum plait_status plait_stream_query(struct plait_stream *stream, int *done);

/** Wait as plait_stream_synchronize(), end the thread, free the stream. NULL is allowed. Thread: any but the stream's.
 */
PLAIT_API enum plait_status plait_stream_destroy(struct plait_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
