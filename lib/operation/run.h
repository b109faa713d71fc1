/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation that runs on this rank: what belongs to the call, and how far it is. A comm has one at a time. */
#ifndef PLAIT_LIB_OPERATION_RUN_H
#define PLAIT_LIB_OPERATION_RUN_H

#include "operation.h"
#include "progress/wait.h"

/*
 * Blocks of different sizes (the v-forms): elements in the slots of this rank's IN and OUT, and where they start.
 */
struct plait_sizes {
    const size_t *in, *in_at, *out, *out_at;
    size_t most;   /* in any of them; */
    size_t known;  /* in any that one rank gives another, where all ranks know that; else 0 */
    size_t in_end; /* of IN: elements from its start */
};

/*
 * What else a caller has to do with each element, slice by slice, while other slices are on their way: the prologue,
 * before anything that this rank gives of the slice is read; the epilogue, when what it gets is there and nobody reads
 * any more what it gave. [start, start + n) are elements of the vector, or of every block. Each element has each once;
 * what is not cut is one slice. They run in the default floating point environment and call nothing of the API.
 */
struct plait_slice_work {
    void (*prologue)(void *arg, size_t start, size_t n); /* NULL: nothing */
    void (*epilogue)(void *arg, size_t start, size_t n);
    void *arg;
    bool scratch; /* OUT is the epilogue's alone, which finds a slice at plait_slice_place(): it stays in the cache */
};

/*
 * Element of OUT where the slice lies that begins at `start` of the vector, or of every block. Of scratch the places of
 * slices that are done are used again: those of slices in flight differ, as flights are taken in turn.
 */
static inline size_t plait_slice_place(const struct plait_op_plan *o, const struct plait_slice_work *w, size_t start)
{
    return w->scratch ? start / o->selection.slice % PLAIT_NFLIGHT * o->selection.slice : start;
}

struct plait_job { /* what is to run: bound, and what belongs to one call */
    const struct plait_op_plan *o;
    const void *in;
    void *out;
    const void *scale;        /* PLAIT_PREMULSUM: the scalar, read when it begins; else NULL */
    bool late;                /* of a device's job: the scalar is memory that it reads in its turn */
    double deadline;          /* seconds; 0: the comm's */
    struct plait_sizes sizes; /* of o->sized */
    struct plait_slice_work work;
    struct plait_queue *queue; /* of the device whose memory the buffers are; NULL: the processor's */
};

/*
 * Blocks may differ in size, and all ranks know all sizes: then all have the slices of the largest. Else a block's
 * size is known to the two whom it concerns, and there is a message for each slice of it, and no more.
 */
static inline bool plait_agrees_on_sizes(const struct plait_op_plan *o)
{
    return o->sized && o->geometry.kind == PLAIT_KIND_PART && !o->geometry.rooted;
}

static inline uint64_t plait_job_slices(const struct plait_job *job)
{
    if (!job->o->sized || job->sizes.most == 0)
        return job->o->selection.nslice;
    return (job->sizes.most - 1) / job->o->selection.slice + 1;
}

/* What fingerprints differ by where such slices are several: ranks that count others would not hear of it. */
static inline uint32_t plait_job_salt(const struct plait_job *job)
{
    return PLAIT_GUARDS && plait_agrees_on_sizes(job->o) ? (uint32_t)(plait_job_slices(job) - 1) * 0x85ebca6bu : 0;
}

struct plait_run {
    struct plait_comm *comm;
    const struct plait_op_plan *o;
    char *in, *out;
    struct plait_slice_work work;
    struct plait_wait wait;
    struct plait_wait held; /* for the host stream of the first pending operation, see plait_request_held_up() */

    struct plait_sizes sizes; /* of o->sized */

    /* Of an eager operation, and of the small blocks of one that is split. */
    uint64_t word;
    bool given;     /* what this rank gives is where the others take it, */
    bool lends;     /* in its own memory, until all have taken it; */
    bool finished;  /* and it has taken all others' */
    uint32_t late;  /* who still reads: what was there before, or what is lent */
    uint32_t taken; /* ranks whose vectors are there */
    bool slots;     /* of one that is split: they are not done */
    bool rest;      /* of one that is split: there are large blocks too, and the engine is not done */

    /* The engine's. */
    const struct plait_prog *prog;
    enum plait_channel channel;   /* of its messages */
    struct plait_flight *flights; /* [PLAIT_NFLIGHT] its slices; the comm's, or of what it has on a device */
    struct plait_queue *queue;    /* of a device (device_run.h); NULL: the processor works */
    uint64_t capture;             /* of a graph that what is put there goes into; 0: none */
    uint32_t fingerprint;         /* of its messages */
    uint64_t nslice, next_slice, done_slices;
    uint64_t at_once; /* slices in flight, at most */
    bool stages;      /* some message to some rank */
    size_t need;      /* library memory of the largest slice */
    bool fits;        /* there is room for it */
    bool lands;       /* senders may lend what a REDUCE reads */
    unsigned way;     /* of writing: enum plait_way */
    bool timed;       /* measure `busy` */
    double busy;      /* seconds spent copying and reducing before the first message came */
    double began;     /* clock when it came; from then on waiting counts too, as the others' writing causes it */
    uint32_t wrong;   /* rank + 1 whose message has another size than expected; 0: none */
    size_t wrong_bytes, expected_bytes;
};

/* Elements of the vector, or of the largest block. */
static inline size_t plait_run_count(const struct plait_run *run)
{
    return run->o->sized ? run->sizes.most : run->o->count;
}

/* Elements of the slice that begins with this one. */
static inline size_t plait_run_slice(const struct plait_run *run, size_t start)
{
    const size_t left = plait_run_count(run) - start;
    return left < run->o->selection.slice ? left : run->o->selection.slice;
}

/* Bytes of the vector, or of a buffer of blocks all of which are as big as the largest. */
static inline size_t plait_run_bytes(const struct plait_run *run)
{
    const struct plait_op_plan *o = run->o;
    return plait_run_count(run) * o->size * (o->geometry.kind == PLAIT_KIND_VECTOR ? 1 : run->comm->nrank);
}

#endif
