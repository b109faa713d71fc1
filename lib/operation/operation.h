/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room operation: a collective as a value, before and while it runs.
 *
 * arguments.h holds and checks the arguments of a call. struct plait_op_plan holds all choices made at the first call
 * of an operation: algorithm, path, slices, rounding, bound plan, fingerprint. It is cached for the next equal call.
 * run.h is an operation in progress; slices.h has its slices in flight.
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

#include <stdlib.h>

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
    bool beside;                 /* variable block sizes: the sizes are in the word's cache line */
    size_t head;                 /* else bytes before each part that hold its size */
    size_t room;                 /* bytes of the largest eager block; larger blocks leave only their size */
    size_t at;                   /* offset in IN of this rank's own block */
    size_t stride;               /* the block from rank r goes to OUT at r * stride */
};

struct plait_team { /* ranks of a comm that run a plan, as the ranks 0 .. n-1 of the plan */
    uint32_t n, me;
    const uint32_t *ranks; /* [n]; NULL: all of the comm */
    const uint32_t *node;  /* [n] or NULL, as in struct plait_shape */
};

/* The arguments of an operation and all choices for it; cached for the next equal call. */
struct plait_op_plan {
    struct plait_key key;
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op;
    uint32_t root;
    bool inplace;
    bool vform;   /* variable block sizes, given by each call */
    size_t count; /* elements of the vector or of a block (geometry.kind); vform: of the largest, 0 if not eager */
    bool plain;   /* the call had no options */
    struct plait_call call;     /* without pointers */
    char asked[PLAIT_MAX_SPEC]; /* call->algorithm, or "" */

    struct plait_selection selection;
    struct plait_geometry geometry;
    double factor; /* scale of a fusion's sums; else 0 */
    uint32_t fingerprint;
    struct plait_eager_plan eager; /* if eager or split */
    size_t size;                   /* bytes of an element */
    size_t bytes;                  /* of `count` elements */
    size_t in_bytes, out_bytes;    /* of this rank's IN and OUT */
    ptrdiff_t place;               /* offset of IN from OUT in place, in bytes; PTRDIFF_MIN: no form in place */
    struct plait_how inner, last;  /* for reductions to a partial result; for the last reduction */
    plait_reduce_fn reduce;
    struct plait_prog *prog; /* NULL when eager */
    struct plait_tally *tally;
    uint64_t runs;                   /* runs not yet added to the tally */
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

#endif
