/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room request: pending operations of a communicator.
 *
 * A request is taken once, when it has ended: by its holder (call->request), or by the blocking call or group that
 * waits for it. Collectives of a communicator run one after the other, in the order of the calls. request.c also
 * has the group that a thread has open.
 *
 * The room promises: a request ends exactly once, with its own status, also when its communicator fails or is
 * destroyed meanwhile.
 *
 * It begins messages through the communicator's struct plait_drive and does not know how they travel.
 */
#ifndef PLAIT_LIB_REQUEST_REQUEST_H
#define PLAIT_LIB_REQUEST_REQUEST_H

#include <plait/group.h>
#include <plait/request.h>

#include "base/status.h"
#include "operation/operation.h"

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
    double deadline; /* seconds; 0: the comm's */
    const struct plait_space *space;
    struct plait_target target; /* on which the work is put */
};

/*
 * What a request is doing. In brackets: states that only some requests go through.
 *
 *     FREE -> IDLE -> [GROUPED] -> QUEUED -> RUNNING -> [ISSUED] -> ENDED -> FREE
 *              ^                                                      |
 *              '---------- persistent: its result was taken ----------'
 *
 * A message stays QUEUED until it ends. An error ends a request from any state after IDLE.
 */
enum plait_request_state {
    PLAIT_REQUEST_FREE,    /* in a free list of its comm */
    PLAIT_REQUEST_IDLE,    /* persistent: not started, or its result was taken; others: about to be queued */
    PLAIT_REQUEST_GROUPED, /* called in a group that has not ended */
    PLAIT_REQUEST_QUEUED,  /* in its queue; it may run */
    PLAIT_REQUEST_RUNNING, /* a collective: the comm's operation in progress */
    PLAIT_REQUEST_ISSUED,  /* all of it is on its queue, and its mark is not passed */
    PLAIT_REQUEST_ENDED,   /* `status` is the result, for its taker */
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
    enum plait_status status;
    bool held;           /* the caller has it (call->request) and takes its result; else the call or the group */
    bool persistent;     /* its holder starts it again and again: taking it does not free it */
    bool on_stream;      /* its queue is the caller's stream: the call returns when all of it is there */
    bool until_executed; /* of a queued space: it ends when its queue has executed it, else when it is issued */
    const struct plait_space *space;
    uint32_t mark; /* ISSUED: behind its work */

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

/* The queue on which its work is put; NULL: it is not of a queued space. */
static inline struct plait_queue *plait_request_queue(const struct plait_request *r)
{
    return r->kind == PLAIT_REQUEST_COLLECTIVE ? r->job.queue : r->message.target.queue;
}

/* Append it to a list by `next`. *end is set with the first one. */
static inline void plait_request_append(struct plait_request **first, struct plait_request ***end,
                                        struct plait_request *r)
{
    if (*first == NULL)
        *end = first;
    r->next = NULL;
    **end = r;
    *end = &r->next;
}

/* ---- The open group of this thread, if it has one -------------------------------------------------- */

/* Collect errors of several calls: the first status, and a line for each cause. A comm that fails ends many calls. */
void plait_collect_error(struct plait_error *e, enum plait_status status, const char *text);

struct plait_group {
    unsigned depth;
    struct plait_request *first, **end;
    struct plait_creation *creations, **last_creation; /* of comms; run when the group ends */
    struct plait_error refused;                        /* of its calls that were refused */
};

extern _Thread_local struct plait_group plait_group; /* this thread's */
extern atomic_bool plait_grouped; /* some thread has ever opened one; false: no thread looks for its own */

static inline bool plait_in_group(void)
{
    return atomic_load_explicit(&plait_grouped, memory_order_relaxed) && plait_group.depth > 0;
}

/* For calls that a group cannot defer. Returns `status`, or an error while a group is open. */
enum plait_status plait_not_in_group(enum plait_status status, const char *call);

/* Add a request to this thread's open group. */
void plait_group_add(struct plait_request *r);

/* A call ends with this error before it began; an open group will not begin either. Returns `status`. */
enum plait_status plait_refuse(enum plait_status status);

/* ---- Requests ------------------------------------------------------------------------------------------------ */

/* Must this call be queued? Operations of the comm are pending, a group is open, or it has a request. */
static inline bool plait_must_queue(const struct plait_comm *comm, const struct plait_call *call)
{
    return atomic_load_explicit(&comm->pending, memory_order_acquire) > 0 || plait_in_group() ||
           (call != NULL && call->request != NULL);
}

/* A request for an operation of the comm; NULL: out of memory. Its state is IDLE. */
struct plait_request *plait_request_get(struct plait_comm *comm);

/*
 * Queue comm->last, or, when `status` is an error, end the call with it. The caller holds the comm's lock, and this
 * releases it. A blocking call outside groups waits.
 */
enum plait_status plait_request_collective(struct plait_comm *comm, const struct plait_args *a,
                                           const struct plait_call *call, enum plait_status status);

/* The same for a message, whose request has kind, message and space. */
enum plait_status plait_request_dispatch(struct plait_request *r, const struct plait_call *call);

/*
 * Begin a request, or add it to the open group. Releases the comm's lock. Without a holder it waits for the request's
 * end; with one only until its stream has all of it.
 */
enum plait_status plait_request_launch(struct plait_request *r);

static inline bool plait_request_has_ended(const struct plait_request *r)
{
    return plait_request_state(r) == PLAIT_REQUEST_ENDED;
}

/* Put it into its queue; the comm's lock is held. It may end and be taken before this returns; r->comm stays. */
void plait_request_begin(struct plait_request *r);

/*
 * End it, whatever it is, with the comm's lock held. Its taker may have it at once if nothing is pending in the comm,
 * as then only the calling thread is there; else from plait_requests_notify() on.
 */
void plait_request_end(struct plait_request *r, enum plait_status status);

/* End it with this error instead of beginning it. */
void plait_request_drop(struct plait_request *r, enum plait_status status);

/* The last act of a turn: hand ended requests to their takers. These need no lock once nothing is pending. */
void plait_requests_notify(struct plait_comm *comm);

/* The comm has failed: end all its requests. */
void plait_requests_fail(struct plait_comm *comm, enum plait_status status);

/* One turn of the comm's collectives; see struct plait_drive. True: something moved. */
bool plait_requests_turn(struct plait_comm *comm, bool rarely);
uint32_t plait_requests_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);

/* Is a collective in progress? */
static inline bool plait_requests_run(const struct plait_comm *comm)
{
    return comm->first != NULL && plait_request_state(comm->first) >= PLAIT_REQUEST_RUNNING;
}

/* Its result; frees it unless persistent, as the last access. */
enum plait_status plait_request_take(struct plait_request **r);

/* Interrupt the wait for it: unless it has ended, its comm fails. Any thread may call this. */
void plait_request_interrupt(void *request);

/* Nobody needs it any more: to a free list, or free it if its comm is destroyed. */
void plait_request_give_back(struct plait_request *r);

/* Teardown of a comm. finish: wait for pending requests. forget: free requests without a holder, detach the rest. */
void plait_requests_finish(struct plait_comm *comm);
void plait_requests_forget(struct plait_comm *comm);

/* ---- Work on queues (request_turn.c) ----------------------------------------------------------------------- */

/*
 * When all of an operation is on its queue, a request keeps its mark, and ends when that is passed. Meanwhile it is in
 * the comm's list of issued requests, and later operations begin. Where a queue only records, as in a graph capture, a
 * request ends when its operation is recorded.
 *
 * mark: all of it is on its queue. False: the queue only records (capture). withdraw: stop its wait for its mark, if
 * any; it is no longer pending then. Both need the comm's lock.
 */
bool plait_request_mark(struct plait_request *r);
void plait_request_withdraw(struct plait_request *r);

/* A wait for work on a queue; it awaits no rank. */
void plait_queue_wait_init(struct plait_comm *comm, struct plait_wait *w);

/* Wait until all of the request is on its queue, or it has ended without. */
void plait_request_await_issued(struct plait_request *r);

#endif
