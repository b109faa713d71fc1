/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bound plan: what the engine runs. Immutable, free of sizes and addresses, kept for the comm's life.
 *
 * Binding numbers the messages, reverses the dependencies, and fuses: a RECV whose data only the next REDUCE reads is
 * not copied; the REDUCE reads the sender's memory (the RECV is *borrowed* and released when the REDUCE is done; what
 * lies where it is not mapped is landed first, and released then). A whole canonical combination of n sources becomes
 * one REDUCE of n. Fusing delays the release, so it is done only where it cannot change what waits for what: either
 * every other dependency of the REDUCE is an ancestor of the RECV, or the comm's whole fused graph has been proved free
 * of deadlock.
 */
#ifndef PLAIT_LIB_ENGINE_PROG_H
#define PLAIT_LIB_ENGINE_PROG_H

#include <plait/plan.h>

#include "plan/plan_check.h"

#define PLAIT_MOST_SOURCES 64 /* of one REDUCE */

enum plait_fusing { PLAIT_FUSE_NONE, PLAIT_FUSE_LOCAL, PLAIT_FUSE_PROVED };

/*
 * The k-th slot of a span as one number for each piece of memory: slots of OUT, of IN, of TMP. In place, slots of IN
 * and OUT with the same block are one.
 */
static inline uint32_t plait_place(const struct plait_plan *plan, const struct plait_geometry *g,
                                   struct plait_span span, uint32_t k)
{
    if (span.buf == PLAIT_TMP)
        return g->out.nslot + g->in.nslot + span.slot + k;
    if (span.buf == PLAIT_OUT)
        return span.slot + k;
    const uint32_t out =
        plan->inplace ? plait_side_slot(&g->out, g->in.blk + (span.slot + k) * g->in.stride) : UINT32_MAX;
    return out != UINT32_MAX ? out : g->out.nslot + span.slot + k;
}

/* How many there are. */
uint32_t plait_nplace(const struct plait_plan *plan);

/*
 * Do two spans of n slots share memory, but not slot by slot? Then a REDUCE must not read the one and write the other.
 */
bool plait_overlaps_shifted(const struct plait_plan *plan, const struct plait_geometry *g, struct plait_span x,
                            struct plait_span y, uint32_t n);

struct plait_source { /* an operand */
    struct plait_span span;
    uint32_t borrowed; /* the RECV whose message is read in place, or PLAIT_NONE */
    bool wide;         /* fp32 in the place of a 16- or 8-bit type */
};

struct plait_instr {
    uint8_t verb;
    bool borrowed; /* RECV: only its arrival matters; a REDUCE reads it, and releases it if it was not landed */
    bool sent;     /* REDUCE: other ranks read its result where it lies or from a copy */
    bool final;    /* REDUCE: its result is the collective's result */
    bool wide;     /* what it moves or makes is a partial sum kept in fp32 */
    bool mixed;    /* REDUCE: it is wide or an operand is */
    int32_t peer;
    uint32_t message; /* SEND, RECV: number within a slice, per peer and direction */
    uint32_t blk, nblk;
    struct plait_span dst;    /* borrowed RECV: where it is put if it is landed, TMP being memory for that */
    uint32_t source, nsource; /* in prog->sources; SEND, COPY: 1; REDUCE: 2 or more, in canonical order */
    uint32_t stage;           /* SEND: where its staged copy lies, in blocks; equal for equal data. REDUCE: that of the
                                 SENDs of its result, or PLAIT_NONE. */
    uint32_t readers;         /* SEND: how many SENDs have that copy */
    uint32_t ndep;            /* dependencies */
    uint32_t successor, nsuccessor; /* in prog->successors */
};

struct plait_prog {
    const struct plait_alg *alg;
    struct plait_prog *next;
    char spec[PLAIT_MAX_SPEC];
    uint64_t hash; /* of the plans of all ranks, or of a sample (prove.h) */
    bool inplace;
    bool sliceable; /* plait_plan_sliceable(), of all ranks' plans */
    bool single;    /* this rank's plan moves blocks one by one, its own ones only: they may differ in size */
    bool keeps;     /* plait_keeps_what_it_sends() */
    uint32_t root;
    enum plait_round round;
    bool average;
    bool wide; /* some partial sums are wide: TMP and OUT have slots of fp32 too */
    uint32_t nrank, nblk, ninstr;
    uint32_t ntmp;   /* TMP slots that are still used */
    uint32_t nstage; /* blocks of staging for one slice */
    uint32_t nland;  /* blocks that borrowed RECVs take where they are landed */
    struct plait_instr *instrs;
    struct plait_source *sources;
    uint32_t *successors;
    uint16_t *ndeps;         /* [ninstr], to copy at every start */
    uint32_t *nsend, *nrecv; /* [nrank] messages per slice and peer */
};

/* Blocks one by one, and only such as its rank gives or gets: of the others it does not know the size. */
bool plait_moves_single_blocks(const struct plait_plan *plan);

/* Does this rank send only what it has when it begins, and copies some of that itself? */
bool plait_keeps_what_it_sends(const struct plait_plan *plan);

/* Fuse a plan: node[i] is the step that step i is done together with. */
enum plait_status plait_fuse(const struct plait_plan *plan, enum plait_fusing fusing, uint32_t *node);

/*
 * Prove that the comm's plans, fused like this on every rank, cannot deadlock when sends wait for their
 * receives and at most PLAIT_WINDOW messages are on the way from one rank to another.
 *
 * out    is it so?
 */
enum plait_status plait_prog_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                   enum plait_fusing fusing, bool *out);

/*
 * Emit and bind this rank's plan. Up to 64 ranks it is fused as far as is proved free of deadlock
 * (PLAIT_ERR_PLAN when not even the plain plan is), above as PLAIT_FUSE_LOCAL.
 *
 * round  DEFAULT for types that do not round. HOP: nothing of more than two sources is fused, so that every
 *        combination rounds. ONCE: partial sums that are stored or travel are wide.
 * average  the REDUCEs that make results are marked `final`: they divide
 */
enum plait_status plait_prog_create(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    uint32_t rank, enum plait_round round, bool average, struct plait_prog **out);
void plait_prog_destroy(struct plait_prog *prog);

/*
 * Bind every rank's plan like this, turn what comes out back into steps, and prove these as plans are proved, whether
 * messages are read in place or staged. Errors: PLAIT_ERR_PLAN: binding made something else of the plans. Cost: as
 * plait_prog_create() for each rank.
 */
enum plait_status plait_prog_check(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                   enum plait_round round, bool average);

/* The same of bound plans, progs[r] of rank r. */
enum plait_status plait_progs_check(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    struct plait_prog *const *progs);

#endif
