/* SPDX-License-Identifier: BSD-3-Clause */
/* A running operation on this rank: the call's data and its progress. A comm runs one operation at a time. */
#ifndef PLAIT_LIB_OPERATION_RUN_H
#define PLAIT_LIB_OPERATION_RUN_H

#include "operation.h"
#include "progress/wait.h"

/*
 * Variable block sizes (v-forms): elements in each slot of this rank's IN and OUT, and the elements where they start.
 */
struct plait_sizes {
    const size_t *in, *in_at, *out, *out_at;
    size_t most;   /* elements of the largest slot */
    size_t known;  /* elements of the largest block between two ranks if all ranks know it; else 0 */
    size_t in_end; /* end of IN, in elements from its start */
};

/*
 * Callbacks per slice, which overlap with the transfer of other slices. The prologue runs before any rank reads this
 * rank's data of the slice. The epilogue runs when the result of the slice is complete and no rank reads this rank's
 * data any more. [start, start + n) are elements of the vector, or of every block. Each element is passed once to each;
 * an operation that is not cut is one slice. They run in the default floating point environment and must not call the
 * API.
 */
struct plait_slice_work {
    void (*prologue)(void *arg, size_t start, size_t n); /* NULL: nothing */
    void (*epilogue)(void *arg, size_t start, size_t n);
    void *arg;
    bool scratch; /* only the epilogue reads OUT, at plait_slice_place(): few places, reused, stay cached */
};

/*
 * The element of OUT at which the slice that begins at `start` is stored. With scratch, slices reuse PLAIT_NSLICE
 * places; slices in flight have different ones, as they take turns.
 */
static inline size_t plait_slice_place(const struct plait_op_plan *o, const struct plait_slice_work *w, size_t start)
{
    return w->scratch ? start / o->selection.slice % PLAIT_NSLICE * o->selection.slice : start;
}

struct plait_job { /* a bound operation and the data of one call */
    const struct plait_op_plan *o;
    const void *in;
    void *out;
    const void *scale;        /* PLAIT_PREMULSUM: the scalar, read when the job begins; else NULL */
    bool late;                /* the scalar is read in the queue's order */
    double deadline;          /* seconds; 0: the comm's deadline */
    struct plait_sizes sizes; /* if o->vform */
    struct plait_slice_work work;
    struct plait_queue *queue; /* of a queued space, on which the work is put; else NULL */
};

static inline struct plait_job plait_job_of(const struct plait_op_plan *o, const struct plait_args *a,
                                            const struct plait_call *call)
{
    struct plait_job job = { .o = o, .in = a->in, .out = a->out, .queue = a->queue };

    if (a->sizes != NULL)
        job.sizes = *a->sizes;
    if (call != NULL) {
        job.scale = call->scale;
        job.late = call->scale_when == PLAIT_SCALE_LATE;
        job.deadline = call->deadline;
    }
    return job;
}

/*
 * Are block sizes variable and known to all ranks? Then all blocks have as many slices as the largest. If only the
 * sender and the receiver know a block's size, it has one message for each of its own slices.
 */
static inline bool plait_agrees_on_sizes(const struct plait_op_plan *o)
{
    return o->vform && plait_all_know_sizes(&o->geometry);
}

static inline uint64_t plait_job_slices(const struct plait_job *job)
{
    if (!job->o->vform || job->sizes.most == 0)
        return job->o->selection.nslice;
    return (job->sizes.most - 1) / job->o->selection.slice + 1;
}

/* Mixes the number of slices into the fingerprint, so that ranks that disagree on it detect the mismatch. */
static inline uint32_t plait_job_salt(const struct plait_job *job)
{
    return PLAIT_GUARDS && plait_agrees_on_sizes(job->o) ? (uint32_t)(plait_job_slices(job) - 1) * 0x85ebca6bu : 0;
}

/* A part of an operation made as a whole: a team runs a plan of the same collective. IN and OUT do not overlap. */
struct plait_inner {
    enum { PLAIT_INNER_NONE, PLAIT_INNER_ASKED, PLAIT_INNER_RUNS, PLAIT_INNER_DONE } state;
    const struct plait_team *team;
    enum plait_dtype type;
    size_t count;
    uint32_t root;
    const void *in;
    void *out;
};

struct plait_run {
    struct plait_comm *comm;
    const struct plait_op_plan *o; /* while a team's part of `outer` runs, that part */
    const struct plait_op_plan *outer;
    struct plait_inner inner;
    char *in, *out;
    struct plait_slice_work work;
    struct plait_wait wait;
    struct plait_wait queue_wait; /* for the first of comm->issued */

    struct plait_sizes sizes; /* if o->vform */

    /* For an eager operation, and for the small blocks of a split one. */
    uint64_t word;
    bool published;      /* this rank's data is published */
    bool single_copy;    /* IN must stay unchanged until all readers have read it */
    bool by_single_copy; /* a writer's data was read by single copy */
    bool finished;       /* this rank has read the data of all writers */
    uint32_t reader;     /* a rank that still reads the slot's previous data, or the single-copy data */
    uint32_t taken;      /* writers whose data has arrived */
    bool eager_pending;  /* split: the eager part is not done */
    bool engine_pending; /* split: there are large blocks too, and the engine is not done */

    bool whole; /* made by the space, not by the plan's steps */

    /* For the engine. */
    const struct plait_prog *prog;
    enum plait_channel channel;      /* of the messages */
    const struct plait_space *space; /* of the buffers; the next four are its working state */
    struct plait_slice *slices;      /* [PLAIT_NSLICE] slices in flight */
    struct plait_scaled *scaled;     /* for inputs that are scaled or copied elsewhere than in OUT */
    struct plait_target target;      /* on which the work is put */
    uint32_t fingerprint;            /* of the messages */
    uint64_t nslice, next_slice, done_slices;
    uint32_t nplace;       /* of `slices` that are used; in host memory all in turn, also by short operations */
    size_t need;           /* bytes of library memory for the largest slice */
    bool fits;             /* `need` bytes are available */
    bool streams;          /* copies to OUT use streaming stores */
    uint32_t wrong_sender; /* rank + 1 whose message has an unexpected size; 0: none */
    size_t wrong_bytes, expected_bytes;
};

#endif
