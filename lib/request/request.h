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

struct plait_message { /* a message and how far it is */
    char *data;
    size_t count, bytes;
    enum plait_dtype type;
    uint32_t peer;
    uint64_t number; /* among those to, or from, this peer */
    uint64_t nslice; /* slices, 1 at least; of PLAIT_MESSAGE_SLICE bytes, unless there is only one */
    uint64_t slice;  /* next to be offered or taken */
    uint32_t last;   /* transport's number of its last slice, once all are offered */
    bool in_place;   /* the receiver reads it in place */
    uint64_t place;  /* in the ring; 0: it was never first in its queue */
    uint64_t began;  /* nanoseconds; 0: not known */
    double deadline; /* seconds; 0: the comm's */
    const struct plait_space *space;
    struct plait_queue *queue; /* of a queued space, on which the work is put; else NULL */
    uint64_t capture;          /* graph capture that work on the queue goes into; 0: none */
};

/*
 * What a request is doing. In brackets: states that only some requests go through.
 *
 *     FREE -> IDLE -> [GROUPED] -> [HELD] -> QUEUED -> RUNNING -> [ISSUED] -> [FINISHED] -> ENDED -> FREE
 *              ^ |                                        ^                                  |
 *              | '---------------> [LAZY] ----------------'                                  |
 *              '--------------------- persistent: its result was taken ----------------------'
 *
 * A message stays QUEUED until it ends. An error ends a request from any state after IDLE.
 */
enum plait_request_state {
    PLAIT_REQUEST_FREE,     /* in a free list of its comm */
    PLAIT_REQUEST_IDLE,     /* persistent: not started, or its result was taken; others: about to be queued */
    PLAIT_REQUEST_GROUPED,  /* called in a group that has not ended */
    PLAIT_REQUEST_HELD,     /* in its queue, but its host stream has not reached it */
    PLAIT_REQUEST_QUEUED,   /* in its queue; it may run */
    PLAIT_REQUEST_LAZY,     /* it runs, but no thread drives it before its holder waits or its comm is called */
    PLAIT_REQUEST_RUNNING,  /* a collective: the comm's operation in progress */
    PLAIT_REQUEST_ISSUED,   /* all of it is on its device queue, with an event behind it that is not over */
    PLAIT_REQUEST_FINISHED, /* the operation is over, but its host stream has not taken note */
    PLAIT_REQUEST_ENDED,    /* `status` is the result, for its taker */
};

/* Who waits for its end and takes it. */
enum plait_taker {
    PLAIT_TAKER_CALL,   /* the blocking call, or the group */
    PLAIT_TAKER_HOLDER, /* who has call->request */
    PLAIT_TAKER_STREAM, /* its host stream */
};

/*
 * One thread may take a request while another destroys its comm. So one lock of this process (request.c) protects
 * r->comm and the comm's lists `requests` and `returned_requests`. This lock nests inside a comm's lock.
 */
struct plait_request {
    struct plait_comm *comm; /* NULL: destroyed, and the operation with it */
    uint32_t generation;     /* the comm's */
    uint32_t spins;          /* turns before a waiting thread yields */
    struct plait_request *next, *next_of_group, *next_of_all;
    enum plait_request_kind kind;
    _Atomic(enum plait_request_state) state;
    enum plait_taker taker;
    enum plait_status status;
    bool persistent;             /* its holder starts it again and again: taking it does not free it */
    bool until_executed;         /* on a device: it ends when the queue has executed it, else when it is issued */
    struct plait_stream *stream; /* of the call; a host's must reach it first; NULL: none */
    struct plait_queue *queue;   /* device queue on which it runs (device_request.h); NULL: on the host */
    struct plait_event *event;   /* set behind it there; NULL: it never had one */
    struct plait_item item;

    struct plait_job job;
    char scalar[8]; /* target of job.scale, if the scalar was read at the call */
    size_t *sizes;  /* [4][nrank] targets of job.sizes; NULL before its first v-form */

    struct plait_message message;
};

static inline enum plait_request_state plait_request_state(const struct plait_request *r)
{
    return atomic_load_explicit(&r->state, memory_order_acquire);
}

static inline void plait_request_set_state(struct plait_request *r, enum plait_request_state state)
{
    atomic_store_explicit(&r->state, state, memory_order_release);
}

static inline bool plait_request_is_on_host_stream(const struct plait_request *r)
{
    return r->stream != NULL && r->queue == NULL;
}

/* Its queue is the caller's stream: the call returns when all of it is there. */
static inline bool plait_request_is_on_device_stream(const struct plait_request *r)
{
    return r->stream != NULL && r->queue != NULL;
}

/* Must this call be queued? Operations of the comm are pending, a group is open, or it has a request or a stream. */
static inline bool plait_must_queue(const struct plait_comm *comm, const struct plait_call *call)
{
    return atomic_load_explicit(&comm->pending, memory_order_acquire) > 0 || plait_in_group() ||
           (call != NULL && (call->request != NULL || call->stream != NULL));
}

/* A request for an operation of the comm; NULL: out of memory. Its state is IDLE. */
struct plait_request *plait_request_get(struct plait_comm *comm);

/*
 * Queue a collective, or, when `status` is an error, end the call with it. The caller holds the comm's lock, and this
 * releases it. job: o, in, out, sizes, queue are set. A blocking call outside groups waits.
 */
enum plait_status plait_request_collective(struct plait_comm *comm, const struct plait_job *job,
                                           const struct plait_call *call, enum plait_status status);

/* The same for a message, whose request has kind, message and queue. */
enum plait_status plait_request_dispatch(struct plait_request *r, const struct plait_call *call);

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

    while (r != NULL && plait_request_state(r) == PLAIT_REQUEST_HELD)
        r = r->next;
    return r != NULL || !first->comm->leaves ? r : first;
}

/* Stall report for `call`, which this rank's own stream has not reached. Returns this rank + 1. */
uint32_t plait_request_blame_stream(const struct plait_comm *comm, const char *call, char *text, size_t room);

static inline bool plait_request_has_ended(const struct plait_request *r)
{
    return plait_request_state(r) == PLAIT_REQUEST_ENDED;
}

/* Its state is that of a request in its queue. */
static inline void plait_request_enter(struct plait_request *r)
{
    plait_request_set_state(r, plait_request_is_on_host_stream(r) ? PLAIT_REQUEST_HELD : PLAIT_REQUEST_QUEUED);
    r->next = NULL;
}

/* Put it into its queue; the comm's lock is held. It may end and be taken before this returns; r->comm stays. */
void plait_request_begin(struct plait_request *r);

/* plait_request_begin() and a first turn. Releases the lock. */
void plait_request_run(struct plait_request *r);

/*
 * End it, whatever it is, with the comm's lock held. Its taker may have it at once if nothing is pending in the comm,
 * as then only the calling thread is there; else from plait_requests_notify() on.
 */
void plait_request_end(struct plait_request *r, enum plait_status status);

/* End it with this error instead of beginning it. Its host stream does not get it: the caller takes it. */
void plait_request_drop(struct plait_request *r, enum plait_status status);

/* The last act of a turn: hand ended requests to their takers. These need no lock once nothing is pending. */
void plait_requests_notify(struct plait_comm *comm);

/* The comm has failed: end all its requests. */
void plait_requests_fail(struct plait_comm *comm, enum plait_status status);

/* Callbacks of a wait for this rank's own streams: no rank is awaited, and nothing is written into the ring. */
uint32_t plait_await_no_rank(const void *context, uint32_t *ranks, uint32_t most);
void plait_note_nothing(const void *context, uint64_t now);

/* Initialise a new comm; comm->run is there. */
void plait_requests_prepare(struct plait_comm *comm);

/* One turn of the comm's collectives; see struct plait_drive. True: something moved. */
bool plait_requests_turn(struct plait_comm *comm, bool rarely);
uint32_t plait_requests_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);

/* Is a collective in progress? */
static inline bool plait_requests_run(const struct plait_comm *comm)
{
    return comm->first != NULL && plait_request_state(comm->first) >= PLAIT_REQUEST_LAZY;
}

/* Its result; frees it unless persistent, as the last access. */
enum plait_status plait_request_take(struct plait_request **r);

/* For its host stream. reach: it may begin. await: until the operation is over. pass: take it, or let its holder. */
void plait_request_reach(struct plait_request *r);
void plait_request_await(struct plait_request *r);
enum plait_status plait_request_pass(struct plait_request *r);

/* Interrupt the wait for it: unless it has ended, its comm fails. Any thread may call this. */
void plait_request_interrupt(struct plait_request *r);

/* Its comm, locked; NULL: the comm is destroyed, or another thread holds the lock. */
struct plait_comm *plait_request_lock(const struct plait_request *r);

/* Nobody needs it any more: to a free list, or free it if its comm is destroyed. */
void plait_request_give_back(struct plait_request *r);

/* Teardown of a comm. finish: wait for pending requests. forget: free requests without a holder, detach the rest. */
void plait_requests_finish(struct plait_comm *comm);
void plait_requests_forget(struct plait_comm *comm);

#endif
