/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from one rank to another.
 *
 * The k-th message that rank a sends to rank b is the k-th that b receives from a; count and type must agree, or the
 * receiver's error names both ranks with what each said (PLAIT_ERR_MISMATCH), and the comm has failed: a sender whose
 * call has returned hears of that at its next call or wait, but not from plait_comm_destroy() before the receiver has
 * called. Messages do not wait for collectives nor these for messages, and those between different pairs of ranks do
 * not wait for each other.
 *
 * On a GPU's memory, which both ends must have, a call with a stream of CUDA's returns when the message is on the
 * stream, for which the other rank must have called too: who sends and receives does so in a group, whatever the sizes.
 * What is behind it on the sender's stream may overwrite `in`. Messages of one comm on several streams, and collectives
 * beside them, are put one behind the other, so that one stream waits for another; into a graph those of a group go on
 * one stream.
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
 * to      rank; a message to oneself must be received in the same group, or be a request or on a host's stream, which
 *         it holds up until it is received
 * call    request, stream, persistent, deadline are read; NULL: returns when `in` may be used again, which may be
 *         before it is received
 * Order:  its place among the messages from this rank to `to`
 * Thread: one thread per rank at a time
 * Errors: as plait_allreduce(); PLAIT_ERR_UNSUPPORTED (a GPU's memory that other processes cannot map: it is not
 *         cudaMalloc()'s or plait_mem_alloc_as()'s); PLAIT_ERR_PEER when that rank died or left before it had received it
 * Cost:   up to 352 bytes travel in the lines that announce them; of memory that is not plait_mem_alloc()'s, messages
 *         between processes are copied once more, but from 8 KiB on where reading through the kernel takes less time
 *         (PLAIT_CMA); in slices of 512 KiB, or of 4 MiB where the kernel reads. Whether a send waits for its receiver
 *         therefore changes from call to call: two ranks that both send first may work for a while. With PLAIT_CMA=1
 *         they stall, from 8 KiB on, until the deadline
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
