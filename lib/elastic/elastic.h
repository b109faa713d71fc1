/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room elastic: ranks that train on their own and are pulled to a common centre.
 *
 * There are two ways to exchange: collectives (sync.c), and servers with a communicator for each worker (pairs.c,
 * worker.c, server.c; council.c when there are several servers). pass.c has the arithmetic, state.c what is saved and
 * restored.
 *
 * The room promises: a worker that dies or stops ends its own part and no other. A centre is what the papers define
 * (docs/elastic.md), to the bit in the synchronous forms.
 *
 * It uses communicators, messages and requests as a program would.
 */
#ifndef PLAIT_LIB_ELASTIC_ELASTIC_H
#define PLAIT_LIB_ELASTIC_ELASTIC_H

#include <plait/elastic.h>
#include <plait/request.h>

#include "comm/comm.h"
#include "progress/wait.h"

struct plait_elastic;
struct plait_council;

/* How exchanges go. start() and finish() are one exchange of the whole. */
struct plait_elastic_way {
    enum plait_status (*prepare)(struct plait_elastic *e);
    enum plait_status (*start)(struct plait_elastic *e);
    enum plait_status (*finish)(struct plait_elastic *e);
    enum plait_status (*read)(struct plait_elastic *e, float *out); /* the centre */
    void (*leave)(struct plait_elastic *e);                         /* nothing is in flight; also half prepared */
};
extern const struct plait_elastic_way plait_elastic_sync, plait_elastic_served;

struct plait_extent { /* elements of the vector */
    size_t start, count;
};

/* The k-th of n equal parts; the last ones may be shorter. Parts begin at whole lines. */
struct plait_extent plait_elastic_part(size_t count, uint32_t n, uint32_t k);

/* What travels between a worker and a server. A worker's: kind, number, pull; a server's answer: all. */
enum plait_note_kind { PLAIT_NOTE_EXCHANGE, PLAIT_NOTE_READ, PLAIT_NOTE_LEAVE };
struct plait_note {
    uint32_t kind;
    uint32_t workers; /* alive */
    uint64_t number;  /* of the exchanges and reads of this worker, from 1 */
    uint64_t behind;  /* updates by others since its last exchange */
    double pull;
};
_Static_assert(sizeof(struct plait_note) <= PLAIT_MAILBOX_DATA, "it travels in one line");

/*
 * Where a worker says, in its arena, what it has asked all servers for: who finds it dead looks here, and all find the
 * same. number is written last.
 */
struct plait_offer {
    double pull;
    uint32_t kind;
    _Atomic uint64_t number;
};

/*
 * In a server's arena, after its slots: what its workers look at. A worker that gives up may write its weights again
 * only when `reads` is 0: the server sets it first and looks then whether the exchange is still offered, the worker
 * withdraws it first. It is set until the exchange is applied or dropped: so what all servers have stays readable.
 */
struct plait_desk {
    _Atomic uint32_t alive;   /* workers */
    _Atomic uint32_t turn;    /* original: worker that is next */
    _Atomic uint64_t reads[]; /* [nworker] exchange whose weights it has, or 0 */
};

struct plait_pair_end { /* of a comm of a worker and a server; worker: [nserver], server: [nworker] */
    struct plait_comm *comm;
    struct plait_request *note; /* receives what the other says; persistent */
    struct plait_request *data; /* weights, or what answers them, when they are messages */
    struct plait_request *sent;
    struct plait_note said, heard;
    struct plait_extent part; /* worker: the server's */
    char *slot;               /* server: its own; worker: mapped, or where the message lands */
    struct plait_desk *desk;  /* the server's; worker: only to read, NULL where messages are exchanged */

    /* Server: */
    const float *weights;            /* mapped; NULL: they are messages */
    const struct plait_offer *offer; /* the same */
    uint64_t served;                 /* number */
    uint64_t seen;                   /* updates at its last exchange */
    bool receives;                   /* what is awaited is data */
    bool asks;                       /* it has asked for an exchange, */
    bool waits;                      /* which is complete here and not yet applied; */
    bool told, granted;              /* the other servers have been told so; all have it (council.c) */
    bool gone;
};

struct plait_elastic {
    struct plait_elastic_options options;
    const struct plait_elastic_way *way;
    char name[64], algorithm[PLAIT_MAX_SPEC];
    struct plait_comm *comm;
    uint32_t nworker, nserver;
    bool serves;    /* this rank */
    float *weights; /* [count] */
    size_t count;
    float *velocity; /* [count] momenta; NULL before the first step that has them */
    uint64_t calls;  /* of exchange or start */
    bool begun;      /* an exchange was called: its centre is restored no more */
    bool started, exchanges;
    enum plait_status failed; /* sticky; with servers: */
    char failure[512];
    struct plait_elastic_counts counts;

    /* The centre: sync: [count] where the whole is, or was spread; a server: its part. Library memory. */
    float *centre;
    struct plait_extent own; /* what of it this rank updates */

    /* sync.c: */
    void *sums, *differences; /* library memory; of the payload's type, differences NULL if that is float32 */
    float pull;               /* of this exchange */
    struct plait_request *broadcast, *reduce, *gather;
    size_t *shard_counts;
    bool gathering;

    /* worker.c, server.c: */
    struct plait_pair_end *ends;
    bool mapped;     /* worker: all its servers read its weights in place */
    uint64_t number; /* worker: of its last exchange or read */
    float *offered;  /* worker: what they read: the weights, or a copy */
    char *memory;    /* worker: room for answers that are messages; server: the slots */
    struct plait_offer *offer;
    struct plait_council **councils;              /* server: of each of its threads; NULL: it is the only one */
    _Atomic uint32_t left, died;                  /* server: workers */
    _Atomic uint64_t updates, behind, behind_max; /* server: of its part of the centre */
    _Atomic double forces, last_pull, movement;
};

/* ---- options.c */
enum plait_status plait_elastic_check_options(const struct plait_elastic_options *o, const struct plait_comm *comm);
bool plait_elastic_has_servers(enum plait_elastic_mode mode);

/* Have all ranks the same? status is this rank's own so far; of one that failed every rank is told. */
enum plait_status plait_elastic_agree(const struct plait_elastic *e, struct plait_comm *comm, enum plait_status status);

/* Is it so on all ranks? Else PLAIT_ERR_MISMATCH with the values of two. */
enum plait_status plait_elastic_agree_on(struct plait_elastic *e, const char *call, const char *what, double value);

/* ---- elastic.c */

/* May `call` be made now, by this rank? Each call but creation and destruction begins so. */
enum plait_elastic_role { PLAIT_ELASTIC_WORKER, PLAIT_ELASTIC_SERVER, PLAIT_ELASTIC_BOTH };
enum plait_status plait_elastic_enter(const struct plait_elastic *e, const char *call, enum plait_elastic_role role);

/* The same, and no exchange is under way. */
enum plait_status plait_elastic_enter_idle(const struct plait_elastic *e, const char *call,
                                           enum plait_elastic_role role);

/*
 * The last error becomes that of a server, by its name; `why` follows: ", as ..", or nothing. What this server has told
 * of another one stays as it is.
 */
enum plait_status plait_elastic_blame(const struct plait_elastic *e, uint32_t server, const char *why,
                                      enum plait_status status);

/* ---- state.c: rank 0's `from` becomes the centre. */
enum plait_status plait_elastic_spread(struct plait_elastic *e, const float *from);

/* ---- pairs.c: comms of workers and servers, and where they see each other's memory. They are left by way->leave(). */
enum plait_status plait_elastic_pair(struct plait_elastic *e);
void plait_elastic_part_pairs(struct plait_elastic *e);

static inline uint32_t plait_elastic_nend(const struct plait_elastic *e)
{
    return e->serves ? e->nworker : e->nserver;
}

/* Threads that serve; each has every n-th worker. */
static inline uint32_t plait_elastic_nshift(const struct plait_elastic *e)
{
    return e->options.threads < e->nworker ? e->options.threads : e->nworker;
}

#endif
