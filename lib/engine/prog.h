/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bound plan, which the engine runs. It is immutable, free of sizes and addresses, and kept for the comm's life.
 *
 * Binding numbers the messages, reverses the dependencies, and fuses steps. A RECV whose data only the next REDUCE
 * reads is *borrowed*: it copies nothing, the REDUCE reads the sender's memory, and the message is released when the
 * REDUCE is done. A whole canonical reduction tree of n sources becomes one n-source REDUCE.
 *
 * Fusing delays the release, so it must not add a deadlock. Either every other dependency of the REDUCE is an ancestor
 * of the RECV, or the comm's whole fused graph has been proved free of deadlock.
 */
#ifndef PLAIT_LIB_ENGINE_PROG_H
#define PLAIT_LIB_ENGINE_PROG_H

#include <plait/plan.h>

#include "plan/plan_check.h"

#define PLAIT_MOST_SOURCES 64 /* of one REDUCE; one bit each in 64-bit masks */

enum plait_fusing { PLAIT_FUSE_NONE, PLAIT_FUSE_LOCAL, PLAIT_FUSE_PROVED };

struct plait_source { /* an operand */
    struct plait_span span;
    uint32_t borrowed; /* the RECV whose message is read in place, or PLAIT_NONE */
    bool wide;         /* fp32 instead of a 16- or 8-bit type */
};

struct plait_instr {
    uint8_t verb;
    bool borrowed; /* RECV: a REDUCE reads the message, and releases it */
    bool final;    /* REDUCE: its result is the collective's result */
    bool wide;     /* the value moved or made is a partial sum kept in fp32 */
    bool mixed;    /* REDUCE: the result or an operand is wide */
    int32_t peer;
    uint32_t message; /* SEND, RECV: number within a slice, per peer and direction */
    uint32_t blk, nblk;
    struct plait_span dst;          /* not of a borrowed RECV */
    uint32_t source, nsource;       /* in prog->sources; SEND, COPY: 1; REDUCE: 2 or more, in canonical order */
    uint32_t stage;                 /* SEND: offset of its staged copy, in blocks; equal for equal data */
    uint32_t successor, nsuccessor; /* in prog->successors */
};

struct plait_prog {
    const struct plait_alg *alg;
    struct plait_prog *next;
    char spec[PLAIT_MAX_SPEC];
    uint64_t hash; /* of all ranks' plans, or of a sample */
    bool inplace;
    bool sliceable; /* plait_plan_sliceable(), of all ranks' plans */
    bool single;    /* plait_moves_single_blocks(): blocks may differ in size */
    uint32_t root;
    enum plait_round round;
    bool average;
    bool wide; /* some partial sums are wide: TMP and OUT also have fp32 slots */
    uint32_t nrank, nblk, ninstr;
    uint32_t ntmp;   /* TMP slots still used after fusing */
    uint32_t nstage; /* staging buffer of one slice, in blocks */
    struct plait_instr *instrs;
    struct plait_source *sources;
    uint32_t *successors;
    uint32_t *ndeps;         /* [ninstr], to copy at every start */
    uint32_t *nsend, *nrecv; /* [nrank] messages per slice and peer */
};

struct plait_proof {
    enum plait_fusing fusing; /* the most proved; above PLAIT_MOST_PROVED ranks PLAIT_FUSE_LOCAL, unproved */
    bool sliceable;           /* all ranks' plans are; false if not known */
    uint64_t hash;            /* of all ranks' plans, above PLAIT_MOST_PROVED ranks of a sample; ranks whose hashes
                                 differ have different libraries or algorithms */
};

/* Does the plan move single blocks, and only blocks of this rank's IN or OUT? It does not know other blocks' sizes. */
bool plait_moves_single_blocks(const struct plait_plan *plan);

/* Fuse a plan: step i runs together with step node[i]. */
enum plait_status plait_fuse(const struct plait_plan *plan, enum plait_fusing fusing, uint32_t *node);

/*
 * Emit and bind this rank's plan. Up to PLAIT_MOST_PROVED ranks it is fused as far as is proved free of deadlock
 * (PLAIT_ERR_PLAN when not even the plain plan is). Above, fusing is PLAIT_FUSE_LOCAL.
 *
 * round    DEFAULT for types that do not round. HOP: REDUCEs keep two sources, so that every reduction rounds. ONCE:
 *          partial sums that are stored or sent are wide.
 * average  mark the REDUCEs that make results `final`: they divide
 * proof    of all ranks' plans; zeroed: it is written, for the next rank
 */
enum plait_status plait_prog_create(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    uint32_t rank, enum plait_round round, bool average, struct plait_proof *proof,
                                    struct plait_prog **out);
void plait_prog_destroy(struct plait_prog *prog);

/* ---- Facts about all ranks' plans together (fuse.c) -------------------------------------------------------------- */

#define PLAIT_MOST_PROVED 64 /* ranks up to which bind proves the whole fused graph: 2 ms for 64 */

/*
 * The shape as all ranks know it. Only the rank itself knows whether it works in place. The library's plans have the
 * same messages either way, and a test proves that no mixture can deadlock (tests/mixture_test.c). A caller's algorithm
 * may send other values in place, so its plan is never in place (plait_select()).
 */
static inline struct plait_shape plait_common_shape(const struct plait_shape *shape)
{
    struct plait_shape common = *shape;

    common.inplace = false;
    return common;
}

/*
 * own    the plan that the algorithm emitted for this rank; it is proved with those that are emitted of the others
 * hop    do not fuse more than two sources
 * kinds  [nstep] PLAIT_VALUE_* of this rank's steps; NULL: not asked for
 * Errors: PLAIT_ERR_PLAN (even the plain plans can deadlock), PLAIT_ERR_UNSUPPORTED (one step has both partial sums
 *         and other values, which differ in width), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out);

#endif
