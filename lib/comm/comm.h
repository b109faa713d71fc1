/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room comm: what a communicator is while it runs.
 *
 * A rank has a control block in its arena (struct plait_control): how far it is, what it offers, why it has failed.
 * The others map it read-only. struct plait_peer is another rank as this one sees it. struct plait_comm is one rank's
 * end of a communicator. record.h is the ring of a rank's last operations, port.h a rank's place in a network,
 * doorbells.h how a rank that sleeps is woken.
 *
 * The room promises: every field that others read has one writer, its owner. Fields that are written at different
 * times lie in different cache lines.
 *
 * It does not know how operations run, who waits, or how a communicator is created. What the rooms above do with one
 * they leave here as callbacks: struct plait_drive, struct plait_owner.
 */
#ifndef PLAIT_LIB_COMM_COMM_H
#define PLAIT_LIB_COMM_COMM_H

#include <plait/comm.h>
#include <plait/log.h>
#include <plait/plan.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/hash.h"
#include "bootstrap/bootstrap.h"
#include "lend.h"
#include "memory/arena.h"
#include "message_ring.h"
#include "record.h"
#include "reduce/reduce.h"
#include "transport/transport.h"
#include "trial.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define PLAIT_LINE         64 /* bytes of a cache line, and of everything that must not share one */
#define PLAIT_ROUND_UP(n)  (((n) + PLAIT_LINE - 1) & ~(size_t)(PLAIT_LINE - 1)) /* to whole lines */
#define PLAIT_WINDOW       16    /* messages on the way from one rank to another */
#define PLAIT_MAILBOX_DATA 352   /* payload that travels in the lines that offer it */
#define PLAIT_EAGER_MAX    32768 /* bytes that a rank can give without the engine */
#define PLAIT_EAGER_RANKS  64    /* ranks that all read each other */
#define PLAIT_NFLIGHT      4     /* slices in flight */

/* Fetch lines that are about to be written. */
static inline void plait_expect(const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PLAIT_LINE)
        __builtin_prefetch((const char *)data + i, 1);
}

/*
 * 0 leaves out fingerprints, the ring of operations and every look for a difference, a death or silence. For tests
 * only: to count what they cost (tests/price.c), and to see that the fault campaign reports what it then must find. A
 * library without them lies and hangs.
 */
#ifndef PLAIT_GUARDS
#define PLAIT_GUARDS 1
#endif

/* An offered message: three pairs of lines; processors fetch the second one of a pair with the first. */
struct plait_mailbox {
    _Alignas(2 * PLAIT_LINE) _Atomic uint64_t word; /* fingerprint << 32 | number + 1; written last */
    uint64_t address; /* offset in the sender's arena; within one process, the address itself */
    uint64_t bytes;
    uint64_t note;                    /* the sender's */
    uint8_t data[PLAIT_MAILBOX_DATA]; /* of messages that fit; address points here then */
};
_Static_assert(sizeof(struct plait_mailbox) == 6 * PLAIT_LINE, "pairs of lines");

#define PLAIT_BESIDE_WORD 48   /* bytes that fit into its line */
#define PLAIT_EAGER_SOME  1024 /* bytes that fit into a small slot */
#define PLAIT_EAGER_SMALL 16   /* small slots, used in turn */
#define PLAIT_EAGER_LARGE 2    /* large ones; both powers of two */
#define PLAIT_LIES_HERE   0    /* in its slot, */
#define PLAIT_LIES_PAST   1    /* where it was written past the caches */

struct plait_ranks { /* first, first + 1 .., n of them, around the comm */
    uint32_t first, n;
};

/*
 * A slot of what a rank gives in an eager operation. What does not fit beside the word lies pages away from it:
 * processors learn that who misses a word reads what is near it then, and fetch that while it is still written.
 */
struct plait_given {
    _Alignas(PLAIT_LINE) _Atomic uint64_t word; /* fingerprint << 32 | sequence; written last */
    struct plait_ranks to;                      /* who takes it; for its owner */
    union {
        uint8_t few[PLAIT_BESIDE_WORD];
        int64_t lies; /* of what is long: where, from the start of its owner's block; or PLAIT_LIES_HERE, or _PAST */
    };
};

/*
 * A rank's control block of one comm, in its arena. Only the owner writes it; others read. Lines
 * that are written at different times are apart. mailboxes and acks follow, [PLAIT_NMAILBOX][nrank][PLAIT_WINDOW] each.
 */
struct plait_control {
    _Alignas(PLAIT_LINE) struct plait_shown shown;
    _Atomic uint64_t id;       /* random, equal in the whole comm; 0 before all have met and once the block is freed */
    uint32_t rank, nrank;      /* nrank is 0 once the block is freed */
    _Atomic uint32_t departed; /* destroy was called; `done` is final */
    char name[64];
    _Atomic uint32_t quiet;  /* it leaves, and nothing of this rank's is under way on a device any more */
    _Atomic uint64_t device; /* where in its arena the lines of its device are (device_comm.h); 0: it has used none */
    _Atomic uint32_t reads;  /* this rank can read the memory of all other processes through the kernel, and does */
    /* + 1: where this rank began its last operation; 0: not known. A hint, kept where ranks share processors */
    _Atomic uint32_t processor;
    _Atomic uint32_t away; /* and it waits, and has given up that processor meanwhile */

    _Alignas(PLAIT_LINE) _Atomic uint64_t done; /* operations completed */
    /*
     * The first of them of which this rank does not know that all have called it alike; 0: it knows of all. Before done
     */
    _Atomic uint64_t unheard;
    _Atomic double seen;   /* clock when this rank last looked around, which it does while it waits */
    _Atomic uint64_t took; /* the last eager operation in which others lent what they gave, all of which was read */

    _Alignas(PLAIT_LINE) _Atomic uint32_t asleep;   /* waits on the others' doorbells */
    _Alignas(PLAIT_LINE) _Atomic uint32_t doorbell; /* futex; counts wakes by this rank */

    _Alignas(PLAIT_LINE) _Atomic int32_t failed; /* status of the comm on this rank; text first */
    _Atomic uint32_t failing;                    /* somebody writes the text */
    uint32_t culprit;                            /* rank + 1; 0: nobody in particular. Written with the text */
    char failure[512];
    _Atomic uint32_t noticed;   /* it is out of its operation, or leaves without another look at what others offer */
    _Atomic uint32_t receiving; /* it may read what ranks of its process, or GPUs, have lent to it for a message */

    _Alignas(PLAIT_LINE) struct plait_ring ring;
    struct plait_message_ring messages;
    struct plait_given small[PLAIT_EAGER_SMALL], large[PLAIT_EAGER_LARGE];
    _Alignas(PLAIT_LINE) struct plait_copies copies[PLAIT_LEND_ROWS];
    _Alignas(PLAIT_LINE) uint8_t small_data[PLAIT_EAGER_SMALL][PLAIT_EAGER_SOME];
    uint8_t large_data[PLAIT_EAGER_LARGE][PLAIT_EAGER_MAX];
    struct plait_mailbox mailbox[];
};

static inline size_t plait_control_bytes(uint32_t nrank)
{
    return sizeof(struct plait_control) +
           PLAIT_NMAILBOX * (size_t)nrank * PLAIT_WINDOW * (sizeof(struct plait_mailbox) + sizeof(_Atomic uint32_t));
}

/* What rank `of`'s owner has offered to rank `to`, and acknowledged to rank `to` (number + 1 of the last per slot). */
static inline struct plait_mailbox *plait_control_mailbox(const struct plait_control *of, enum plait_channel channel,
                                                          uint32_t nrank, uint32_t to)
{
    return (struct plait_mailbox *)(uintptr_t)&of->mailbox[((size_t)channel * nrank + to) * PLAIT_WINDOW];
}

static inline _Atomic uint32_t *plait_control_ack(const struct plait_control *of, enum plait_channel channel,
                                                  uint32_t nrank, uint32_t to)
{
    return (_Atomic uint32_t *)(uintptr_t)&of->mailbox[PLAIT_NMAILBOX * (size_t)nrank * PLAIT_WINDOW] +
           ((size_t)channel * nrank + to) * PLAIT_WINDOW;
}

struct plait_peer { /* another rank (or this one), as this rank sees it */
    const struct plait_control *control;
    struct plait_process *process;           /* NULL: on another host; then */
    struct plait_replica *replica;           /* `control` is this one's; else NULL */
    struct plait_link *link[PLAIT_NCHANNEL]; /* made at the first message; NULL for this rank */
    struct plait_lending lending;
    double waited;     /* seconds of long waits for it */
    uint64_t finished; /* operations, as last looked up for eager.c */
};

struct plait_unread { /* a message that came and could not be read */
    uint32_t rank;    /* whose it is */
    int error;        /* errno; 0: there is none */
    uint64_t address; /* in its memory */
    const void *to;   /* here */
    size_t bytes;
};

struct plait_op_plan;
struct plait_prog;
struct plait_flight;
struct plait_run;

/* Of what all ranks of a call must agree on. */
static inline uint32_t plait_fingerprint(const uint64_t *fields, size_t bytes)
{
    const uint64_t h = PLAIT_GUARDS ? plait_hash(PLAIT_HASH_START, fields, bytes) : 0;
    return (uint32_t)(h ^ h >> 32);
}

struct plait_tally { /* of one algorithm of one collective */
    struct plait_tally *next;
    struct plait_comm_count count;
};

/* What begins a comm's operations in the place of its callers: a fusion. It embeds this. */
struct plait_owner {
    const char *whose; /* "a fusion's; plait_fusion_destroy() ends both" */
    /* One turn, under the comm's lock. Something moved? */
    bool (*turn)(struct plait_owner *self, bool rarely);
    /*
     * What does this rank lack for the operation in progress, which it has not called? Nothing is written when nothing.
     */
    void (*excuse)(const struct plait_owner *self, uint32_t rank, char *text, size_t room);
};

struct plait_request;

/*
 * What goes on in a comm beside the operation in progress: pending collectives and messages, which are of rooms above
 * this one. All with the comm's lock held.
 */
struct plait_drive {
    /* One turn of everything. Something moved? rarely: the caller does not poll all the time. */
    bool (*turn)(struct plait_comm *comm, bool rarely);
    /* The ranks that are waited for, at most `most`. */
    uint32_t (*awaited)(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);
    void (*begin_message)(struct plait_request *r);
    void (*fail_messages)(struct plait_comm *comm, enum plait_status status); /* the comm has failed */
};

#define PLAIT_NOP_PLAN 256 /* operations remembered per comm; indexed by 8 bits of a hash */

struct plait_comm {
    uint32_t rank, nrank;
    uint32_t generation;   /* fork.h: in a forked child nothing else may be used */
    _Atomic uint32_t open; /* the same while it may be called; 0 before it is there, when finalized or suspended */
    _Atomic bool there;    /* it has been created */
    struct plait_async_creation *async_creation; /* of a comm that is created in the background; else NULL */
    struct plait_control *own;
    struct plait_peer *peers; /* [nrank] */
    struct plait_port *port;  /* its network (port.h); NULL: it has none */
    const struct plait_drive *drive;
    enum plait_status failed; /* sticky */
    bool told;                /* the log has the failure and the operations before it */

    _Atomic(const char *) inside; /* the call that a thread is in which works without the lock; or NULL */

    /* The fast path. */
    uint64_t sequence; /* of the operation in progress, or the last */
    uint64_t begun;    /* all ranks are known to have finished the operations before this one */
    struct plait_op_plan *last;
    uint64_t looked; /* operation after which the others' past calls were last looked at */

    struct plait_config config;
    const struct plait_kernels *kernels;
    char name[64];
    double deadline, warn;
    enum plait_log_level alarm; /* of the line that says its failure; who is there to see others die: a warning */
    /*
     * Of servers among themselves: seconds in which a rank that is waited for is to be seen once. While they wait they
     * look around every few turns, so one that is not seen is stopped or elsewhere. PLAIT_FOREVER: nothing depends on
     * it now. 0: another comm.
     */
    _Atomic double patience;
    struct plait_unique_id id_bytes; /* where its ranks met; zeroes: nowhere */
    double claim_seen;               /* when it was last asked whether another process claims this rank */
    struct plait_nodes nodes;        /* who shares one, and how hosts are reached; zeroes: all on one */
    uint32_t nshrink;                /* comms made of it by plait_comm_shrink() */
    uint32_t *members;               /* [nrank] of a comm that is made of it, meanwhile */
    size_t nown_algorithms;          /* of `algorithms`, those of the caller */
    bool progress;                   /* it asked for the progress thread */
    bool suspended, finalized;
    bool leaves;                   /* who leaves waits for what is pending */
    double limit;                  /* deadline that the operation in progress has of its own; 0: none */
    size_t cache, last_level;      /* bytes; rank 0's */
    size_t flight_bytes;           /* library memory of a flight, at least */
    struct plait_trials trials[2]; /* of what combines: [1] */
    bool reproducible;
    bool oversubscribed; /* more ranks of this comm here than processors */
    uint32_t apart;      /* turns of PLAIT_APART_SECONDS, where two, and no more, share one; else 0 */
    uint32_t crowded;    /* over a network: yields until it spins long again, see wait.h */
    bool cma;            /* all ranks read each other's memory */
    struct plait_unread unread;
    uint8_t ncopy[PLAIT_LEND_ROWS][PLAIT_NCOPYING]; /* that could be timed, see lend.h */
    enum plait_round round;
    uint32_t *node;                      /* [nrank] or NULL */
    const struct plait_alg **algorithms; /* the caller's, then the library's */

    void *scaled; /* [scaled_bytes] library memory for inputs of pre-multiplied sums */
    size_t scaled_bytes;
    size_t most_eager[PLAIT_NCOLL]; /* + 1: see plait_most_eager_block(); 0: not known yet */
    struct plait_slots *slots; /* of the last operation whose blocks differ in size (collv.c); NULL before the first */

    struct plait_op_plan **op_plans; /* [PLAIT_NOP_PLAN] by hash of the arguments; entries may be NULL */
    struct plait_prog *progs;
    struct plait_tally *tallies, **tallies_end;

    struct plait_run *run;        /* the operation in progress, or the last */
    struct plait_flight *flights; /* [PLAIT_NFLIGHT] */
    uint64_t next_flight;

    struct plait_device_comm *device; /* what it has on a device; NULL: nothing yet. When it has left, */
    struct plait_device_shown *shown; /* what others may still read of that */
    struct plait_queue *own_queue;    /* of a device, for calls without a stream; NULL: there was none */

    struct plait_remote *remote; /* it spans hosts (remote/remote.h); else NULL */
    struct pollfd *processes;    /* one per other process, for deaths */
    uint32_t nprocess;

    struct plait_comm_stats stats;
    _Atomic uint64_t wakes; /* for stats: abort rings from other threads */
    uint64_t id;

    /* Pending operations (progress.h, request.h), under the lock. */
    pthread_mutex_t lock;
    struct plait_comm *next_active;
    atomic_bool listed;                     /* among the active ones; changes under their lock */
    _Atomic uint32_t pending;               /* requests not ended; 0: the comm is only touched by who calls it */
    struct plait_request *first, **end;     /* collectives, in the order of the calls */
    bool running;                           /* the first has begun: it is comm->run */
    struct plait_request *over;             /* ended in this turn */
    uint32_t let_go;                        /* others that were pending and are not from this turn on */
    struct plait_owner *owner;              /* whose comm it is; or NULL: the caller's */
    struct plait_request *requests, *spare; /* all; those that nobody uses */
    struct plait_request *kept;             /* the same, given back by calls that waited themselves */
    struct plait_messages *messages;        /* message.h; NULL before the first */

    struct plait_comm *next_torn_down; /* comm.c */
};

/*
 * Around a look at what this rank has counted, which other threads may change that run what is pending. The lock is not
 * taken, and false returned, in the log's callback, whose caller has it.
 */
bool plait_comm_look(const struct plait_comm *comm);
void plait_comm_looked(const struct plait_comm *comm, bool locked);

/* Is this a forked child, and the comm its parent's? */
static inline bool plait_comm_inherited(const struct plait_comm *comm)
{
    return comm->generation != plait_generation;
}

/* Is it still created in the background, or was that in vain? Then it has rank, nrank and name, and nothing else. */
static inline bool plait_comm_uncreated(const struct plait_comm *comm)
{
    return !atomic_load_explicit(&comm->there, memory_order_acquire);
}

/* May operations of this comm not be called: that, or not now? The error of `call` then. */
static inline bool plait_comm_closed(const struct plait_comm *comm)
{
    return __builtin_expect(atomic_load_explicit(&comm->open, memory_order_relaxed) != plait_generation, 0);
}
enum plait_status plait_comm_is_closed(const struct plait_comm *comm, const char *call);

/* Is a thread inside such a call? Then no other may call: the error of `call`. PLAIT_OK: none is. */
enum plait_status plait_comm_is_inside(const struct plait_comm *comm, const char *call);

#endif
