/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room device: GPUs as a memory space (gpu_space.c), and the state of a communicator on a GPU, made at the first
 * call with memory of that GPU. device_memory.c allocates, device_queue.c enqueues, device_watch.c releases the streams
 * of a communicator that has failed. device_whole.c runs the part of collectives that ranks on one GPU share, by the
 * list of device_list.c.
 *
 * The room promises: no stream waits for ever for a rank that has failed or died. It does not know CUDA, which is a
 * plug-in (plugin/device.h).
 *
 * All other calls run their plan in the engine (engine.c), as usual. But each step is put on the call's queue, and the
 * ranks of a host exchange addresses instead of data (transports/device.c). So a plan becomes operations of a stream:
 * wait for a flag, copy, reduce, set a flag. Those of one turn are enqueued together, by few calls of the driver. A
 * queue waits for a flag only after another queue was told to set it: the message that carries the data's address is
 * offered after that. So streams cannot wait for each other in a circle, whatever the plan, even if several ranks share
 * one stream.
 *
 * A rank's flags are in its own memory. It has two for each message that may be on the way from or to each other rank:
 * "the data has arrived", and "the data that this rank sent was read". The other rank sets the flag, this rank waits
 * for it and resets it. So all flags are 0 when nothing is under way, and a captured graph can be replayed any number
 * of times.
 *
 * Operations in graphs have flags and memory of their own. So a graph may run beside the comm's other operations, on
 * another stream and in no order with them; two graphs may not run beside each other.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_COMM_H
#define PLAIT_LIB_DEVICE_DEVICE_COMM_H

#include "comm/comm.h"
#include "operation/operation.h"
#include "plugin/device.h"

/* In the rank's arena; others read it. */
struct plait_device_shown {
    uint32_t device;
    uint64_t flags;                       /* address of the flags: [2][PLAIT_NFLAGGED][nrank][2][PLAIT_WINDOW] words */
    struct plait_exported flags_exported; /* the allocation that has the flags, if other processes need it */
    /*
     * Mailboxes [PLAIT_NFLAGGED][nrank][PLAIT_WINDOW], as many acks as in a control block, and words of 64 bits:
     * [nrank] the flags of each rank that this rank has set; [4][nrank] block sizes and starts (device_whole.c).
     */
    struct plait_mailbox mailbox[];
};

enum { PLAIT_NFLAGGED = PLAIT_NCHANNEL - PLAIT_NMAILBOX }; /* channels */

enum plait_flag { PLAIT_FLAG_ARRIVED, PLAIT_FLAG_READ };

/* Words of the flags outside graphs; as many flags of graphs follow them. */
static inline size_t plait_flag_words(uint32_t nrank)
{
    return (size_t)PLAIT_NFLAGGED * nrank * 2 * PLAIT_WINDOW;
}

/*
 * Address of the flag of message `number` from or to `rank`, in the flags of the rank that waits for it. `captured`:
 * the message is part of a graph.
 */
static inline uint64_t plait_flag(uint64_t flags, uint32_t nrank, enum plait_channel channel, uint32_t rank,
                                  bool captured, enum plait_flag which, uint32_t number)
{
    const uint64_t line = ((uint64_t)(channel - PLAIT_NMAILBOX) * nrank + rank) * 2 + (uint64_t)which;
    return flags + (captured * plait_flag_words(nrank) + line * PLAIT_WINDOW + number % PLAIT_WINDOW) * 4;
}

static inline _Atomic uint64_t *plait_device_flags_set(const struct plait_device_shown *of, uint32_t nrank, uint32_t to)
{
    const size_t lines = (size_t)PLAIT_NFLAGGED * nrank * PLAIT_WINDOW;
    const char *acks = (const char *)(of->mailbox + lines);
    return (_Atomic uint64_t *)(uintptr_t)(acks + lines * sizeof(uint32_t)) + to;
}

static inline uint64_t *plait_device_sizes(const struct plait_device_shown *of, uint32_t nrank)
{
    return (uint64_t *)(uintptr_t)plait_device_flags_set(of, nrank, nrank);
}

/* NULL before the rank has used its device and after it has left. The memory lives as long as the control block. */
const struct plait_device_shown *plait_device_shown_by(const struct plait_comm *comm, uint32_t rank);

/*
 * Operations on several queues in one order: each queue was made to wait for the one before. Behind an operation its
 * queue writes a count to pinned memory, which the host reads, and other queues wait for. A captured queue records an
 * event instead, as each stream of a capture must join the others.
 */
struct plait_trail {
    struct plait_queue *last; /* the queue of the newest operations; `ahead`: their count is not enqueued yet */
    uint64_t stream, capture; /* of that queue */
    bool ahead;
    struct plait_event *end; /* of a capture; recorded at least once: `called` */
    bool called;
};

enum { PLAIT_NBATCH = 120, PLAIT_NCOPIES = 64, PLAIT_NNOTIFICATION = 64 }; /* enqueued, and sent, at once */

struct plait_notification { /* a message to another rank: send(link, number) */
    struct plait_link *link;
    uint32_t number;
    void (*send)(struct plait_link *link, uint32_t number);
};

struct plait_device_comm {
    const struct plait_device_plugin *plugin;
    int device;
    struct plait_device_shown *shown;
    void *flags;
    uint64_t *flags_awaited; /* [nrank] flags of each rank that this rank's queues have waited for or will wait for */
    struct plait_slice *slices[2]; /* [1]: for operations in graphs */
    struct plait_room scaled[2];   /* [1]: likewise */
    struct plait_queue *rescue;    /* sets flags when the comm has failed */
    struct plait_queue *queue;     /* gets the next operations, see plait_device_use_queue(); */
    uint64_t capture;              /* the graph that they go into; 0: none */
    struct plait_trail trails[2];  /* [1]: of operations in graphs */
    _Atomic uint32_t *passed;      /* pinned: operations that the queues have done, */
    _Atomic uint32_t put;          /* of so many, not counting graphs' */
    uint32_t npoll;                /* polls of `passed` */

    /*
     * Work that is enqueued on `batch_queue` before other work: signals, copies, more signals. Then the notifications
     * are sent. A wait goes before earlier copies and their signals: no rank has been notified of those yet.
     */
    struct plait_queue *batch_queue;
    struct plait_signal batch[2][PLAIT_NBATCH];
    struct plait_copy copies[PLAIT_NCOPIES];
    struct plait_notification notifications[PLAIT_NNOTIFICATION];
    uint32_t nbatch[2], ncopy, nnotification;

    _Atomic bool captured; /* an operation is in a graph: nobody knows when it runs */
    uint32_t ncapture;     /* messages in the capture `capturing` */
    uint64_t capturing;    /* its id */
    bool lost;             /* others may still use this rank's device memory */
    char why[256];         /* the error with which the comm fails; "": none */
    enum plait_status as;  /* its status */
    uint32_t unmapped;     /* 1 + the rank whose memory could not be mapped; 0: another cause */
    struct plait_device_memory *memory;
    uint32_t nstaging; /* messages to other hosts that wait for this rank's own queues (transports/staged.c) */

    struct plait_whole *whole; /* device_whole.c; NULL: not needed yet, or some ranks' GPUs are not known */

    struct plait_comm *comm; /* for the watch (device_watch.c) */
    struct plait_device_comm *next;
};

/*
 * Use this GPU; a rank has one in a comm. The first call makes the comm's state there. Errors: PLAIT_ERR_ARG: the comm
 * has used another one; others have failed the comm. name: of the call.
 */
enum plait_status plait_device_open(struct plait_comm *comm, const char *name, int device);

/* Sets target->note: the graph that work put on the queue now becomes part of; 0: none. Over hosts an error. */
enum plait_status plait_device_captures(struct plait_comm *comm, struct plait_target *target);

/* Error text: a comm whose ranks are on several hosts cannot be captured into a graph. */
extern const char plait_device_no_graph[];

/*
 * The next operations go to this queue. Operations of one comm have their own queues and take turns, so each operation
 * sets its queue again at each turn.
 */
static inline void plait_device_use_queue(const struct plait_comm *comm, const struct plait_target *target)
{
    comm->device->queue = target->queue;
    comm->device->capture = target->note;
}

/*
 * Put a signal or a copy on the aimed queue, with others soon: before other work, at the end of a turn (status()) and
 * of an operation. notify(): a message that another rank gets once the signals so far are on the queue; dropped after
 * an error.
 */
void plait_device_signal(struct plait_comm *comm, enum plait_signalling what, uint64_t address, uint32_t value);
void plait_device_copy(struct plait_comm *comm, void *to, const void *from, size_t bytes);
void plait_device_notify(struct plait_comm *comm, const struct plait_notification *notification);

/* Have the queues done all of this rank's operations, or the first `put` of them, but for those in graphs? */
static inline bool plait_device_has_passed_all(const struct plait_device_comm *d)
{
    return atomic_load(d->passed) == atomic_load(&d->put);
}
bool plait_device_has_passed(struct plait_comm *comm, uint32_t put);

/*
 * The current queue, after it was made to wait for all operations on other queues (of the same capture): they share the
 * comm's flags and memory. NULL: the device has reported an error, and nothing more is put on its queues.
 */
struct plait_queue *plait_device_queue(struct plait_comm *comm);

/* All of an operation is on its queue; the caller may use the queue again. */
void plait_device_end_operation(struct plait_comm *comm);

/* Wait until the operations on the queues have completed; in a failed comm the watch sets their flags. */
void plait_device_settle(struct plait_comm *comm);

/*
 * This rank leaves a comm that has not failed: do other ranks' streams still wait for it? Then the comm fails, so that
 * those streams end and can be waited for.
 */
bool plait_device_leaves_some(struct plait_comm *comm);
void plait_device_comm_destroy(struct plait_comm *comm);

/* Bytes that the comm holds in GPU memory and in pinned memory. */
size_t plait_device_bytes(const struct plait_comm *comm);

/* Memory of the comm on its GPU, and pinned memory: one list, which is freed when the comm is left (free_all). */
struct plait_device_memory {
    struct plait_device_memory *next;
    enum plait_memory kind;
    void *memory;
    size_t bytes;
    bool used; /* a staging buffer of a message */
};

/* GPU memory. free_later: also memory that others allocated and that operations on a queue or in a graph still use. */
enum plait_status plait_device_alloc(struct plait_comm *comm, size_t bytes, void **out);
/*
 * See struct plait_space. It grows to twice its size at least. Old blocks are kept until the comm is left, as freeing
 * waits for all streams of the process, which may wait for this thread; together they are no larger than the new one.
 */
enum plait_status plait_device_grow(struct plait_comm *comm, struct plait_room *room, size_t bytes);
void plait_device_free_later(struct plait_comm *comm, void *memory);
void plait_device_free_all(struct plait_device_comm *d);

/*
 * An unused pinned buffer of at least `bytes` bytes, for data to and from other hosts (transports/staged.c). NULL: no
 * memory, which is noted (plait_device_note()). unstage: no queue and no network uses it any more. NULL is allowed.
 */
struct plait_device_memory *plait_device_stage(struct plait_comm *comm, size_t bytes);
void plait_device_unstage(struct plait_device_memory *stage);

/*
 * Record why an operation cannot be put on the queue (NULL: it was put there), and the status with which the comm
 * fails. The first error stays. plait_device_note(): it is the driver's.
 */
void plait_device_note_as(struct plait_comm *comm, enum plait_status status, const char *why);
static inline void plait_device_note(struct plait_comm *comm, const char *why)
{
    plait_device_note_as(comm, PLAIT_ERR_SYSTEM, why);
}

/* Has the device reported no error? After the first error nothing more is put on its queues. */
static inline bool plait_device_works(const struct plait_comm *comm)
{
    return comm->device->why[0] == '\0';
}

/*
 * The end of a turn. Has the device reported an error? It fails the comm, with the error of plait_device_note() or with
 * the death of the rank whose memory could not be mapped.
 */
enum plait_status plait_device_status(struct plait_comm *comm);

/* Let the watch (device_watch.c) check a comm's streams. */
enum plait_status plait_device_watch(struct plait_device_comm *d);
void plait_device_unwatch(struct plait_device_comm *d);

#endif
