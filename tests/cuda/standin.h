/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for the CUDA driver, for tests on machines without a GPU. It is no GPU and no model of one's speed: it does
 * what the driver's interface promises, in an order drawn at random among those that are allowed, and it ends the process
 * with a message when a program relies on an order that nothing ensures.
 *
 *   streams    threads with a queue each, that wait for a random time before an operation; a new one has the handle of the
 *              one that was destroyed last
 *   memory     of devices is shared memory, so that IPC handles open in other processes; where the processor can, the
 *              threads of the program fault when they touch it
 *   kernels    run their host bodies (cuda/kernels/host.h, train/cuda/kernels/host.h), found by name
 *   capture    keeps operations; launching a graph queues them again; one with a conditional node is made, not launched
 *   world      what all processes of a test share: who has accessed which bytes when, as vector clocks
 *
 * Every operation of a stream has a time: the stream's number and a count. A stream knows up to which time of every other
 * stream all is done before what it does now: by waiting for an event or for a value that was written; and by what the
 * host knew when it queued the operation, having waited for it. All threads of all processes are one host in this: what
 * one of them has waited for all know, as the stand-in cannot see how they tell each other. An access that does not know
 * of an earlier one to the same bytes, where one of the two writes, is a race, and both are named. The host's own writes
 * are seen where a copy reads them: in pinned memory (standin_pinned.c).
 *
 * Environment:
 *   PLAIT_STANDIN_WORLD    a file of the test's for its processes to share; else each process has a world of its own
 *   PLAIT_STANDIN_SEED     of the random delays (1)
 *   PLAIT_STANDIN_DELAY    the longest, in microseconds (50); 0: none
 *   PLAIT_STANDIN_DEVICES  (1); 0: a driver without a GPU
 *   PLAIT_STANDIN_CAPABILITY  their compute capability, 90 is 9.0 (75)
 *   PLAIT_STANDIN_QUEUES   1: streams share hardware queues (0)
 *   PLAIT_STANDIN_ALONE    a device that cannot reach the others' memory, nor they its; DEVICES or more: none (64)
 *   PLAIT_STANDIN_CUDA     the driver's version, 12080 is 12.8: it refuses newer PTX; else it is 13.0 and takes any
 *   PLAIT_STANDIN_VALUES   0: there are no batched operations on values in memory, cuStreamBatchMemOp() (1)
 *   PLAIT_STANDIN_LIMIT    KiB of devices' memory that a process gets; 0: any (0)
 *   PLAIT_STANDIN_FAIL     the n-th call of this process fails with CUDA_ERROR_UNKNOWN; 0: none
 *   PLAIT_STANDIN_REFUSE  all calls of this name fail, as cuStreamEndCapture, with the error of number
 *   PLAIT_STANDIN_REFUSE_WITH  (999)
 *   PLAIT_STANDIN_GUARD    0: threads of the program may touch devices' memory (1)
 *   PLAIT_STANDIN_LOG      1: names every call on stderr
 * What tests ask of it beside the driver's functions is in standin_ask.h.
 */
#ifndef PLAIT_TESTS_STANDIN_H
#define PLAIT_TESTS_STANDIN_H

#include "driver_types.h"

#include <host.h>

#include <pthread.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

enum { ACTORS = 256, DEVICES = 8 };

struct clock {
    uint64_t at[ACTORS]; /* up to here everything of that stream is known to be done */
};

/* ---- What all processes share (standin_world.c) ------------------------------------------------------------ */

enum access { READ, WRITE, WAIT, SIGNAL }; /* the last two: of values */

struct allocation {
    uint64_t id; /* 0: free */
    uint64_t bytes;
    uint32_t device;
    int pid, fd;
    bool freed;
    uint32_t first; /* of its accesses */
};

void world_open(void);
void world_lock(void);
void world_unlock(void);

/* A stream's number; -1: there are too many. */
int actor_take(void);
void actor_drop(int actor);

/* All with the world locked. */
struct clock *host_clock(void);
struct clock *actor_clock(int actor);
void clock_join(struct clock *a, const struct clock *b);
void actor_tick(int actor);

/*
 * The changes of hands that the stream's work has needed: how often, in turn, one process had to do something before
 * another could go on. A device that is given to one process at a time is given on as often, at least.
 */
uint64_t hands_of(int actor);
void hands_join(int actor, uint64_t hands);
uint32_t allocation_make(uint64_t bytes, uint32_t device, int fd); /* UINT32_MAX: there are too many */
struct allocation *allocation_at(uint32_t allocation);
uint64_t allocation_last(void); /* its id */
void allocation_free(uint32_t allocation);
void accessed(uint32_t allocation, uint64_t start, uint64_t bytes, int actor, enum access access, const char *what);
void value_written(uint32_t allocation, uint64_t at, uint64_t value, int actor);
/*
 * Of the writes whose values were enough, one after the other up to the latest, the first is what was waited for. actor
 * -1: by the host.
 */
void value_seen(uint32_t allocation, uint64_t at, uint64_t value, int actor, bool (*enough)(const void *, uint64_t),
                const void *context);

/* Write the message and end the process. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* standin_careless() */
void world_careless(bool careless);

/* ---- Memory of this process (standin_memory.c) -------------------------------------------------------------- */

enum kind { DEVICE_MEMORY, MANAGED_MEMORY, PINNED_MEMORY, REGISTERED_MEMORY, IMPORTED_MEMORY };

struct mapping {
    uint64_t start, bytes;
    enum kind kind;
    uint32_t allocation, device, opened;
    uint64_t id;     /* the allocation's */
    uint64_t remote; /* of another process: where it lies there, */
    int pid;         /* that process */
    bool hidden;     /* has no IPC handle, as memory of pools */
};

/* What holds the address, copied to *out. */
bool mapping_find(uint64_t address, struct mapping *out);
void memory_open(void);
uint32_t memory_count(enum kind kind);
uint64_t memory_bytes(void);       /* of devices' memory that this process has allocated */
void memory_allow(bool allow);     /* may this thread touch devices' memory? */
void memory_hide(bool hide);       /* what this thread allocates has no IPC handle */
void memory_limit(uint64_t bytes); /* the most device memory of this process; 0: any */

struct stream;

/* An operation of this stream accesses this. host: memory that the driver does not know is allowed. */
void touch(const struct stream *stream, uint64_t address, uint64_t bytes, enum access access, bool host,
           const char *what);

/* ---- Contexts and calls (standin_calls.c) ------------------------------------------------------------------- */

struct context {
    int device;
    bool peers[DEVICES];
    struct stream *null;
    uint32_t retained;
};

uint64_t setting(const char *name, uint64_t otherwise);
bool devices_reach(uint32_t device, uint32_t other);   /* each other's memory, as cuDeviceCanAccessPeer says */
uint32_t context_count(void);                          /* how often they are retained */
int calls_begin(const char *name, bool needs_context); /* CU_OK, or what the call returns */
struct context *context_now(void);
struct context *context_of(int device);

/* Is the call to fail (standin_ask.c)? CU_OK, or with what. */
int fail_now(const char *name);

#define CALL(needs_context)                                     \
    do {                                                        \
        const int begun = calls_begin(__func__, needs_context); \
        if (begun != CU_OK)                                     \
            return begun;                                       \
    } while (0)

/* ---- Streams (standin_stream.c) ----------------------------------------------------------------------------- */

enum what { DO_COPY, DO_SET, DO_KERNEL, DO_LIBRARY, DO_CALL, DO_WRITE, DO_WAIT, DO_RECORD, DO_AWAIT };

struct record { /* a point in a stream's work */
    uint32_t held;
    bool done;
    pthread_cond_t is_done;
    struct clock clock;
    uint64_t hands; /* as in hands_of() */
};

struct op {
    struct op *next;
    enum what what;
    uint64_t to, from, bytes, value;
    uint32_t size, flags; /* of an element or value */
    const struct plait_cuda_host *kernel;
    uint32_t nblock;
    void *argument; /* a kernel's, or a struct library_op */
    void (*call)(void *);
    void *context;
    struct record *record;
    uint32_t point;     /* captured: the record's number in the graph */
    struct clock *host; /* known when it was queued */
    uint64_t turn;      /* in the stream's hardware queue */
    bool joined;        /* put by the same call as the operation before */
    uint64_t hash;      /* of the pinned memory that a copy reads */
    uint64_t writes;    /* standin_pinned.c; 0: not hashed */
};

struct capture;

struct stream {
    struct stream *next; /* of all */
    struct context *context;
    unsigned flags;
    void *handle; /* NULL: the program has none */
    uint64_t id;  /* no other has had it */
    int actor;
    pthread_t thread;
    pthread_cond_t more;
    struct op *first, **last;
    uint64_t queued, done;
    bool ends;
    uint64_t random;
    struct capture *capture; /* or NULL */
    uint32_t lane;           /* in it */
    uint32_t hardware;       /* its hardware queue */
    uint64_t ncall;          /* calls that put something on it, or into its capture */
};

/* A copy of op is queued, or kept if the stream is being captured. Takes op's argument and a share of its record. */
int stream_put(struct stream *stream, struct op op);
int stream_put_now(struct stream *stream, struct op op); /* never captured */
int stream_find(void *handle, struct stream **out);      /* CU_INVALID_HANDLE and so on */
int stream_make(struct context *context, unsigned flags, int priority, struct stream **out);
void stream_end(struct stream *stream); /* when it has done all */
uint32_t stream_count(void);
void process_synchronize(void); /* all of this process that is queued has been done, and the host knows */

struct record *record_make(void);
struct record *record_hold(struct record *record);
void record_drop(struct record *record);
void record_wait(struct record *record); /* the host */
bool record_is_done(struct record *record);

void process_lock(void);
void process_unlock(void);

/* What a call keeps while it waits for a stream, and some other calls need. */
void driver_lock(void);
void driver_unlock(void);

/* ---- Hardware queues (standin_queues.c) ---------------------------------------------------------------------- */

/*
 * Streams of a device and priority share them, as many as CUDA_DEVICE_MAX_CONNECTIONS says, 8 unless it is set: what is
 * put on one stands behind all that was put on it before, whatever stream it is of. Without PLAIT_STANDIN_QUEUES=1 each
 * stream has its own, and turns are nobody's.
 */
uint32_t hardware_of_new(int device, int priority);
uint64_t hardware_put(uint32_t hardware); /* its turn, in the order of these calls */
void hardware_await(uint32_t hardware, uint64_t turn);
void hardware_done(uint32_t hardware);

/* ---- Events and capture (standin_events.c, standin_capture.c) ----------------------------------------------- */

uint32_t event_count(void);
int capture_put(struct stream *stream, struct op op);
int capture_record(struct stream *stream, struct capture **capture, uint32_t *point);
int capture_await(struct stream *stream, struct capture *capture, uint32_t point);
int capture_unsafe(void);                 /* may this call be made now? */
int capture_spoil(struct stream *stream); /* a call that a capture does not survive, if there is one */
int capture_spoil_all(void);              /* the same of all captures of the process */

/* ---- Pinned memory that copies read (standin_pinned.c) -------------------------------------------------------- */

void pinned_called(struct op *op);                  /* a copy, that is put on a stream now */
void pinned_pending(const struct op *op, int more); /* an operation is queued: 1, or done: -1 */
void pinned_written(void);                          /* by an operation */
void pinned_runs(const struct stream *stream, const struct op *op);
void pinned_known(const struct clock *clock); /* the host is about to know this. With the world locked */
void pinned_freed(uint64_t start, uint64_t bytes);

/* ---- Operations of libraries (standin_library.c) ------------------------------------------------------------- */

uint64_t library_bytes(const struct op *op); /* of op->argument */
void library_accesses(const struct stream *stream, const struct op *op);
void library_run(const struct op *op);

/* ---- Kernels (standin_kernels.c, standin_train.c) ------------------------------------------------------------- */

struct at { /* whose accesses; those that continue each other in an allocation are one */
    const struct stream *stream;
    const char *what;
    uint64_t start, end;
    enum access access;
};

/* Of nothing if p is NULL. */
void reads(struct at *at, const void *p, uint64_t bytes);
void writes(struct at *at, const void *p, uint64_t bytes);
/* Those of one of the training program's kernels; false: at->what is none. */
bool train_accesses(struct at *at, const void *argument);

uint32_t module_count(void);
void kernel_accesses(const struct stream *stream, const struct op *op);

#endif
