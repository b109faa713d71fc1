/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room operation: a collective as a value, before and while it runs.
 *
 * arguments.h holds and checks the arguments of a call. struct plait_op_plan holds all choices made at the first call
 * of an operation: algorithm, path, slices, rounding, bound plan, fingerprint. It is cached for the next equal call.
 * struct plait_job is a call of it, struct plait_run its progress, struct plait_slice one of its slices in flight. A
 * comm runs one operation at a time.
 *
 * The room promises: all choices follow from the arguments and from facts that all ranks know, so all ranks choose
 * alike. Messages carry the fingerprint, which exposes a mismatch.
 *
 * This room neither chooses nor runs: engine/ and eager/ do.
 */
#ifndef PLAIT_LIB_OPERATION_OPERATION_H
#define PLAIT_LIB_OPERATION_OPERATION_H

#include "arguments.h"
#include "comm/comm.h"
#include "progress/progress.h"

#include <stdlib.h>
#include <string.h>

struct plait_selection {
    const struct plait_alg *alg;
    char spec[PLAIT_MAX_SPEC];
    bool eager;   /* eager path, without the engine (eager.c) */
    size_t split; /* blocks up to this many bytes take the eager path (eager.c), larger ones the engine; 0: no split */
    size_t slice; /* elements */
    uint64_t nslice;
    enum plait_round round;
    bool divides; /* average: every rank divides its input before the sum */
    bool whole;   /* the space may compute the results without the plan's steps (space.h) */
    uint64_t plan_hash;
    const char *why;
    const struct plait_pick *pick; /* by which the algorithm was chosen (engine/model.h); or NULL */
};

/* Are scaled or divided inputs written to OUT before the sum? Only in an allreduce, else to other memory. */
static inline bool plait_scales_inplace(enum plait_coll coll)
{
    return coll == PLAIT_ALLREDUCE;
}

/* Does the plan run in place? That of an all-to-all does not: the input is copied first. */
static inline bool plait_works_inplace(enum plait_coll coll, bool alias, const struct plait_call *call)
{
    return coll != PLAIT_ALLTOALL && (call == NULL || call->scale == NULL ? alias : plait_scales_inplace(coll));
}

/* The part of one rank in an eager operation. */
struct plait_eager_plan {
    struct plait_ranks from, to; /* its writers; its readers: all other ranks, the root or none */
    bool keeps;                  /* part of OUT is a copy from this rank's IN */
    bool single_copy;            /* long enough that readers read library memory in place */
    uint32_t turn;               /* number of slots of this size, minus 1 */
    size_t entries;              /* offset of the first slot (plait_eager_entry) in a control block */
    size_t data, apart;          /* offset of the first slot's data; distance to the next slot's */
    size_t bytes;                /* most bytes that a writer puts into a slot */
    bool parts;                  /* one part per reader, else one for all */
    size_t part;                 /* distance from one part to the next */
    size_t head;                 /* bytes before each part that hold its size (variable block sizes) */
    size_t room;                 /* bytes of the largest eager block; larger blocks leave only their size */
    size_t at;                   /* offset in IN of this rank's own block */
    size_t stride;               /* the block from rank r goes to OUT at r * stride */
};

struct plait_team { /* ranks of a comm that run a plan, as the ranks 0 .. n-1 of the plan */
    uint32_t n, me;
    const uint32_t *ranks; /* [n]; NULL: all of the comm */
    const uint32_t *node;  /* [n] or NULL, as in struct plait_shape */
    uint32_t nlevel;       /* likewise */
    const uint32_t *level;
};

/* The arguments of an operation and all choices for it; cached for the next equal call. */
struct plait_op_plan {
    struct plait_key key;
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op;
    uint32_t root;
    bool inplace;
    bool aside;   /* the call is in place, its plan is not: a reduction copies its input */
    bool vform;   /* variable block sizes, given by each call */
    size_t count; /* elements of the vector or of a block (geometry.kind); vform: of the largest, 0 if not eager */
    bool plain;   /* the call had no options */
    struct plait_call call;     /* without pointers */
    char asked[PLAIT_MAX_SPEC]; /* call->algorithm, or "" */

    struct plait_selection selection;
    struct plait_geometry geometry;
    uint32_t fingerprint;
    struct plait_eager_plan eager; /* if eager or split */
    size_t size;                   /* bytes of an element */
    size_t bytes;                  /* of `count` elements */
    size_t in_bytes, out_bytes;    /* of this rank's IN and OUT */
    ptrdiff_t place;               /* offset of IN from OUT in place, in bytes; PTRDIFF_MIN: no form in place */
    struct plait_how inner, last;  /* for reductions to a partial result; for the last reduction */
    plait_reduce_fn reduce;
    struct plait_prog *prog;         /* NULL when eager */
    struct plait_tally *tally;       /* counts its runs and their bytes, but for v-forms' */
    struct plait_what what;          /* record for the ring of recent operations */
    const struct plait_space *space; /* of the buffers */
    struct plait_op_plan *of_team;   /* the part of it that a team runs (struct plait_inner); NULL: not needed yet */

    uint32_t users; /* requests that use this plan; it is freed only at 0 */
    bool forgotten; /* evicted from the cache: the last user frees it */
};

static inline void plait_op_plan_free(struct plait_op_plan *o) /* NULL is allowed */
{
    if (o != NULL)
        free(o->of_team);
    free(o);
}

/* Is this a 16- or 8-bit float, whose results are rounded? */
static inline bool plait_rounds(enum plait_dtype type)
{
    return type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT8E4M3 || type == PLAIT_FLOAT8E5M2;
}

/* Elements as bytes, for all rooms. wide: partial results of a narrower type, kept in fp32. */
static inline size_t plait_op_bytes(const struct plait_op_plan *o, size_t elements, bool wide)
{
    return elements * (wide ? sizeof(float) : o->size);
}

/* The word that identifies an operation within its comm. */
static inline uint64_t plait_word(const struct plait_op_plan *o, uint64_t sequence)
{
    return PLAIT_GUARDS ? (uint64_t)o->fingerprint << 32 | (uint32_t)sequence : (uint32_t)sequence;
}

/* Differs per sequence: a message left over from a mismatched call does not match the next equal operation. */
static inline uint32_t plait_message_fingerprint(const struct plait_op_plan *o, uint64_t sequence)
{
    return PLAIT_GUARDS ? o->fingerprint + (uint32_t)sequence * 0x9e3779b1u : 0;
}

/* ---- Is it the same call again? ---------------------------------------------------------------------------- */

static inline bool plait_same_wishes(const struct plait_op_plan *o, const struct plait_call *call)
{
    const struct plait_user_op *user = call->user;

    return o->call.slice == call->slice && o->call.round == call->round && o->call.reproducible == call->reproducible &&
           o->call.mark == call->mark && strcmp(o->asked, call->algorithm != NULL ? call->algorithm : "") == 0 &&
           (user == NULL || (o->last.combine == user->combine && o->last.context == user->context &&
                             o->what.ordered == !user->commutative));
}

/* Does `o` match this operation, apart from the count and from in place or not? `call` NULL: without options. */
static inline bool plait_resembles(const struct plait_op_plan *o, const struct plait_args *a,
                                   const struct plait_call *call)
{
    return plait_same_key(o->key, plait_key(a)) && (call != NULL ? plait_same_wishes(o, call) : o->plain);
}

/* Is `o` this operation? */
static inline bool plait_fits(const struct plait_op_plan *o, const struct plait_args *a, const struct plait_call *call)
{
    return o->count == a->count && o->inplace == a->inplace && plait_resembles(o, a, call);
}

/* ---- A call, and its progress ------------------------------------------------------------------------------ */

/*
 * Variable block sizes (v-forms): elements in each slot of this rank's IN and OUT, and the elements where they start.
 * The four lie in one array [4][nrank], in this order.
 */
struct plait_sizes {
    const size_t *in, *in_at, *out, *out_at;
    size_t most;            /* elements of the largest slot */
    size_t known;           /* elements of the largest block between two ranks if all ranks know it; else 0 */
    size_t in_end, out_end; /* ends of IN and OUT, in elements from their starts */
};

static inline void plait_sizes_lie_at(struct plait_sizes *s, const size_t *numbers, uint32_t nrank)
{
    s->in = numbers;
    s->in_at = s->in + nrank;
    s->out = s->in_at + nrank;
    s->out_at = s->out + nrank;
}

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
    struct plait_op_plan *o;
    const void *in;
    void *out;
    const void *scale;        /* PLAIT_PREMULSUM: the scalar, read when the job begins; else NULL */
    bool late;                /* the scalar is read in the queue's order */
    double deadline;          /* seconds; 0: the comm's deadline */
    struct plait_sizes sizes; /* if o->vform */
    struct plait_slice_work work;
    struct plait_queue *queue; /* of a queued space, on which the work is put; else NULL */
};

static inline struct plait_job plait_job_of(struct plait_op_plan *o, const struct plait_args *a,
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
 * Do only the sender and the receiver know a block's size? Then it has one message for each of its own slices. If all
 * ranks know all sizes, all blocks have as many slices as the largest.
 */
static inline bool plait_by_pairs(const struct plait_op_plan *o)
{
    return o->vform && !plait_all_know_sizes(&o->geometry);
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
    return PLAIT_GUARDS && job->o->vform && !plait_by_pairs(job->o)
               ? (uint32_t)(plait_job_slices(job) - 1) * 0x85ebca6bu
               : 0;
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
    bool published;                      /* this rank's data is published */
    bool single_copy;                    /* IN must stay unchanged until all readers have read it */
    bool by_single_copy;                 /* a writer's data was read by single copy */
    bool finished;                       /* this rank has read the data of all writers */
    uint32_t reader;                     /* a rank that still reads the slot's previous data, or the single-copy data */
    uint32_t taken;                      /* writers whose data has arrived */
    bool eager_pending;                  /* split: the eager part is not done */
    bool engine_pending;                 /* split: there are large blocks too, and the engine is not done */
    const void *from[PLAIT_EAGER_RANKS]; /* of a reduction: each rank's data */

    bool whole; /* made by the space, not by the plan's steps */

    /* For the engine. */
    const struct plait_prog *prog;
    const uint32_t *ranks;           /* [prog->nrank] the plan's ranks in the comm; NULL: the same */
    enum plait_channel channel;      /* of the messages */
    const struct plait_space *space; /* of the buffers; the next four are its working state */
    struct plait_slice *slices;      /* [PLAIT_NSLICE] slices in flight */
    struct plait_room *scaled;       /* for inputs that are scaled or copied elsewhere than in OUT */
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

/* Elements of the vector or of the largest block. */
static inline size_t plait_run_count(const struct plait_run *run)
{
    return run->o->vform ? run->sizes.most : run->o->count;
}

/* Elements of the slice that begins at `start`. */
static inline size_t plait_run_slice(const struct plait_run *run, size_t start)
{
    const size_t left = plait_run_count(run) - start;
    return left < run->o->selection.slice ? left : run->o->selection.slice;
}

/* ---- Slices in flight (host_space.c) ---------------------------------------------------------------------------- */

struct plait_unread_range { /* messages whose staging buffers one peer may still read */
    uint32_t first, end;
};

struct plait_slice {
    /* Place in the vector. */
    uint64_t slice;
    size_t start;   /* first element, in the vector or in each block */
    size_t n;       /* elements per block if all blocks have the same size; else 0 */
    size_t q, r;    /* distance of slots of IN and OUT in elements: q + 1 for the first r slots, then q */
    char *in, *out; /* the first element */
    uint32_t done;  /* finished instructions; == prog->ninstr: idle */

    /*
     * Library memory, [bytes], and the part in use: TMP slots, fp32 slots of TMP and OUT, staging buffers. Small slices
     * rotate through the memory: a peer's cache still holds the cache lines that it has just read, and writing to
     * these would wait for the peer.
     */
    char *memory, *tmp, *wide_tmp, *wide_out, *stage;
    size_t bytes, used;
    size_t tmp_stride; /* of a slot of tmp */
    size_t stride;     /* of a slot of wide_tmp and of a staging buffer */

    /* [capacity] instructions each, in one allocation that begins with `message`. */
    uint32_t capacity, nstage;
    uint32_t *pending;    /* unfinished dependencies */
    const void **message; /* borrowed RECV: the bytes in the sender's memory */
    uint32_t *ready;      /* instructions to start, in the order in which they became ready */
    uint32_t first_ready, end_ready;
    uint32_t *receiving, nreceiving; /* RECVs started, in program order */
    uint32_t *sending, nsending;     /* SENDs offered and not yet released */
    uint32_t *blocked, nblocked;     /* SENDs that wait for room in the window */
    bool *staged;                    /* [nstage] per block: it is in its staging buffer */

    struct plait_unread_range *unread; /* [nrank] of the last use of this place */
};

enum plait_status plait_slices_create(uint32_t nrank, struct plait_slice **out);
void plait_slices_destroy(struct plait_slice *slices);

/* Bytes of library memory of all slices; and freeing this memory, when no peer reads it any more. */
size_t plait_slices_bytes(const struct plait_slice *slices);
void plait_slices_empty(struct plait_comm *comm);

#endif
