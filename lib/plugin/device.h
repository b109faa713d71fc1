/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a device plug-in: all that the library does with memory that the CPU cannot address (a GPU's).
 *
 * A plug-in is a shared object `plait-NAME.so` that exports one `const struct plait_device_plugin plait_device_plugin`,
 * loaded at the first use of a device (lib/plugin/plugin.h). It calls nothing of libplait. cuda/ is one.
 *
 * A *queue* is a stream of a device: it executes work asynchronously and in order. Ranks order work on different queues
 * by *flags*, words in device memory that are 0 at rest: one queue sets a flag once all its earlier work is complete,
 * another stalls until the flag is set, then resets it. No kernel ever waits for a flag.
 *
 * Functions return NULL, or the reason of a failure: a thread-local text, valid until the thread's next call. drain(),
 * export_memory(), record_event() and what frees something try a second time, as a driver's call may return the error
 * of an earlier one.
 */
#ifndef PLAIT_LIB_PLUGIN_DEVICE_H
#define PLAIT_LIB_PLUGIN_DEVICE_H

#include <plait/coll.h>
#include <plait/memory.h>
#include <plait/optim.h>
#include <plait/stream.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_DEVICE_ABI    15 /* changes with the declarations below; a plug-in with another number is refused */
#define PLAIT_DEVICE_HANDLE 64

struct plait_location { /* of memory */
    enum plait_memory kind;
    int device; /* number of the GPU; -1: host memory */
};

struct plait_exported { /* an allocation of PLAIT_MEMORY_DEVICE that another process may import */
    uint64_t id;        /* unique in this process for ever, even at a reused address; 0: none */
    uint64_t base, bytes;
    unsigned char handle[PLAIT_DEVICE_HANDLE]; /* an IPC handle */
};

static inline bool plait_is_same_export(const struct plait_exported *a, const struct plait_exported *b)
{
    return a->id == b->id && a->base == b->base;
}

struct plait_combine { /* n-source reduction in the canonical order, as plait_reduce_mixed() */
    enum plait_dtype type;
    enum plait_op op;
    void *dst;
    const void *const *src; /* [nsrc] */
    uint32_t nsrc;
    uint32_t divisor; /* as in struct plait_how */
    uint64_t wide;    /* bit s: source s is float32 */
    bool wide_dst;
    size_t count;
};

/*
 * `times` blocks of `count` elements, in one of two forms:
 *
 *   scatter  block k of every operand is combined in the canonical order (a single operand is copied) and written to
 *            result k, as in a reduce-scatter. If there is one block, all results get it.
 *   gather   (`gathers`) operand k is copied to block k of every result, as in an all-gather
 *
 * in, out  bytes from the start of an operand, and of a result, to its first block
 */
struct plait_item {
    const void *const *src; /* [nsrc]; if it gathers, [times], and nsrc is 1 */
    void *const *dst;       /* [ndst]; with several blocks, unless it gathers, [times], and ndst is 1 */
    uint32_t nsrc, ndst;
    size_t in, out, count;
    uint32_t times;
    bool gathers;
};

struct plait_list { /* what is made by one kernel, or few if there are many items; no result overlaps another block */
    enum plait_dtype type;
    enum plait_op op;
    uint32_t divisor; /* as in struct plait_how */
    uint64_t wide;    /* bit s: operand s is float32 */
    bool wide_dst;
    const struct plait_item *items; /* [n] */
    uint32_t n;
};

enum plait_signalling {
    PLAIT_SIGNAL_SET,   /* write the value once all earlier work on the queue is complete */
    PLAIT_SIGNAL_AWAIT, /* stall the queue until the flag has the value, then write 0 */
    PLAIT_SIGNAL_REACH  /* stall the queue until a count, modulo 2^32, has reached the value */
};

struct plait_signal { /* an operation on a word of device or pinned memory */
    enum plait_signalling what;
    uint32_t value;
    uint64_t address;
};

struct plait_segment { /* an array and its place in a payload */
    void *data;        /* [count] */
    enum plait_dtype type;
    uint64_t at; /* offset in the payload, in elements */
    uint64_t count;
};

struct plait_model { /* state of an optimiser; all memory is the device's */
    const struct plait_optim_options *options;
    float *momentum;  /* momenta of all parts, one after the other */
    const size_t *at; /* [npart] offset of each part's momenta */
    double *sums;     /* [nsum] as in lib/optim/optim.h; LARS always needs them */
};

struct plait_stepping { /* an optimiser's step: the sums, the updates that use them, or both; 3 launches in all */
    const struct plait_optim_step *step;
    bool sums, updates;
    double call;    /* identifies the step, so that ranks can compare; see plait_optim_call() */
    uint32_t nrank; /* ranks that make this step */
};

enum plait_queue_kind {
    PLAIT_QUEUE_THEIRS, /* the caller's stream */
    PLAIT_QUEUE_OWN,    /* created by the library, for calls without a stream */
    /* created by the library, for work that never waits; no wait on another queue may delay it */
    PLAIT_QUEUE_URGENT
};

struct plait_queue;
struct plait_event;   /* a point on a queue */
struct plait_packing; /* segments, as tables in device memory */
struct plait_stepper; /* a model, as tables in device memory */

struct plait_device_plugin {
    uint32_t abi;
    const char *name; /* "cuda" */

    /* Load the driver, once: from `path`, or, if that is "", by its usual name. */
    const char *(*open)(const char *path);
    /* The calling thread's current device; if it has none, the first device. n: the number of devices, at least 1. */
    const char *(*current)(int *device, int *n);
    /* Load what every other call with this device needs. */
    const char *(*use)(int device);
    /* Wait until all work of this process on the device has completed. Fails, and ends them, if there are captures. */
    const char *(*finish)(int device);
    /* Names the GPU, whatever its number in this process is. */
    const char *(*identify)(int device, unsigned char uuid[16]);

    /* Memory. alloc: zeroed. device -1: as current() says. */
    const char *(*locate)(const void *memory, struct plait_location *out);
    const char *(*alloc)(enum plait_memory kind, int device, size_t bytes, void **out);
    const char *(*free)(enum plait_memory kind, void *memory);

    /*
     * Between processes: export the allocation that holds `memory`. A plug-in asks its driver once for each allocation.
     * A process must not import its own.
     */
    const char *(*export_memory)(const void *memory, struct plait_exported *out);
    /* *taken, on failure: an import of an allocation that its owner has freed still occupies the address range. */
    const char *(*import_memory)(const struct plait_exported *memory, int device, void **out, bool *taken);
    const char *(*close_import)(void *mapped);
    /* Between devices of one process: from now on `device` can read and write memory of `other` (peer access). */
    const char *(*enable_peer)(int device, int other);

    /*
     * native  THEIRS: the caller's stream (NULL: the default stream); the caller keeps ownership. Other kinds: NULL
     * device  THEIRS: the stream's device, or -1: the plug-in finds out. Other kinds: create the queue on this device
     */
    const char *(*open_queue)(enum plait_queue_kind kind, void *native, int device, struct plait_queue **out);
    void (*close_queue)(struct plait_queue *queue); /* NULL is allowed */
    int (*device_of)(const struct plait_queue *queue);
    uint64_t (*id_of)(const struct plait_queue *queue);          /* not 0, and never reused for another stream */
    const char *(*drain)(struct plait_queue *queue);             /* block until all work on the queue is complete */
    const char *(*query)(struct plait_queue *queue, bool *done); /* is all work complete? */
    /* The id, unique in this process, of the graph capture that records this queue; 0: work is executed. */
    const char *(*capturing)(struct plait_queue *queue, uint64_t *capture);

    /* In their order, by one call of the driver or few. */
    const char *(*signal)(struct plait_queue *queue, const struct plait_signal *signals, size_t n);
    /* The host has read this value, which a signal wrote to pinned memory: for a driver that looks for races. */
    void (*seen)(const void *word, uint32_t value);
    const char *(*make)(struct plait_queue *queue, const struct plait_list *list);
    /* By one call of the driver, or few: no copy overlaps another. */
    const char *(*copies)(struct plait_queue *queue, const struct plait_copy *copies, size_t n);
    /* As plait_kernels.scale. scalar: in host memory, read now; or, if `late`, in device memory, read in order. */
    const char *(*scale)(struct plait_queue *queue, enum plait_dtype type, void *to, const void *from, size_t count,
                         const void *scalar, bool late);

    /*
     * Pack arrays into a payload of this type and unpack them, as plait_pass(), in one launch each. zero()
     * clears one segment of the payload. sums: unpack() also computes, as plait_pass(), the sums that square_sum()
     * returns once unpack() is complete. factor: 1 for integers.
     */
    const char *(*make_packing)(int device, const struct plait_segment *segments, uint32_t n, enum plait_dtype payload,
                                bool sums, struct plait_packing **out);
    void (*free_packing)(struct plait_packing *packing); /* NULL is allowed; no queue may still use it */
    const char *(*pack)(struct plait_queue *queue, const struct plait_packing *packing, void *payload, double factor);
    const char *(*zero)(struct plait_queue *queue, const struct plait_packing *packing, void *payload,
                        uint32_t segment);
    const char *(*unpack)(struct plait_queue *queue, const struct plait_packing *packing, void *payload, double factor);
    /* *square: the sum of a segment's squares. False: some segment has an infinity or a NaN. */
    bool (*square_sum)(const struct plait_packing *packing, uint32_t segment, double *square);

    /* An optimiser's step, as lib/optim/optim.c. A step that is not finite or differs between ranks changes nothing. */
    const char *(*make_stepper)(int device, const struct plait_model *model, struct plait_stepper **out);
    void (*free_stepper)(struct plait_stepper *stepper); /* NULL is allowed; no queue may still use it */
    const char *(*step)(struct plait_queue *queue, const struct plait_stepper *stepper, const struct plait_stepping *s);
    /* *result (or NULL): of the latest complete step. Returns how many steps so far differed between ranks. */
    uint32_t (*stepped)(const struct plait_stepper *stepper, struct plait_optim_result *result);

    /* A recorded event is done once all work that was on the queue before it is complete; so is a new event. */
    const char *(*create_event)(int device, struct plait_event **out);
    void (*destroy_event)(struct plait_event *event); /* NULL is allowed */
    const char *(*record_event)(struct plait_queue *queue, struct plait_event *event);
    const char *(*wait_event)(struct plait_queue *queue,
                              struct plait_event *event); /* later work waits for the event */
    const char *(*event_done)(struct plait_event *event, bool *out);
};

#endif
