/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room comm: what a communicator is while it runs.
 *
 * Each rank has a control block in its arena (struct plait_control): its progress, the messages that it offers, the
 * reason of a failure. The other ranks map the block read-only. struct plait_peer is another rank as this one sees it.
 * struct plait_comm is one rank's end of a communicator. record.h has the flight recorder, port.h a
 * rank's endpoint in a network. doorbells.h wakes ranks that sleep.
 *
 * The room promises: every field that others read has one writer, the owner of the block. Fields that are written at
 * different times lie in different cache lines.
 *
 * It does not know how operations run or wait, nor how a communicator is created. The rooms above register callbacks
 * for that: struct plait_drive, struct plait_owner.
 */
#ifndef PLAIT_LIB_COMM_COMM_H
#define PLAIT_LIB_COMM_COMM_H

#include <plait/comm.h>
#include <plait/log.h>
#include <plait/plan.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/hash.h"
#include "bootstrap/bootstrap.h"
#include "copy_mode.h"
#include "memory/arena.h"
#include "record.h"
#include "reduce/reduce.h"
#include "transport/transport.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define PLAIT_WINDOW       16    /* messages in flight from one rank to another, per channel */
#define PLAIT_MAILBOX_DATA 352   /* bytes of payload in the mailbox itself */
#define PLAIT_EAGER_MAX    32768 /* bytes that a rank can send on the eager path */
#define PLAIT_EAGER_RANKS  64    /* most ranks that all read each other */
#define PLAIT_NSLICE       4     /* slices in flight */

/*
 * 0 leaves out fingerprints, the ring of operations and every probe for a mismatch, a death or silence. For tests only:
 * they measure the cost of these guards (tests/price.c) and check that the fault campaign detects their absence. A
 * library without guards can return wrong results and hang.
 */
#ifndef PLAIT_GUARDS
#define PLAIT_GUARDS 1
#endif

/* A mailbox holds one offered message: three pairs of cache lines, as processors prefetch the second line of a pair. */
struct plait_mailbox {
    _Alignas(2 * PLAIT_LINE) _Atomic uint64_t word; /* fingerprint << 32 | message number + 1; written last */
    uint64_t address; /* offset in the sender's arena; within one process, the address itself */
    uint64_t bytes;
    uint64_t header_word;             /* the sender's */
    uint8_t data[PLAIT_MAILBOX_DATA]; /* the payload if it fits; address then points here */
};
_Static_assert(sizeof(struct plait_mailbox) == 6 * PLAIT_LINE, "pairs of lines");

#define PLAIT_BESIDE_WORD 48   /* bytes of data that fit into the cache line of the word */
#define PLAIT_EAGER_SOME  1024 /* bytes of data in a small slot */
#define PLAIT_EAGER_SMALL 16   /* small slots, used in turn */
#define PLAIT_EAGER_LARGE 2    /* large slots; both numbers are powers of two */
#define PLAIT_LIES_HERE   0    /* plait_eager_entry.lies: in its slot */

struct plait_ranks { /* n consecutive ranks from first, modulo nrank */
    uint32_t first, n;
};

/*
 * The header of an eager slot. Data that do not fit beside the word lie pages away from it: prefetchers learn that a
 * miss on a word is followed by reads nearby, and would fetch the data while the owner still writes them.
 */
struct plait_eager_entry {
    _Alignas(PLAIT_LINE) _Atomic uint64_t word; /* fingerprint << 32 | sequence; written last */
    struct plait_ranks to;                      /* the readers; used by the owner only */
    union {
        uint8_t few[PLAIT_BESIDE_WORD];
        int64_t lies; /* long data: offset from the owner's control block; or PLAIT_LIES_HERE */
    };
};

/*
 * A rank's control block of one comm, in the rank's arena. Only the owner writes it. Fields that are written at
 * different times are in different cache lines. Mailboxes and acks follow, [PLAIT_NMAILBOX][nrank][PLAIT_WINDOW] each.
 */
struct plait_control {
    _Alignas(PLAIT_LINE) struct plait_shown shown;
    _Atomic uint64_t id;  /* random, equal on all ranks; 0 until the rendezvous is over, and once the block is freed */
    uint32_t rank, nrank; /* nrank is 0 once the block is freed */
    _Atomic uint32_t departed; /* destroy was called; `done` is final */
    char name[64];
    _Atomic uint32_t quiet;  /* this rank leaves and has no work in progress on a device */
    _Atomic uint64_t device; /* offset in the arena of its device's flags (device_comm.h); 0: no device used */
    _Atomic uint64_t gpu;    /* equal on ranks that share a GPU; written after `device`; 0: no device used yet */
    _Atomic uint32_t reads;  /* this rank can use single copy (CMA) from all other processes */

    _Alignas(PLAIT_LINE) _Atomic uint64_t done; /* operations completed */
    /* The first operation not yet compared with all ranks' calls; 0: all are compared. Written before done */
    _Atomic uint64_t uncompared;
    _Atomic double seen;   /* clock of this rank's last probe of the others; it probes while it waits */
    _Atomic uint64_t took; /* last eager operation whose single-copy data this rank has finished reading */

    _Alignas(PLAIT_LINE) _Atomic uint32_t asleep;   /* this rank sleeps on the others' doorbells */
    _Alignas(PLAIT_LINE) _Atomic uint32_t doorbell; /* futex; counts wakes by this rank */

    _Alignas(PLAIT_LINE) _Atomic int32_t failed; /* status of the comm on this rank; written after the text */
    _Atomic uint32_t failing;                    /* a thread writes the text */
    uint32_t culprit;                            /* rank + 1; 0: no single rank. Written with the text */
    char failure[512];
    _Atomic uint32_t noticed;   /* this rank has left its operation, or leaves it without reading the others' data */
    _Atomic uint32_t receiving; /* it may read a message in place, from a rank of its process or a GPU */

    _Alignas(PLAIT_LINE) struct plait_ring ring;
    struct plait_eager_entry small[PLAIT_EAGER_SMALL], large[PLAIT_EAGER_LARGE];
    struct plait_awaited messages[PLAIT_NAWAITED];
    /* A replica of a control block ends here: only ranks of one host use the rest. */
    struct plait_calibration calibration;
    /* From a pair of cache lines on, as in a mailbox: readers fetch 2 KiB as 16 pairs, not 17. */
    _Alignas(2 * PLAIT_LINE) uint8_t small_data[PLAIT_EAGER_SMALL][PLAIT_EAGER_SOME];
    uint8_t large_data[PLAIT_EAGER_LARGE][PLAIT_EAGER_MAX];
    struct plait_mailbox mailbox[];
};

static inline size_t plait_control_bytes(uint32_t nrank)
{
    return sizeof(struct plait_control) +
           PLAIT_NMAILBOX * (size_t)nrank * PLAIT_WINDOW * (sizeof(struct plait_mailbox) + sizeof(_Atomic uint32_t));
}

/* The owner's mailboxes for rank `to`, and the owner's acks of messages from `to` (number + 1 of the last per slot). */
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
    struct plait_process *process;           /* NULL: on another host */
    struct plait_replica *replica;           /* of a rank on another host: `control` is part of it; else NULL */
    struct plait_link *link[PLAIT_NCHANNEL]; /* created at the first message; NULL for this rank */
    double waited;                           /* seconds of long waits for this rank */
    uint64_t finished;                       /* operations completed, as eager.c last read it */
};

struct plait_unread { /* a message that process_vm_readv could not read */
    uint32_t rank;    /* the sender */
    int error;        /* errno; 0: no such message */
    uint64_t address; /* in the sender's memory */
    const void *to;   /* destination */
    size_t bytes;
};

struct plait_op_plan;
struct plait_prog;
struct plait_slice;
struct plait_run;

/* Hash of the arguments that must be equal on all ranks of a call. */
static inline uint32_t plait_fingerprint(const void *fields, size_t bytes)
{
    const uint64_t h = PLAIT_GUARDS ? plait_hash(PLAIT_HASH_START, fields, bytes) : 0;
    return (uint32_t)(h ^ h >> 32);
}

struct plait_tally { /* calls of one algorithm of one collective */
    struct plait_tally *next;
    struct plait_comm_count count;
};

/* An object that starts a comm's operations instead of its callers: a fusion, which embeds this struct. */
struct plait_owner {
    const char *whose; /* "a fusion's; plait_fusion_destroy() ends both" */
    /* One turn, under the comm's lock. Returns whether there was progress. */
    bool (*turn)(void *object, bool rarely);
    /* Say what `rank` lacks to call the operation in progress. Nothing is written if it lacks nothing. */
    void (*excuse)(const void *object, uint32_t rank, char *text, size_t room);
    void *object;
};

struct plait_request;

/*
 * Callbacks into the rooms above, for pending collectives and messages beside the operation in progress. All are called
 * with the comm's lock held.
 */
struct plait_drive {
    /* One turn of everything. Returns whether there was progress. rarely: the caller does not poll continuously. */
    bool (*turn)(struct plait_comm *comm, bool rarely);
    /* The awaited ranks, at most `most`. */
    uint32_t (*awaited)(const struct plait_comm *comm, uint32_t *ranks, uint32_t most);
    void (*begin_message)(struct plait_request *r);
    void (*fail_messages)(struct plait_comm *comm, enum plait_status status); /* the comm has failed */
};

#define PLAIT_NOP_PLAN 256 /* operations remembered per comm; indexed by 8 bits of a hash */

struct plait_comm {
    uint32_t rank, nrank;
    uint32_t generation;   /* see fork.h; in a forked child no other field may be used */
    _Atomic uint32_t open; /* = generation while calls are allowed; 0 before creation, when finalized or suspended */
    _Atomic bool there;    /* creation is complete */
    struct plait_async_creation *async_creation; /* during asynchronous creation; else NULL */
    struct plait_control *own;
    struct plait_peer *peers; /* [nrank] */
    struct plait_port *port;  /* its network (port.h); NULL: none */
    const struct plait_drive *drive;
    enum plait_status failed; /* sticky */
    bool told;                /* the failure and the last operations are in the log */

    _Atomic(const char *) inside; /* name of the lock-free call that a thread is in; or NULL */

    /* The fast path. */
    uint64_t sequence; /* of the operation in progress, or the last */
    uint64_t begun;    /* all ranks have finished the operations before this one */
    struct plait_op_plan *last;
    uint64_t compared; /* operation after which past calls were last compared */

    struct plait_config config;
    const struct plait_kernels *kernels;
    char name[64];
    double deadline, warn;
    enum plait_log_level alarm;      /* level of the failure's log line; servers, which expect deaths, use WARN */
    struct plait_unique_id id_bytes; /* of the rendezvous; zeroes: there was none */
    double claim_seen;               /* clock of the last check that no other process claims this rank */
    struct plait_nodes nodes;        /* which ranks share a node, and connections between hosts; zeroes: one node */
    uint32_t nshrink;                /* comms created from it by plait_comm_shrink() */
    uint32_t *members;               /* [nrank] room for the ranks of a comm that is being created from this one */
    size_t nown_algorithms;          /* the caller's among `algorithms` */
    bool progress;                   /* it holds a start of the progress thread */
    bool suspended, finalized;
    double limit;             /* deadline of the operation in progress, seconds; 0: the comm's */
    size_t cache, last_level; /* bytes of rank 0's L2, and of the larger of L2 and L3 */
    size_t slice_bytes;       /* least library memory of a slice in flight */
    bool reproducible;
    size_t streams_from;        /* least bytes of copied results that are written with streaming stores */
    uint32_t processors;        /* of the host that has the fewest for more ranks; 0: all have enough */
    bool cma;                   /* all ranks can use single copy */
    struct plait_copies copies; /* of the lowest rank of this node: copy modes by size */
    struct plait_unread unread;
    enum plait_round round;
    uint32_t *node;          /* [nrank] or NULL */
    uint32_t nlevel, *level; /* as in struct plait_shape */
    const char *level_names[PLAIT_MAX_LEVELS];
    const struct plait_alg **algorithms; /* the caller's, then the library's */

    struct plait_room { /* library memory that grows; of inputs that are multiplied or divided before a sum */
        void *memory;
        size_t bytes;
    } scaled;
    size_t most_eager[PLAIT_NCOLL]; /* bytes + 1: see plait_most_eager_block(); 0: not known yet */
    struct plait_slots *slots; /* of the last operation with variable block sizes (collv.c); NULL before the first */

    struct plait_model *model;                      /* which picks algorithms (engine/model.h) */
    struct plait_model *team_model;                 /* the same for a team; NULL: not needed yet */
    struct plait_op_plan *op_plans[PLAIT_NOP_PLAN]; /* by hash of the arguments; entries may be NULL */
    struct plait_prog *progs;
    struct plait_tally *tallies;

    struct plait_run *run;      /* the operation in progress, or the last */
    struct plait_slice *slices; /* [PLAIT_NSLICE] */
    uint64_t next_slice_in_flight;

    struct plait_device_comm *device; /* its state on a device; NULL: none yet */
    struct plait_device_shown *shown; /* part of that state that others may read after teardown */
    struct plait_queue *own_queue;    /* of a device, for calls without a stream; NULL: no such call yet */

    struct plait_remote *remote; /* of a comm that spans hosts (remote/remote.h); else NULL */
    struct pollfd *processes;    /* one per other process; polled for deaths */
    uint32_t nprocess;

    struct plait_comm_stats stats;
    _Atomic uint64_t wakes; /* for stats; atomic, as abort rings from other threads */
    uint64_t id;

    /* Pending operations (progress.h, request.h), under the lock. */
    pthread_mutex_t lock;
    struct plait_comm *next_active;
    atomic_bool listed;                         /* on the list of active comms; changes under that list's lock */
    _Atomic uint32_t pending;                   /* requests not ended; 0: only the calling thread touches the comm */
    struct plait_request *first, **end;         /* pending collectives, in call order */
    struct plait_request *issued, **issued_end; /* on queues, and not all have been executed (request_turn.c) */
    struct plait_request *completed;            /* requests that ended in this turn */
    uint32_t ncompleted;                        /* operations without a request that ended in this turn */
    struct plait_owner *owner;                  /* starts the operations; NULL: the caller does */
    struct plait_request *requests;             /* all */
    struct plait_request *free_requests;        /* free list of the calling thread, without a lock */
    struct plait_request *returned_requests;    /* free ones that other threads returned */
    struct plait_messages *messages;            /* message.h; NULL before the first */

    struct plait_comm *next_torn_down; /* lifecycle/destroy.c */
};

/*
 * Lock and unlock around reading this rank's counters, which threads that drive pending operations may change. In the
 * log's callback the caller already holds the lock: plait_comm_lock_counters() does not take it and returns false.
 */
bool plait_comm_lock_counters(const struct plait_comm *comm);
void plait_comm_unlock_counters(const struct plait_comm *comm, bool locked);

/* Is this a forked child, and the comm its parent's? */
static inline bool plait_comm_inherited(const struct plait_comm *comm)
{
    return comm->generation != plait_generation;
}

/* Is asynchronous creation in progress, or has it failed? Then the comm has only rank, nrank and name. */
static inline bool plait_comm_uncreated(const struct plait_comm *comm)
{
    return !atomic_load_explicit(&comm->there, memory_order_acquire);
}

/* Are operations of this comm not allowed, now or ever? plait_comm_is_closed() fails `call` with the reason. */
static inline bool plait_comm_closed(const struct plait_comm *comm)
{
    return __builtin_expect(atomic_load_explicit(&comm->open, memory_order_relaxed) != plait_generation, 0);
}
enum plait_status plait_comm_is_closed(const struct plait_comm *comm, const char *call);

/* PLAIT_OK if no thread is inside a lock-free call (comm->inside); else the error of `call`. */
enum plait_status plait_comm_is_inside(const struct plait_comm *comm, const char *call);

#endif
