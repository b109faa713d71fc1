/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room elastic: ranks that train on their own and are pulled to a common centre.
 *
 * Ranks exchange with the centre in one of two modes. All workers take part in collectives (sync.c), or each worker
 * talks to servers over a communicator per pair (worker.c, server.c). pass.c is the arithmetic.
 *
 * The room promises: a worker that dies or stops does not disturb the others. The centre is the one that the papers
 * define (docs/elastic.md), bit for bit in the synchronous modes.
 *
 * It uses communicators, messages and requests as a program would. It knows one thing more: a rank of the same host
 * reads library memory of another in place.
 */
#ifndef PLAIT_LIB_ELASTIC_ELASTIC_H
#define PLAIT_LIB_ELASTIC_ELASTIC_H

#include <plait/elastic.h>
#include <plait/request.h>

#include "base/status.h"
#include "call/call.h"
#include "comm/comm.h"
#include "failure/failure.h"
#include "operation/operation.h"
#include "reduce/reduce.h"
#include "request/request.h"

#include <plait/plan.h>

#include <stdatomic.h>

struct plait_elastic;

/* The functions of one exchange mode. start() and finish() together are one exchange of the whole vector. */
struct plait_exchanger {
    enum plait_status (*prepare)(struct plait_elastic *e);
    enum plait_status (*start)(struct plait_elastic *e);
    enum plait_status (*finish)(struct plait_elastic *e);
    enum plait_status (*read)(struct plait_elastic *e, float *out); /* the centre */
    void (*leave)(struct plait_elastic *e);                         /* nothing in flight; maybe half prepared */
};
extern const struct plait_exchanger plait_elastic_sync, plait_elastic_served;

struct plait_extent { /* elements of the vector */
    size_t start, count;
};

/* The k-th of n equal parts; the last ones may be shorter. Parts begin at cache lines. */
struct plait_extent plait_elastic_part(size_t count, uint32_t n, uint32_t k);

/*
 * Control message. A worker sets kind, pull and at; a server's answer sets all.
 *
 * `at` is where the sender's weights or answer are to be read in place, as an offset in its arena; 0: they are
 * messages. Before a reader uses what it has read, it probes the comm for failures: a sender that gives up fails the
 * comm first, and only then writes that memory again.
 */
enum plait_message_kind { PLAIT_MESSAGE_EXCHANGE, PLAIT_MESSAGE_READ, PLAIT_MESSAGE_LEAVE };
struct plait_elastic_message {
    uint32_t kind;
    uint32_t workers; /* workers alive */
    uint64_t behind;  /* updates by others since its last exchange */
    double pull;
    uint64_t at;
};

enum { PLAIT_PAIR_WORKER, PLAIT_PAIR_SERVER }; /* ranks of a worker-server comm */

struct plait_pair_end { /* one end of a worker-server comm; a worker has [nserver], a server [nworker] */
    struct plait_comm *comm;
    struct plait_request *control; /* receives control messages; persistent */
    struct plait_request *data;    /* receives weights or the answer */
    struct plait_request *sent;
    struct plait_elastic_message said, heard;
    struct plait_extent part; /* the server's part of the vector */
    void *slot;               /* [part.count] floats: received; a server's answer */
    uint64_t at;              /* worker: of its part of the weights; see the message */

    /* Server: */
    uint64_t seen; /* `updates` after its last exchange */
    bool receives; /* awaits `data`, not `control` */
    bool asks;     /* the worker has asked for an exchange, which has not begun */
    bool gone;
};

struct plait_elastic {
    struct plait_elastic_options options;
    const struct plait_exchanger *exchanger;
    char name[64], algorithm[PLAIT_MAX_SPEC];
    struct plait_comm *comm;
    const struct plait_kernels *kernels;
    uint32_t rank, nrank, nworker, nserver;
    bool serves;    /* this rank */
    float *weights; /* [count] */
    size_t count;
    float *velocity; /* [count] momenta, which the weights lose; NULL before the first step with momentum */
    uint64_t calls;  /* calls of exchange or start */
    bool started, exchanges;
    struct plait_error failure; /* the first */
    struct plait_elastic_counts counts;

    /* The centre, in library memory. sync.c: [count], whole, as last updated or received; a server: its part. */
    float *centre;
    struct plait_extent own; /* the part that this rank updates */

    /* sync.c: */
    void *sums, *differences; /* library memory, in the payload's type; differences is NULL for float32 */
    float pull;               /* of the current exchange */
    struct plait_request *broadcast, *reduce;

    /* worker.c, server.c: */
    struct plait_pair_end *ends;
    _Atomic uint32_t alive, left, died;           /* server: number of workers */
    uint32_t turn;                                /* server, mode original: the next worker */
    _Atomic uint64_t updates, behind, behind_max; /* server: of its part */
    _Atomic double forces, last_pull, movement;
};

/* ---- elastic.c */

/* May this rank make `call` now? Every call but creation and destruction begins with this. */
enum plait_elastic_role { PLAIT_ELASTIC_WORKER, PLAIT_ELASTIC_SERVER, PLAIT_ELASTIC_BOTH };
enum plait_status plait_elastic_enter(const struct plait_elastic *e, const char *call, enum plait_elastic_role role);

static inline struct plait_call plait_elastic_call(struct plait_request **request, double deadline)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.request = request;
    call.deadline = deadline;
    return call;
}

/*
 * ---- pass.c: the arithmetic, one pass over memory each. w are weights, c the centre, a the pull. All is float32,
 * rounded after every operation. Differences that are sent are rounded to the payload's type.
 */

/* d = w - c in the payload's type, clamped so that a sum of `summed` of them is finite. d may begin where w does. */
void plait_elastic_subtract(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                            const float *c, size_t n, uint32_t summed);

/* x = x + a d, for the centre. With -a for a worker's weights: it rounds as w - a d does. */
void plait_elastic_add(const struct plait_kernels *k, enum plait_dtype payload, float *x, const void *d, size_t n,
                       float a);

/* w = w - a (w - c), then c = c + a (s - p c); s is the sum of the weights of p workers. NULL: c stays. */
void plait_elastic_meet(float *w, float *c, const float *s, size_t n, float a, float p);

/* to = from + a (w - c), the difference rounded as above. `to` may be `from`, or both may be w. */
void plait_elastic_move(const struct plait_kernels *k, enum plait_dtype payload, float *to, const float *from,
                        const float *w, const float *c, size_t n, float a);

/* Hogwild: d = w - c and c = c + a d, by many threads at once without locks. Returns the sum of all a d. */
double plait_elastic_serve_unlocked(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                                    float *c, size_t n, float a);

#endif
