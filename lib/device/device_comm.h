/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room device: what a communicator has on a GPU, made when it is first called with memory of one. device_maps.c
 * maps other processes' memory, device_stage.c pins memory for other hosts, device_watch.c sees to streams of a
 * communicator that has failed. The room knows nothing of CUDA, which is a plug-in (plugin/device.h).
 *
 * What a comm has on a device, made when it is first called with memory of one.
 *
 * The engine (engine.h) runs the plan of such a call as it runs every other; but what it starts is put on the call's
 * queue, and what it passes between ranks are addresses (transports/device.c). So a rank's plan becomes operations of
 * its stream: take a flag, copy, combine, give a flag. A flag is taken on a queue only after it was given on another,
 * as the message that says where the data lies is offered after it was: whatever the plan, the streams cannot wait for
 * each other in a circle, not even where several of them are one.
 *
 * A rank's flags are in its own memory, two for each message that may be on the way from or to each other rank: the
 * data has arrived; what this rank gave was read. The other rank gives them and this one takes them, so that all are 0
 * when nothing is under way: what a graph captured can be replayed as often as one likes.
 *
 * What goes into graphs has flags and memory of its own. So a graph may run beside the comm's other operations, on
 * another stream and in no order with them; two graphs may not run beside each other.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_COMM_H
#define PLAIT_LIB_DEVICE_DEVICE_COMM_H

#include "comm/comm.h"
#include "operation/run.h"
#include "plugin/device.h"

#define PLAIT_NLENT 64 /* allocations that a rank shows to other processes at the same time */

struct plait_lent {
    _Atomic uint64_t number; /* written last */
    uint64_t id, base, bytes;
    struct plait_handle handle;
};

/* In the rank's arena; others read it. */
struct plait_device_shown {
    uint32_t device;
    uint64_t flags;               /* address of the flags, [2][PLAIT_NFLAGGED][nrank][2][PLAIT_WINDOW] words, in */
    struct plait_lent flags_lent; /* their allocation */
    struct plait_lent lent[PLAIT_NLENT]; /* number n, from 1, in place n % PLAIT_NLENT */
    /* then acks: [PLAIT_NFLAGGED][nrank][PLAIT_WINDOW] each, as in a control block; then */
    struct plait_mailbox mailbox[];
}; /* how many flags it has given to each rank: [nrank] of 64 bits */

enum { PLAIT_NFLAGGED = PLAIT_NCHANNEL - PLAIT_NMAILBOX }; /* channels */

enum plait_flag { PLAIT_FLAG_ARRIVED, PLAIT_FLAG_READ };

/* Those of what goes into graphs come behind as many others. */
static inline size_t plait_flag_words(uint32_t nrank)
{
    return (size_t)PLAIT_NFLAGGED * nrank * 2 * PLAIT_WINDOW;
}

/*
 * Where, in the flags of the rank that takes it, the flag of message `number` from or to `rank` is; of a graph's, or
 * not.
 */
static inline uint64_t plait_flag(uint64_t flags, uint32_t nrank, enum plait_channel channel, uint32_t rank,
                                  bool captured, enum plait_flag which, uint32_t number)
{
    const uint64_t line = ((uint64_t)(channel - PLAIT_NMAILBOX) * nrank + rank) * 2 + (uint64_t)which;
    return flags + (captured * plait_flag_words(nrank) + line * PLAIT_WINDOW + number % PLAIT_WINDOW) * 4;
}

static inline _Atomic uint64_t *plait_device_given(const struct plait_device_shown *of, uint32_t nrank, uint32_t to)
{
    const size_t lines = (size_t)PLAIT_NFLAGGED * nrank * PLAIT_WINDOW;
    const char *acks = (const char *)(of->mailbox + lines);
    return (_Atomic uint64_t *)(uintptr_t)(acks + lines * sizeof(uint32_t)) + to;
}

/* Where it is, once the rank has used its device and until it leaves; else NULL. It stays as the control block does. */
const struct plait_device_shown *plait_device_shown_by(const struct plait_comm *comm, uint32_t rank);

struct plait_device_scaled { /* as comm->scaled */
    void *memory;
    size_t bytes;
};

/* What was put on queues, of which each was made to wait for the one before. */
struct plait_trail {
    struct plait_queue *last; /* on it something was put, of which the mark does not know if it is `ahead`; */
    uint64_t stream, capture; /* of it */
    bool ahead;
    struct plait_mark *end; /* behind all else; once there was something: `called` */
    _Atomic bool called;
};

struct plait_device_comm {
    const struct plait_device_plugin *plugin;
    int device;
    struct plait_device_shown *shown;
    void *flags;
    uint64_t *taken; /* [nrank] flags of each rank that this one's queues wait for, or have waited */
    uint64_t nlent;
    struct plait_flight *flights[2];            /* [1]: of what goes into graphs */
    struct plait_device_scaled scaled[2];       /* the same */
    struct plait_queue *rescue;                 /* on it flags are given when the comm has failed */
    struct plait_queue *queue;                  /* on it what comes next is put, see plait_device_aim(); */
    uint64_t capture;                           /* of a graph that that goes into; 0: none */
    struct plait_trail trails[2];               /* [1]: of what goes into graphs */
    _Atomic bool captured;                      /* an operation is in a graph: who knows when it runs */
    uint32_t ncapture;                          /* messages that are going into one, by */
    uint64_t capturing;                         /* this capture */
    struct plait_request *marked, **marked_end; /* on a queue, and not all of them have happened (device_request.h) */
    struct plait_wait wait;                     /* for the first of them */
    bool lost;                                  /* others may still use its memory */
    char why[256];                              /* what the device refused: the comm fails with it; "": nothing */
    uint32_t unmapped;                          /* 1 + the rank whose memory could not be mapped; 0: why is another */
    void **retired; /* [nretired] memory that what is on a queue, or in a graph, may still use */
    size_t nretired;
    struct plait_stage *stages; /* device_stage.h */
    uint32_t nstaging; /* messages for other hosts that wait for this rank's own queues (transports/staged.c) */

    struct plait_comm *comm; /* for the watch (device_watch.h) */
    struct plait_device_comm *next;
};

/* Make what the comm needs on its device, at the first call with memory of it. An error has failed the comm. */
enum plait_status plait_device_open(struct plait_comm *comm, int device);

/* Of an operation that begins: the capture of a graph that what is put on this queue now goes into; 0: none. */
enum plait_status plait_device_captures(struct plait_comm *comm, struct plait_queue *queue, uint64_t *capture);

/* Why a comm whose ranks are on several hosts puts nothing into a graph. */
extern const char plait_device_no_graph[];

/*
 * What is put on the device next goes to this queue. An operation has its queue, and others of the comm, with queues of
 * their own, go on between its turns: so each aims again in its turn.
 */
static inline void plait_device_aim(const struct plait_comm *comm, struct plait_queue *queue, uint64_t capture)
{
    comm->device->queue = queue;
    comm->device->capture = capture;
}

/*
 * That queue, which has been made to wait for all that was put on others, or on others of the same capture: all use the
 * comm's flags and memory. NULL:
 * the device has refused something, and nothing more is put on its queues.
 */
struct plait_queue *plait_device_here(struct plait_comm *comm);

/* All of an operation is on its queue, which is the caller's again. */
void plait_device_rest(struct plait_comm *comm);

/* What was noted (plait_device_note()) fails the comm; or the death of the rank whose memory could not be mapped. */
enum plait_status plait_device_broke(struct plait_comm *comm);

/* Wait until what is on the queues has happened, in a failed comm after its flags were given. */
void plait_device_settle(struct plait_comm *comm);

/*
 * Of a comm that has not failed, and that this rank leaves: do others' streams still wait for this one? Then it fails,
 * so that they end, and can be waited for.
 */
bool plait_device_leaves_some(struct plait_comm *comm);
void plait_device_comm_destroy(struct plait_comm *comm);

/* Of a GPU's memory, and pinned: what the comm has there. */
size_t plait_device_bytes(const struct plait_comm *comm);

/* Memory for the comm's slices; given back when the comm is left. */
enum plait_status plait_device_room(struct plait_comm *comm, size_t bytes, void **out);
void plait_device_retire(struct plait_comm *comm, void *memory);

/* Note why something cannot be put on the queue; NULL: it was. The first stays. */
void plait_device_note(struct plait_comm *comm, const char *why);

/* Does this comm's device still do what it is told? Once it has refused something nothing more is put on its queues. */
static inline bool plait_device_works(const struct plait_comm *comm)
{
    return comm->device->why[0] == '\0';
}

static inline enum plait_status plait_device_status(struct plait_comm *comm)
{
    return comm->device == NULL || plait_device_works(comm) ? PLAIT_OK : plait_device_broke(comm);
}

/*
 * The number under which other processes find the allocation with this address. 0: it cannot be shown to them, *why
 * not: it may be of an allocator that gives what the driver has no handle for.
 */
uint64_t plait_device_lend(struct plait_comm *comm, const void *data, uint64_t *base, const char **why);

#endif
