/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room operation: a collective as a value, before and while it runs.
 *
 * arguments.h has what a call asks for, and says what is wrong with it. struct plait_op_plan is everything that was
 * chosen for an operation at its first call: algorithm, path, slices, rounding, bound plan, fingerprint. It is kept,
 * so that the next equal call finds it. run.h is an operation in progress; slices.h are its slices in flight.
 *
 * The room promises: what is chosen follows from the arguments and from what all ranks know, so all ranks choose
 * alike. The fingerprint says so on the wire.
 *
 * It does not choose and does not run: engine/ and eager/ do.
 */
#ifndef PLAIT_LIB_OPERATION_OPERATION_H
#define PLAIT_LIB_OPERATION_OPERATION_H

#include "arguments.h"
#include "comm/comm.h"

struct plait_selection {
    const struct plait_alg *alg;
    char spec[PLAIT_MAX_SPEC];
    bool eager;   /* one step, without the engine (eager.c) */
    size_t split; /* bytes of the largest block between two ranks that goes as in eager.c beside the engine; 0: none */
    bool once;    /* every receive is a copy or combined at a root, and few enough bytes for plait_copies_once() */
    size_t slice; /* elements */
    uint64_t nslice;
    enum plait_round round;
    bool divides; /* an average of which every rank divides its input before it is summed */
    uint64_t plan_hash;
    const char *why;
};

/* Where inputs are scaled or divided before they are summed: into OUT of an all-reduce, else elsewhere. */
static inline bool plait_scales_inplace(enum plait_coll coll)
{
    return coll == PLAIT_ALLREDUCE;
}

/* Is what is combined in place? */
static inline bool plait_works_inplace(enum plait_coll coll, bool alias, const struct plait_call *call)
{
    return call == NULL || call->scale == NULL ? alias : plait_scales_inplace(coll);
}

/* What a rank does in an eager operation. */
struct plait_eager_plan {
    struct plait_ranks from, to; /* whom it takes from; who takes from it: all others, the root or nobody */
    bool takes;                  /* it has an OUT; */
    bool keeps;                  /* and part of it is of its own IN, only copied */
    bool lends;                  /* library memory is read where it lies: it is long enough; */
    bool timed;                  /* else it is measured how to write it */
    uint32_t turn;               /* slots of its size, less one */
    size_t given;                /* in a control block, where these begin; */
    size_t data, apart;          /* and the data of the first; from each to the next; */
    size_t bytes;                /* that each who gives puts there, at most */
    bool parts;                  /* a part for each who takes, else one for all; */
    size_t part;                 /* from each to the next; */
    bool beside;                 /* where blocks differ in size: the bytes of each are beside the word, */
    size_t head;                 /* or in so many bytes before its part; */
    size_t room;                 /* bytes of the largest block that goes there: of others there is the head alone */
    size_t at;                   /* in IN, what it takes of its own */
    size_t stride;               /* OUT takes what is from rank r at r * stride */
};

/* An operation's arguments and everything chosen for it; kept, so that the next equal call finds it. */
struct plait_op_plan {
    struct plait_key key;
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op;
    uint32_t root;
    bool inplace;
    bool sized;   /* blocks differ in size, as each call says */
    size_t count; /* elements of the vector, or of a block (geometry.kind); sized: of the largest, 0 if not eager */
    bool plain;   /* made for a call without options */
    struct plait_call call; /* algorithm points to `asked` */
    char asked[PLAIT_MAX_SPEC];

    struct plait_selection selection;
    struct plait_geometry geometry;
    double factor; /* of a fusion's sums; else 0 */
    uint32_t fingerprint;
    struct plait_eager_plan eager; /* of an eager one */
    size_t size;                   /* bytes of an element */
    size_t in_bytes, out_bytes;    /* of this rank's buffers */
    ptrdiff_t place;              /* where IN begins from OUT when it is in place; PTRDIFF_MIN: there is no such form */
    struct plait_how inner, last; /* of combinations whose result is partial; of the last */
    plait_reduce_fn reduce;
    struct plait_prog *prog; /* NULL when eager */
    struct plait_claim claim;
    struct plait_tally *tally;
    uint64_t runs;          /* not yet in the tally */
    struct plait_what what; /* for the ring */
    bool device;            /* its buffers are in a device's memory */

    uint32_t users; /* requests that run it; while there are any it stays */
    bool forgotten; /* and goes with the last, as another operation has its place */
};

/* What tells an operation from every other of the comm. */
static inline uint64_t plait_word(const struct plait_op_plan *o, uint64_t sequence)
{
    return PLAIT_GUARDS ? (uint64_t)o->fingerprint << 32 | (uint32_t)sequence : (uint32_t)sequence;
}

/* Of its messages: one that nobody took, as the call differed, is not taken for that of the next equal operation. */
static inline uint32_t plait_message_fingerprint(const struct plait_op_plan *o, uint64_t sequence)
{
    return PLAIT_GUARDS ? o->fingerprint + (uint32_t)sequence * 0x9e3779b1u : 0;
}

#endif
