/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library asks of memory that the processor cannot address: of a GPU's.
 *
 * A plug-in is a shared object `plait-NAME.so` that exports one `const struct plait_device_plugin plait_device_plugin`,
 * loaded when a device is asked for (lib/plugin/plugin.h). It calls nothing of libplait. cuda/ is one.
 *
 * A *queue* is a stream of a device: what is put on it happens later, in order. Ranks order what they put on different
 * queues by *flags*, words in device memory that are 0 at rest: give() makes one 1 when all before it on its queue has
 * happened; take() holds its queue until the flag is 1 and makes it 0 again. No kernel ever waits for a flag.
 *
 * Functions return NULL, or why not: a text of the thread's that stays until its next call.
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

#define PLAIT_DEVICE_ABI    6 /* changes with what is below; a plug-in with another number is refused */
#define PLAIT_DEVICE_HANDLE 64

struct plait_spot { /* where memory lies */
    enum plait_memory kind;
    int device;     /* its number; -1: the host's */
    uint64_t base;  /* of DEVICE: the allocation; */
    uint64_t bytes; /* */
    uint64_t id;    /* no other allocation of this process has had or will have it */
};

struct plait_handle { /* by which another process maps an allocation */
    unsigned char bytes[PLAIT_DEVICE_HANDLE];
};

struct plait_combine { /* dst = the canonical combination of the sources; as plait_reduce_mixed() */
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

struct plait_stretch { /* of a payload: where an array's elements are in it, and where they come from */
    void *data;        /* [count] */
    enum plait_dtype type;
    uint64_t at; /* in the payload: elements */
    uint64_t count;
};

struct plait_model { /* of an optimiser; all memory is the device's */
    const struct plait_optim_options *options;
    float *momentum;  /* of all parts: */
    const size_t *at; /* [npart] where a part's begins */
    double *sums;     /* [nsum] as in lib/optim/optim.h; of LARS at all times */
};

struct plait_stepping { /* a step, or one half of it: the sums; what comes of them. Both are three launches */
    const struct plait_optim_step *step;
    bool sums, updates;
    bool look;      /* read norms of weights and momenta, which the caller may have written */
    double call;    /* tells it from others, see lib/optim/optim.h; */
    uint32_t nrank; /* that make it */
};

enum plait_queue_kind {
    PLAIT_QUEUE_THEIRS, /* the caller's stream */
    PLAIT_QUEUE_OWN,    /* made for what a caller without a stream asks for */
    /* made, and never behind a wait on any of the others, whatever these share: nothing on it waits */
    PLAIT_QUEUE_URGENT
};

struct plait_queue;
struct plait_mark;    /* a place on a queue */
struct plait_packing; /* stretches, in tables of the device's */
struct plait_stepper; /* a model, likewise */

struct plait_device_plugin {
    uint32_t abi;
    const char *name; /* "cuda" */

    /* Find the driver, once: at `path`, or, if that is "", by its usual name. */
    const char *(*open)(const char *path);
    /* The calling thread's current device; the first, where it has none. */
    const char *(*current)(int *device);

    /* Memory. alloc: zeroed. device -1: the calling thread's current one, or the first. */
    const char *(*place)(const void *memory, struct plait_spot *out);
    const char *(*alloc)(enum plait_memory kind, int device, size_t bytes, void **out);
    const char *(*free)(enum plait_memory kind, void *memory);

    /* Between processes: of an allocation's base. No process may map its own. */
    const char *(*lend)(const struct plait_spot *place, struct plait_handle *out);
    /* *taken, where it cannot be mapped: something that was freed is still mapped where it lies. */
    const char *(*map)(const struct plait_handle *handle, int device, void **out, bool *taken);
    const char *(*unmap)(void *mapped);
    /* Between devices of one process: from now on `device` can read and write memory of `other`. */
    const char *(*reach)(int device, int other);

    /*
     * native  of THEIRS: the caller's stream, which stays the caller's, NULL for the default one: of `device`, or, if
     *         that is -1, of whichever it is. Of the others: NULL, and `device` is where to make it
     */
    const char *(*open_queue)(enum plait_queue_kind kind, void *native, int device, struct plait_queue **out);
    void (*close_queue)(struct plait_queue *queue); /* NULL is allowed */
    int (*device_of)(const struct plait_queue *queue);
    uint64_t (*id_of)(const struct plait_queue *queue);          /* not 0; other streams never have it */
    const char *(*drain)(struct plait_queue *queue);             /* wait until all on it has happened */
    const char *(*query)(struct plait_queue *queue, bool *done); /* has it? */
    /* Which capture takes what is put on it, of all in this process; 0: it happens. */
    const char *(*capturing)(struct plait_queue *queue, uint64_t *capture);
    /* function(context) in its turn, by a thread that may call nothing of the device's */
    const char *(*call)(struct plait_queue *queue, void (*function)(void *context), void *context);

    const char *(*give)(struct plait_queue *queue, uint64_t flag);
    const char *(*take)(struct plait_queue *queue, uint64_t flag);
    const char *(*copy)(struct plait_queue *queue, void *to, const void *from, size_t bytes);
    const char *(*combine)(struct plait_queue *queue, const struct plait_combine *c);
    /* All in one go, as far as possible: none overlaps another. */
    const char *(*copies)(struct plait_queue *queue, const struct plait_copy *copies, size_t n);
    /* As plait_kernels.scale; scalar is the host's, read at the call, or, late, the device's, read in its turn. */
    const char *(*scale)(struct plait_queue *queue, enum plait_dtype type, void *to, const void *from, size_t count,
                         const void *scalar, bool late);

    /*
     * Arrays into a payload of this type and out of it, in one launch each, as plait_pass_convert(); zero() one of
     * them. look: what was unpacked can be looked at, once that has happened, as plait_pass_look(). factor: 1 for
     * integers.
     */
    const char *(*make_packing)(int device, const struct plait_stretch *stretches, uint32_t n, enum plait_dtype payload,
                                bool look, struct plait_packing **out);
    void (*free_packing)(struct plait_packing *packing); /* NULL is allowed; nothing on any queue uses it */
    const char *(*pack)(struct plait_queue *queue, const struct plait_packing *packing, void *payload, double factor);
    const char *(*zero)(struct plait_queue *queue, const struct plait_packing *packing, void *payload,
                        uint32_t stretch);
    const char *(*unpack)(struct plait_queue *queue, const struct plait_packing *packing, void *payload, double factor);
    /* The sum of a stretch's squares; false: there was an infinity or a NaN in any of them. */
    bool (*looked)(const struct plait_packing *packing, uint32_t stretch, double *square);

    /*
     * An optimiser's step, as lib/optim/optim.c. Where it is not finite, or not the same on all ranks, nothing changes.
     */
    const char *(*make_stepper)(int device, const struct plait_model *model, struct plait_stepper **out);
    void (*free_stepper)(struct plait_stepper *stepper); /* NULL is allowed; nothing on any queue uses it */
    const char *(*step)(struct plait_queue *queue, const struct plait_stepper *stepper, const struct plait_stepping *s);
    /* Of the latest step that has happened; returns how many there were up to now in which ranks differed. */
    uint32_t (*stepped)(const struct plait_stepper *stepper, struct plait_optim_result *result);

    /* A mark says how far a queue was when it was set last; new ones are passed. */
    const char *(*make_mark)(int device, struct plait_mark **out);
    void (*free_mark)(struct plait_mark *mark); /* NULL is allowed */
    const char *(*set_mark)(struct plait_queue *queue, struct plait_mark *mark);
    const char *(*follow)(struct plait_queue *queue, struct plait_mark *mark); /* what comes on it waits for the mark */
    const char *(*passed)(struct plait_mark *mark, bool *out);
};

#endif
