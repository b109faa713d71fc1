/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from one rank to another.
 *
 * The k-th message that rank a sends to rank b is the k-th that b receives from a. Count and type must agree. If not,
 * the receiver's error names both ranks with their values (PLAIT_ERR_MISMATCH), and the comm has failed. A sender whose
 * call has returned learns of that at its next call or wait, but not from plait_comm_destroy() before the receiver has
 * called. Messages and collectives do not wait for each other, nor do messages between different pairs of ranks.
 *
 * Both ends may use GPU memory. A call with a CUDA stream then returns when the message is queued on the stream, for
 * which the other rank must have called too. So a rank that sends and receives does it in a group, whatever the sizes.
 * Later operations of the sender's stream may overwrite `in`. Messages of one comm on several streams, and collectives
 * beside them, are ordered one after the other, so one stream waits for another. In a capture the messages of a group
 * must be on one stream.
 */
#ifndef PLAIT_MESSAGE_H
#define PLAIT_MESSAGE_H

#include <plait/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Send to another rank.
 *
 * in      [count]
 * to      rank; a message to oneself must be received in the same group, or be a request
 * call    reads request, stream, persistent, deadline; NULL: returns when `in` may be used again, which may be before
 *         the message is received
 * Order:  its place among the messages from this rank to `to`
 * Thread: one thread per rank at a time
 * Errors: as plait_allreduce(); PLAIT_ERR_UNSUPPORTED (GPU memory that other processes cannot map: it is not from
 *         cudaMalloc() or plait_mem_alloc_as()); PLAIT_ERR_PEER when that rank died or left before it had received the
 *         message
 * Cost:   up to 352 bytes travel in the mailbox itself. Between processes, messages outside plait_mem_alloc() memory
 *         are copied once more, through staging buffers in slices of 512 KiB. From 8 KiB on the receiver reads them
 *         through the kernel instead, where that takes less time (single copy, PLAIT_CMA). So a send may or may not
 *         wait for its receiver, from call to call: two ranks that both send first may work for a while. With
 *         PLAIT_CMA=1 they stall, from 8 KiB on, until the deadline
 */
PLAIT_API enum plait_status plait_send(struct plait_comm *comm, const void *in, size_t count, enum plait_dtype type,
                                       uint32_t to, const struct plait_call *call);

/**
 * Receive from another rank.
 *
 * out   [count]
 * from  rank
 * Order, Thread, Errors: as plait_send()
 */
PLAIT_API enum plait_status plait_recv(struct plait_comm *comm, void *out, size_t count, enum plait_dtype type,
                                       uint32_t from, const struct plait_call *call);

#ifdef __cplusplus
}
#endif
#endif
