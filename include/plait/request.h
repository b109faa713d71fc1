/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: operations that run while the caller does something else.
 *
 *     struct plait_request *r;
 *     struct plait_call call = PLAIT_CALL_DEFAULT;
 *     call.request = &r;
 *     plait_allreduce(comm, in, out, n, PLAIT_FLOAT32, PLAIT_SUM, &call);     returns at once
 *     ...
 *     plait_wait(&r);                                                         out is valid
 *
 * Every collective, send and receive has this form. Any number may be pending. Collectives of one comm run and end in
 * the order of the calls, blocking ones among them; comms do not wait for each other. Pending operations progress while
 * any thread of the process waits or tests, or on the progress thread (comm options, `progress`).
 * The buffers belong to the library until the request has ended; count and start arrays, options and names are copied.
 * A deadline counts only while a thread drives the operation. A longer time between two tests counts as 2 seconds, or a
 * quarter of the deadline if that is less: the process may have been stopped, or have computed.
 * With GPU memory a request has ended when its operation has completed on the GPU. Without call->stream its input must
 * be ready at the call. With a CUDA stream it takes its place in the order of that stream. The call, or its group's
 * end, returns when all of it is on the stream (stream.h); while the stream is captured the request ends then.
 * When the comm fails, every pending request of it ends with the error. plait_comm_destroy() waits for pending
 * operations; a request that has ended keeps its result and may be waited for afterwards, by any thread.
 * Memory:  some hundred bytes for each pending operation, kept by the comm for the next.
 */
#ifndef PLAIT_REQUEST_H
#define PLAIT_REQUEST_H

#include <plait/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_request;

/**
 * Test whether the operation has ended. Drives all pending operations of this process a little.
 *
 * request  becomes NULL when it has ended, unless it is persistent; NULL has ended with success
 * done     1: it has ended, and the return value is its result; 0: not yet
 * Thread:  any, but one at a time for a request
 * Errors:  those of the operation
 */
PLAIT_API enum plait_status plait_test(struct plait_request **request, int *done);

/**
 * Wait until the operation has ended; return its result. The request becomes NULL unless it is persistent.
 *
 * Thread:  any, but one at a time for a request
 * Errors:  those of the operation
 */
PLAIT_API enum plait_status plait_wait(struct plait_request **request);

/**
 * Wait until one of several has ended, and complete it as plait_wait() does.
 *
 * requests  [n]; NULL and persistent ones that are not started are skipped
 * index     of the request that ended, also with an error; `n`: there was none to wait for
 * Thread:   any, but one at a time for a request
 * Errors:   those of the operation; PLAIT_ERR_ARG (NULL, or a request whose group has not ended), and index is not
 *           written
 */
PLAIT_API enum plait_status plait_wait_any(struct plait_request **requests, size_t n, size_t *index);

/**
 * Wait for all of them and complete each. Returns the first error in the order of the array.
 *
 * Thread:   any, but one at a time for a request
 * Errors:   those of the operations; PLAIT_ERR_ARG (a request whose group has not ended: that one is not completed)
 */
PLAIT_API enum plait_status plait_wait_all(struct plait_request **requests, size_t n);

/**
 * Start a persistent operation, made with call->persistent, again with the same buffers. Its memory stays bound:
 * nothing is looked up or checked again.
 *
 * request  not pending: it was never started, or its last run was waited for
 * On a stream (call->stream), which must live as long as the request, each start is one operation of the stream. It can
 * be started again at once; a wait is then for the last start.
 * Order:   as the call it stands for, at the time of the start
 * Thread:  as the comm's calls
 * Errors:  PLAIT_ERR_ARG (pending, not persistent, its comm destroyed); those of the call it stands for
 * Cost:    of a small operation: three times the instructions of an ordinary call. To wait at once, call
 *          plait_run_again(), which takes fewer than one
 */
PLAIT_API enum plait_status plait_start(struct plait_request *request);

/**
 * Start a persistent operation and wait for its end: the fastest way to repeat an operation. In a group the
 * group's end waits.
 *
 * Order, Thread, Errors: as the call it stands for
 */
PLAIT_API enum plait_status plait_run_again(struct plait_request *request);

/**
 * Give back a persistent request that is not pending; it becomes NULL. NULL is allowed.
 *
 * Thread:  as the comm's calls
 * Errors:  PLAIT_ERR_ARG (pending, in a group, not persistent), and it stays
 */
PLAIT_API enum plait_status plait_request_free(struct plait_request **request);

#ifdef __cplusplus
}
#endif
#endif
