/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that go on while the caller does something else.
 *
 *     struct plait_request *r;
 *     struct plait_call call = PLAIT_CALL_DEFAULT;
 *     call.request = &r;
 *     plait_allreduce(comm, in, out, n, PLAIT_FLOAT32, PLAIT_SUM, &call);     returns at once
 *     ...
 *     plait_wait(&r);                                                         out is valid
 *
 * Every collective, send and receive has this form. Any number may be pending. Collectives of one comm run and end in
 * the order of the calls, blocking ones among them; comms do not wait for each other. They go on while any thread of
 * the process waits or tests, or on the progress thread (comm options, `progress`).
 * The buffers are the library's until the request has ended; count and start arrays, options and names are copied.
 * A deadline counts while somebody drives the operation; of a longer time between two tests it counts 2 seconds, or a
 * quarter of the deadline if that is less, as the process may have been stopped, or have computed.
 * On a GPU's memory a request has ended when its operation has happened there. Without call->stream what it reads must
 * be there when it is called. With a stream of CUDA's it takes its place in the order of that; the call, or its group's
 * end, returns when all of it is on the stream (stream.h), and while that is captured the request ends then.
 * When the comm fails every pending request of it ends with the error. plait_comm_destroy() waits for what is pending;
 * a request that has ended keeps its result and may be waited for afterwards, by any thread.
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
 * Has it ended? Drives all pending operations of this process a little.
 *
 * request  becomes NULL when it has ended, unless it is persistent; NULL has ended with success
 * done     1: it has, and the answer is its result; 0: not yet
 * Thread:  any, but one at a time for a request
 * Errors:  those of the operation
 */
PLAIT_API enum plait_status plait_test(struct plait_request **request, int *done);

/**
 * Wait until it has ended; the answer is its result. The request becomes NULL unless it is persistent.
 *
 * Thread:  any, but one at a time for a request
 * Errors:  those of the operation
 */
PLAIT_API enum plait_status plait_wait(struct plait_request **request);

/**
 * Wait until one of several has ended, and take it as plait_wait() does.
 *
 * requests  [n]; NULL, and persistent ones that are not started, are passed over
 * index     which, also when that has ended with an error; `n` when there was none to wait for
 * Thread:   any, but one at a time for a request
 * Errors:   those of the operation; PLAIT_ERR_ARG (NULL, or a request whose group has not ended), and index is not written
 */
PLAIT_API enum plait_status plait_wait_any(struct plait_request **requests, size_t n, size_t *index);

/**
 * Wait for all of them. The first error in the order of the array is the answer; every one is taken.
 *
 * Thread:   any, but one at a time for a request
 * Errors:   those of the operations; PLAIT_ERR_ARG (a request whose group has not ended: that one is not taken)
 */
PLAIT_API enum plait_status plait_wait_all(struct plait_request **requests, size_t n);

/**
 * Start a persistent operation: what call->persistent made is run again with the same buffers. Its memory stays bound:
 * nothing is looked up or checked again.
 *
 * request  not pending: it was never started, or its last run was waited for or, on a stream, has ended there
 * On a stream (call->stream), which must live as long as the request: each start is one operation of the stream, which
 *          tells its error too; waiting for the request ends when the stream goes on. On one of CUDA's it can be started
 *          again at once; then the last start is what is waited for.
 * Order:   as the call it stands for, at the time of the start
 * Thread:  as the comm's calls
 * Errors:  PLAIT_ERR_ARG (pending, not persistent, its comm destroyed); those of the call it stands for
 * Cost:    half the instructions of an ordinary small call (up to 2 KiB); with plait_wait() three times as many as one,
 *          so who would wait at once calls plait_run_again(), which takes fewer than one
 */
PLAIT_API enum plait_status plait_start(struct plait_request *request);

/**
 * Start it and wait for its end: the shortest way to run the same operation again and again. In a group that waits.
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
