/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room request: pending operations of a communicator.
 *
 * A request is taken once, when it has ended: by who holds it (call->request), by the blocking call or group that
 * waits for it, or by its stream. Collectives of a communicator run one after the other, in the order of the calls.
 * stream.c has streams of the host, group.c the group that a thread has open, device_request.c requests on a GPU's
 * stream.
 *
 * The room promises: a request ends exactly once, with its own status, also when its communicator fails or is
 * destroyed meanwhile.
 *
 * It begins messages through the communicator's struct plait_drive and does not know how they travel.
 */
#ifndef PLAIT_LIB_REQUEST_REQUEST_H
#define PLAIT_LIB_REQUEST_REQUEST_H

#include <plait/request.h>

#include "comm/lend.h"
#include "group.h"
#include "operation/run.h"
#include "stream.h"

enum plait_request_kind { PLAIT_REQUEST_COLLECTIVE, PLAIT_REQUEST_SEND, PLAIT_REQUEST_RECV };

struct plait_letter { /* a message and how far it is */
    char *data;
    size_t count, bytes;
    enum plait_dtype type;
    uint32_t peer;
    uint64_t number;           /* among those to, or from, this peer */
    uint64_t nslice;           /* parts that it travels in, 1 at least; of PLAIT_MESSAGE_SLICE bytes, or it is one */
    uint64_t slice;            /* next to be offered or taken */
    uint32_t last;             /* transport's number of its last slice, once all are offered */
    bool lent;                 /* the receiver reads it where it lies */
    enum plait_passing way;    /* of its slices; PLAIT_NPASSING: not asked for yet */
    uint64_t place;            /* in the ring; 0: it was never first in its queue */
    uint64_t began;            /* nanoseconds; 0: not known */
    double deadline;           /* 0: the comm's */
    struct plait_queue *queue; /* of the device whose memory it is; NULL: the processor's; */
    uint64_t capture;          /* of a graph that what is put there goes into; 0: none */
};

/*
 * A request may be taken by any thread while its comm is destroyed by another: whether it still has a comm, and the
 * lists of all and of spare ones, are under one lock of this process (request.c), which nests inside a comm's.
 */
struct plait_request {
    struct plait_comm *comm; /* NULL: it is gone, and so is the operation */
    uint32_t generation;     /* the comm's */
    uint32_t spins;          /* before who waits for it yields */
    struct plait_request *next, *next_of_group, *next_of_all;
    enum plait_request_kind kind;
    struct plait_stream *stream; /* begins only when this has come to it; NULL: at once */
    struct plait_item item;
    atomic_bool open; /* it has */
    bool persistent;
    bool grouped;              /* in a group that has not ended */
    struct plait_queue *queue; /* of a device, on which it runs (device_request.h); NULL: the processor's */
    bool streamed;             /* that is a stream of the caller's: the call returns when all of it is there */
    bool through;              /* it ends when all of it has happened there; else when it is there */
    bool marked;               /* it is among those that wait for their mark */
    atomic_bool placed;        /* all of it is there */
    struct plait_mark *mark;   /* behind it; NULL: it never had one */
    bool own;                  /* of the call or group that waits for it and takes it */
    bool alone;                /* started, but its comm is not on the list of active ones: see start_alone() */
    atomic_bool started;       /* begun and not yet taken by who holds it */
    atomic_bool ended;
    atomic_bool passed; /* its stream has seen its end and goes on */
    enum plait_status status;

    struct plait_job job;
    char scalar[8]; /* what job.scale points to, if it was read at the call */
    size_t *sizes;  /* [4][nrank] what job.sizes points to; NULL before the first of these */

    struct plait_letter letter;
};

/* May this call not run here and now? Operations of the comm are pending, a group is open, or it is a request. */
static inline bool plait_must_queue(const struct plait_comm *comm, const struct plait_call *call)
{
    return atomic_load_explicit(&comm->pending, memory_order_acquire) > 0 || plait_in_group() ||
           (call != NULL && (call->request != NULL || call->stream != NULL));
}

/*
 * Queue a collective, or, when `status` is an error, end the call with it. Takes over the comm's lock, which the caller
 * holds. job: o, in, out, sizes. A blocking call outside groups waits.
 */
enum plait_status plait_request_collective(struct plait_comm *comm, const struct plait_job *job,
                                           const struct plait_call *call, enum plait_status status);

/* The same for a message. */
enum plait_status plait_request_message(struct plait_comm *comm, enum plait_request_kind kind,
                                        const struct plait_letter *letter, const struct plait_call *call,
                                        enum plait_status status);

/*
 * One whose host stream has not come to it holds up what was called later: the first of those that has nothing else to
 * wait for, or, where the comm is being left, itself; or NULL. That waits, with its deadline: the stream may wait for
 * it in turn.
 *
 * first  of a queue, and not open
 */
static inline const struct plait_request *plait_request_held_up(const struct plait_request *first)
{
    const struct plait_request *r = first;

    while (r != NULL && !atomic_load_explicit(&r->open, memory_order_acquire))
        r = r->next;
    return r != NULL || !first->comm->leaves ? r : first;
}

/* Whom it waits for, in words. Returns the rank + 1. */
uint32_t plait_request_blame_stream(const struct plait_comm *comm, const char *call, char *text, size_t room);

static inline bool plait_request_has_ended(const struct plait_request *r)
{
    return atomic_load_explicit(&r->ended, memory_order_acquire);
}

/* For who holds it: a persistent one on a stream is the stream's until that has passed it. */
static inline bool plait_request_is_over(const struct plait_request *r)
{
    return r->stream != NULL ? atomic_load_explicit(&r->passed, memory_order_acquire) : plait_request_has_ended(r);
}

/* One for an operation of the comm; NULL: out of memory. It begins, in its place of a queue. */
struct plait_request *plait_request_get(struct plait_comm *comm);
void plait_request_open(struct plait_request *r);

/* The comm's lock is held: put it into its queue. It may be ended and taken before this returns, but for its comm. */
void plait_request_begin(struct plait_request *r);

/* The same and its first turn. Lets go of the lock. */
void plait_request_run(struct plait_request *r);

/* It will not be begun: it ends with this error. */
void plait_request_drop(struct plait_request *r, enum plait_status status);

/* Of a new comm, which has its run. */
void plait_requests_prepare(struct plait_comm *comm);

/* One turn of the comm's collectives; see struct plait_drive. Something moved? */
bool plait_requests_turn(struct plait_comm *comm, bool rarely);
uint32_t plait_requests_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);

/*
 * The comm's lock is held: this one has ended; all have, as the comm has failed. Their takers are told by
 * plait_requests_tell(), as the last thing that a turn does: when none is left they may touch the comm without the
 * lock.
 */
void plait_request_end(struct plait_request *r, enum plait_status status);
void plait_requests_fail(struct plait_comm *comm, enum plait_status status);
void plait_requests_tell(struct plait_comm *comm);

/* Wait until it has ended; without taking it. Take it: its result; free unless persistent. It is not touched again. */
void plait_request_await(struct plait_request *r);
enum plait_status plait_request_take(struct plait_request **r);

/* Whoever waits for it is interrupted: its comm fails, unless it has ended. Any thread. */
void plait_request_interrupt(struct plait_request *r);

/* Its comm, with the lock; NULL: the comm is gone, or somebody is at it. */
struct plait_comm *plait_request_lock(const struct plait_request *r);

/* Nobody holds it any more. */
void plait_request_give_back(struct plait_request *r);

/* The stream's way to take it: a persistent one stays for who holds it. */
enum plait_status plait_request_pass(struct plait_request *r);

/* The comm is left: wait for what is pending; free what nobody holds, part from the rest. */
void plait_requests_finish(struct plait_comm *comm);
void plait_requests_forget(struct plait_comm *comm);

#endif
