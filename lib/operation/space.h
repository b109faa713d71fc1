/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory space: the kind of memory that holds an operation's buffers, and the functions that work on it. The engine
 * and the calls know nothing else of where a buffer lies.
 *
 * Two spaces are built in: the host's (host_space.c), whose functions return when the work is done, and that of GPUs
 * (lib/device/gpu_space.c), whose functions put the work on a queue, which does it later and in order.
 */
#ifndef PLAIT_LIB_OPERATION_SPACE_H
#define PLAIT_LIB_OPERATION_SPACE_H

#include "comm/comm.h"
#include "plugin/device.h"
#include "reduce/reduce.h"

struct plait_args;
struct plait_run;

/* Where the work of an operation or message is put. */
struct plait_target {
    struct plait_queue *queue; /* of a queued space; else NULL */
    uint64_t note;             /* the space's: written when the operation or message begins */
};

struct plait_space {
    uint32_t id; /* part of an operation's key and fingerprint: the ranks' spaces must be the same */

    bool host;      /* the CPU may access the memory: the eager path and single copies by the kernel are allowed */
    size_t mailbox; /* bytes of a message up to which it may be copied into its mailbox */
    /* Work is done later, in the order of a queue: a blocking call becomes a request, and a copy is not there yet. */
    bool queued;
    enum plait_channel channel, messages; /* of its collectives; of sends and receives */

    /*
     * Find: do the buffers of a call lie in this space? Then set a->space and a->queue, and check that the buffers fit
     * the call. in_bytes, out_bytes: 0: not used. size: bytes of an element of a reduction; else 1. NULL: host.
     */
    enum plait_status (*find)(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes, size_t size,
                              const struct plait_call *call, struct plait_args *a);

    /* Grow memory that peers may map to at least these bytes, without its content. Work that was started goes on. */
    enum plait_status (*grow)(struct plait_comm *comm, struct plait_room *room, size_t bytes);

    /* Begin: an operation of this space begins. Sets run->slices and run->scaled, the working memory to be used. */
    enum plait_status (*begin)(struct plait_run *run);
    /* Order: the next work belongs here. Operations and messages of a comm take turns. */
    void (*order)(const struct plait_comm *comm, const struct plait_target *target);
    /* End: all work of the operation was started; the caller may use its queue again. */
    void (*end)(struct plait_comm *comm);

    /* Poll: has work that was started failed? An error has failed the comm. */
    enum plait_status (*poll)(struct plait_comm *comm);

    /*
     * One turn of an operation without the plan's steps (selection.whole): a leader computes the results of all ranks
     * of its GPU. run->whole becomes false, and nothing has happened, if their memory does not allow it. NULL: never.
     * whole_awaited: the ranks that the turns wait for, at most `most`.
     */
    enum plait_status (*whole)(struct plait_run *run, bool *moved, bool *ended);
    uint32_t (*whole_awaited)(const struct plait_run *run, uint32_t *ranks, uint32_t most);

    /* streams: by streaming stores, where the space has them. */
    void (*copy)(struct plait_comm *comm, void *to, const void *from, size_t bytes, bool streams);
    /* how: of c->divisor and c->op; for the host's kernels. */
    void (*combine)(const struct plait_run *run, const struct plait_combine *c, const struct plait_how *how);
    /* to = from * scalar. late: the scalar is read in the order of the queue. */
    void (*scale)(const struct plait_run *run, void *to, const void *from, size_t count, const void *scalar, bool late);

    /*
     * The end of a comm; NULL in the host's space only. settle: wait until its work has ended. leaves_some: this rank
     * leaves a comm that has not failed; do other ranks still wait for its work? Then the comm fails. close: free all.
     * bytes: of memory that the space holds for it.
     */
    void (*settle)(struct plait_comm *comm);
    bool (*leaves_some)(struct plait_comm *comm);
    void (*close)(struct plait_comm *comm);
    size_t (*bytes)(const struct plait_comm *comm);

    /* The functions below are those of a queued space; NULL for others. */

    /* Does a message wait for this rank's own work, and for no peer? */
    bool (*is_behind)(const struct plait_comm *comm);
    /* May an operation begin on this queue now? Else an error; nothing has happened then. */
    enum plait_status (*check_queue)(const struct plait_comm *comm, const char *name, struct plait_queue *queue);
    /* Can `peer` read this memory in place? Else an error. */
    enum plait_status (*check_send)(struct plait_comm *comm, const void *data, uint32_t peer);

    /*
     * Mark the end of the comm's work so far, the last of which is on this queue. False: the queue is captured and
     * nothing runs yet. has_passed: is that work done? Asked in the order of the marks. poll() sees an error of either.
     */
    bool (*mark)(struct plait_comm *comm, struct plait_queue *queue, uint32_t *mark);
    bool (*has_passed)(struct plait_comm *comm, uint32_t mark);

    /*
     * A message begins, which may fail the comm; it ends: all of it was started, or the comm has failed. end() and
     * poll() follow in the same turn. The message is from this rank to itself: one copy, ordered after both queues.
     */
    void (*message_begin)(struct plait_comm *comm, struct plait_target *target);
    void (*message_end)(struct plait_comm *comm, const struct plait_target *target);
    void (*message_to_itself)(struct plait_comm *comm, const struct plait_target *from, const void *data,
                              const struct plait_target *to, void *place, size_t bytes);
};

/* Can the receiver copy the memory by the kernel (single copy)? */
static inline bool plait_single_copy(const struct plait_space *space, const struct plait_link *link, const void *data,
                                     size_t bytes)
{
    return space->host && link->transport->reaches(link, data, bytes, true);
}

extern const struct plait_space plait_host_space, plait_gpu_space;

#endif
