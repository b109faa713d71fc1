/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room request: pending operations of a communicator.
 *
 * A request is taken once, when it has ended: by its holder (call->request), by the blocking call or group that
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
    uint64_t nslice;           /* slices, 1 at least; of PLAIT_MESSAGE_SLICE bytes, unless there is only one */
    uint64_t slice;            /* next to be offered or taken */
    uint32_t last;             /* transport's number of its last slice, once all are offered */
    bool lent;                 /* the receiver reads it in place */
    uint64_t place;            /* in the ring; 0: it was never first in its queue */
    uint64_t began;            /* nanoseconds; 0: not known */
    double deadline;           /* seconds; 0: the comm's */
    struct plait_queue *queue; /* of the device whose memory it is; NULL: host memory */
    uint64_t capture;          /* graph capture that work on the queue goes into; 0: none */
};

/*
 * One thread may take a request while another destroys its comm. So one lock of this process (request.c) protects
 * r->comm and the comm's lists `requests` and `spare`. This lock nests inside a comm's lock.
 */
struct plait_request {
    struct plait_comm *comm; /* NULL: destroyed, and the operation with it */
    uint32_t generation;     /* the comm's */
    uint32_t spins;          /* turns before a waiting thread yields */
    struct plait_request *next, *next_of_group, *next_of_all;
    enum plait_request_kind kind;
    struct plait_stream *stream; /* host stream that must reach it first; NULL: it begins at once */
    struct plait_item item;
    atomic_bool open; /* its stream has reached it, or it has none */
    bool persistent;
    bool grouped;              /* in a group that has not ended */
    struct plait_queue *queue; /* device queue on which it runs (device_request.h); NULL: on the host */
    bool streamed;             /* `queue` is the caller's stream: the call returns when all of it is there */
    bool through;              /* it ends when the queue has executed all of it; else when all of it is there */
    bool marked;               /* in the list of requests that wait for their mark */
    atomic_bool placed;        /* all of it is on `queue` */
    struct plait_mark *mark;   /* set behind it; NULL: it never had one */
    bool own;                  /* a blocking call or a group waits for it and takes it */
    bool alone;                /* started, but its comm is not on the list of active ones: see start_alone() */
    atomic_bool started;       /* begun and not yet taken by its holder */
    atomic_bool ended;
    atomic_bool passed; /* its stream has seen its end and goes on */
    enum plait_status status;

    struct plait_job job;
    char scalar[8]; /* target of job.scale, if the scalar was read at the call */
    size_t *sizes;  /* [4][nrank] targets of job.sizes; NULL before its first v-form */

    struct plait_letter letter;
};

/* Must this call be queued? Operations of the comm are pending, a group is open, or it has a request or a stream. */
static inline bool plait_must_queue(const struct plait_comm *comm, const struct plait_call *call)
{
    return atomic_load_explicit(&comm->pending, memory_order_acquire) > 0 || plait_in_group() ||
           (call != NULL && (call->request != NULL || call->stream != NULL));
}

/*
 * Queue a collective, or, when `status` is an error, end the call with it. The caller holds the comm's lock, and this
 * releases it. job: o, in, out, sizes, queue are set. A blocking call outside groups waits.
 */
enum plait_status plait_request_collective(struct plait_comm *comm, const struct plait_job *job,
                                           const struct plait_call *call, enum plait_status status);

/* The same for a message. */
enum plait_status plait_request_message(struct plait_comm *comm, enum plait_request_kind kind,
                                        const struct plait_letter *letter, const struct plait_call *call,
                                        enum plait_status status);

/*
 * Head-of-line blocking: a request that its host stream has not reached holds up those called later. Returns the first
 * open one of these. If none is open: `first` while the comm is being destroyed, else NULL. The returned request's
 * deadline applies to the wait, as the stream may itself wait for that request.
 *
 * first  head of a queue, not open
 */
static inline const struct plait_request *plait_request_held_up(const struct plait_request *first)
{
    const struct plait_request *r = first;

    while (r != NULL && !atomic_load_explicit(&r->open, memory_order_acquire))
        r = r->next;
    return r != NULL || !first->comm->leaves ? r : first;
}

/* Stall report for `call`, which this rank's own stream has not reached. Returns this rank + 1. */
uint32_t plait_request_blame_stream(const struct plait_comm *comm, const char *call, char *text, size_t room);

static inline bool plait_request_has_ended(const struct plait_request *r)
{
    return atomic_load_explicit(&r->ended, memory_order_acquire);
}

/* For its holder: a persistent request on a host stream belongs to the stream until the stream has passed it. */
static inline bool plait_request_is_over(const struct plait_request *r)
{
    return r->stream != NULL ? atomic_load_explicit(&r->passed, memory_order_acquire) : plait_request_has_ended(r);
}

/* get: a request for an operation of the comm; NULL: out of memory. open: set its state to begun. */
struct plait_request *plait_request_get(struct plait_comm *comm);
void plait_request_open(struct plait_request *r);

/* Put it into its queue; the comm's lock is held. It may end and be taken before this returns; r->comm stays. */
void plait_request_begin(struct plait_request *r);

/* plait_request_begin() and a first turn. Releases the lock. */
void plait_request_run(struct plait_request *r);

/* End it with this error instead of beginning it. */
void plait_request_drop(struct plait_request *r, enum plait_status status);

/* Initialise a new comm; comm->run is there. */
void plait_requests_prepare(struct plait_comm *comm);

/* One turn of the comm's collectives; see struct plait_drive. True: something moved. */
bool plait_requests_turn(struct plait_comm *comm, bool rarely);
uint32_t plait_requests_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);

/*
 * With the comm's lock held. end: this request has ended. fail: all have, as the comm has failed. tell: the last act of
 * a turn, tells their takers. Once none is pending, takers may touch the comm without the lock.
 */
void plait_request_end(struct plait_request *r, enum plait_status status);
void plait_requests_fail(struct plait_comm *comm, enum plait_status status);
void plait_requests_tell(struct plait_comm *comm);

/* await: until it has ended, without taking it. take: its result; frees it unless persistent, as the last access. */
void plait_request_await(struct plait_request *r);
enum plait_status plait_request_take(struct plait_request **r);

/* Interrupt the wait for it: unless it has ended, its comm fails. Any thread may call this. */
void plait_request_interrupt(struct plait_request *r);

/* Its comm, locked; NULL: the comm is destroyed, or another thread holds the lock. */
struct plait_comm *plait_request_lock(const struct plait_request *r);

/* It has no holder any more: keep it as a spare, or free it if its comm is destroyed. */
void plait_request_give_back(struct plait_request *r);

/* Its stream takes it; a persistent one stays for its holder. */
enum plait_status plait_request_pass(struct plait_request *r);

/* Teardown of a comm. finish: wait for pending requests. forget: free requests without a holder, detach the rest. */
void plait_requests_finish(struct plait_comm *comm);
void plait_requests_forget(struct plait_comm *comm);

#endif
