/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans: every collective as data.
 *
 * An algorithm is a pure function that writes one rank's steps with a builder. A step names blocks of the vector in
 * three buffers; it holds no pointers, bytes, types or tags. The same plan is checked (plait_plan_check), printed,
 * simulated and run.
 *
 * Thread: any function here in any thread; no two at once with the same builder, and none with a plan that is being
 *         destroyed.
 *
 * Writing an algorithm: fill a `struct plait_alg` and emit moves in program order; the builder derives the
 * dependencies. algorithms/decompose.c is the model, docs/CONTRIBUTING.md the recipe.
 *
 *     static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
 *                      uint32_t me)
 *     {
 *         plait_blocks(b, 1, 1);                           two ranks swap and add
 *         plait_emit_send(b, !me, plait_in(0), 0, 1);
 *         plait_emit_recv(b, !me, plait_tmp(0), 0, 1);
 *         plait_emit_reduce(b, plait_out(0), me ? plait_tmp(0) : plait_in(0),
 *                      me ? plait_in(0) : plait_tmp(0), 0, 1);
 *     }
 */
#ifndef PLAIT_PLAN_H
#define PLAIT_PLAN_H

#include <plait/coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plait_verb { PLAIT_STEP_SEND, PLAIT_STEP_RECV, PLAIT_STEP_COPY, PLAIT_STEP_REDUCE, PLAIT_NVERB };
enum plait_buf { PLAIT_IN, PLAIT_OUT, PLAIT_TMP, PLAIT_NBUF };

/*
 * A place in a buffer; `slot` counts blocks. The collective's geometry (plait_geometry_of) says which block a slot of
 * IN or OUT holds; in an all-reduce slot b holds block b. A step of n blocks uses slots slot .. slot+n-1. A TMP slot
 * has room for the largest block. Where blocks may differ in size (PLAIT_KIND_VECTOR), blocks written into TMP by one
 * step are read from the same first slot with the same first block.
 */
struct plait_span {
    uint32_t buf : 2, slot : 30;
};

struct plait_step { /* one step of one rank */
    uint8_t verb;
    uint8_t lane; /* 0 .. nlane-1: rail, thread block or stream */
    uint16_t ndep;
    int32_t peer;                /* SEND, RECV: rank in the comm, else -1 */
    uint32_t blk, nblk;          /* the logical blocks, which give the size. blk may be PLAIT_AS_LIES */
    struct plait_span dst, a, b; /* SEND reads a; RECV writes dst; COPY dst <- a; REDUCE dst <- a op b */
    uint32_t dep0;               /* first of ndep entries in the dependency array */
};

/*
 * Instead of a first block: the contents of the TMP slots, which need not be consecutive blocks. For SEND, RECV and
 * COPY from TMP to TMP, in collectives whose blocks all have the same size.
 */
#define PLAIT_AS_LIES UINT32_MAX

/*
 * One allocation without pointers: memcpy it anywhere. The array order is topological: a dependency is an earlier step.
 * The k-th SEND from s to r on a lane pairs with the k-th RECV at r from s on that lane.
 *
 * At most 16 messages are on the way from one rank to another (the window). A further one waits until the receiver has
 * taken the one 16 before, counted lane by lane. If that leads to deadlock, because lanes are taken in quite another
 * order than sent, the plan is refused at its first use (checked up to 64 ranks).
 */
struct plait_plan {
    uint32_t nrank, rank;
    uint32_t nblk; /* logical blocks of the vector */
    uint32_t ntmp; /* TMP slots, each as big as the largest block */
    uint32_t nstep, ndep;
    uint32_t root;  /* of a rooted collective, else 0 */
    uint32_t bytes; /* of this allocation */
    uint8_t coll, inplace, nlane, version;
#ifndef __cplusplus
    struct plait_step step[]; /* nstep steps, then ndep uint32_t dependencies */
#endif
};

#define PLAIT_PLAN_VERSION 1
#define PLAIT_MAX_PARAM    8
#define PLAIT_MAX_LEVELS   5
#define PLAIT_MOST_SLOTS   (1u << 22) /* of TMP; a vector has no more blocks either */
#define PLAIT_MAX_SPEC     64         /* bytes of an algorithm's spec such as "torus:4x8", with the final 0 */

/* The inputs of an algorithm. Equal on all ranks of a collective. */
struct plait_shape {
    enum plait_coll coll;
    uint32_t nrank;
    uint32_t root;        /* rooted collectives; else 0 */
    bool inplace;         /* IN aliases OUT on this rank; in plait_plan_check() each plan may be so or not */
    const uint32_t *node; /* [nrank] node of each rank, any numbers; NULL: all on one node */
    /*
     * Groups of ranks that are near each other, nested, innermost level first: who shares a cache, a memory node, a
     * package, a host, a rack. level[l * nrank + r] is the group of rank r, any number; each group lies in one group of
     * the next level. Levels that divide no group are left out. nlevel 0: `node` is the only level.
     */
    uint32_t nlevel;
    const uint32_t *level; /* [nlevel * nrank] */
    uint32_t nparam;
    uint32_t param[PLAIT_MAX_PARAM]; /* the numbers of the algorithm's spec: torus:4x8 -> 4, 8 */
    bool vform;                      /* v-forms: block sizes vary; read by plait_choose() and plait_comm_choose() */
};

/*
 * How a collective cuts its data into blocks.
 *
 * VECTOR  a vector, into as many blocks as the algorithm likes; they differ in size by one element at most
 * PART    one block for each rank; all have the same size
 * PAIR    one block for each pair of ranks: block s * nrank + d goes from s to d; all have the same size
 */
enum plait_kind { PLAIT_KIND_VECTOR, PLAIT_KIND_PART, PLAIT_KIND_PAIR };

struct plait_side {       /* IN or OUT of one rank */
    uint32_t nslot;       /* 0: this rank has no such buffer */
    uint32_t blk, stride; /* slot i holds block blk + i * stride */
};

struct plait_geometry {
    enum plait_kind kind;
    bool combines; /* an output block reduces every rank's contribution; else it is its source's block, unchanged */
    bool rooted;
    struct plait_side in, out;
};

/**
 * The blocks in the slots of a rank's IN and OUT.
 *
 * In place, a slot of IN and a slot of OUT with the same block are the same memory (as in NCCL); PLAIT_KIND_PAIR has no
 * form in place.
 *
 * root  of a rooted collective
 * nblk  as given to plait_blocks(); ignored for PART and PAIR, where plait_block_count() fixes it
 */
PLAIT_API struct plait_geometry plait_geometry_of(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t rank,
                                                  uint32_t nblk);

/**
 * The number of nodes, if the ranks of each node are consecutive, as most launchers place them; else 0.
 *
 * each  written: ranks of every node; 0: nodes differ
 * Thread: any
 */
PLAIT_API uint32_t plait_nodes_of(const struct plait_shape *shape, uint32_t *each);

/** Blocks of a collective over `nrank` ranks; 0: the algorithm chooses, or there would be more than 2^30. */
PLAIT_API uint32_t plait_block_count(enum plait_coll coll, uint32_t nrank);

/** The rank whose IN a block comes from, in a collective that does not reduce. */
PLAIT_API uint32_t plait_block_source(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk);

/** The slot of this side that holds the block; UINT32_MAX: none does. */
static inline uint32_t plait_side_slot(const struct plait_side *side, uint32_t blk)
{
    const uint32_t from = blk - side->blk;

    if (side->nslot == 0 || blk < side->blk)
        return UINT32_MAX;
    const uint32_t i = side->stride == 1 ? from : from / side->stride; /* a division takes as long as a short copy */
    return i < side->nslot && i * side->stride == from ? i : UINT32_MAX;
}

/*
 * The cost of an algorithm, as closed formulas over the shape. depth, sent and received equal the plan's figures for
 * every rank count; rounds is equal when rounds_exact, else an upper bound.
 */
struct plait_claim {
    uint64_t depth;    /* most messages on a dependency path */
    uint64_t rounds;   /* one-port rounds of a greedy schedule in array order */
    uint64_t nblk;     /* blocks the vector is cut into */
    uint64_t sent;     /* most blocks sent by a rank */
    uint64_t received; /* most blocks received by a rank */
    bool rounds_exact;
};

struct plait_builder; /* opaque; errors are sticky: the first is recorded, later calls do nothing */

/* One algorithm. The library's are in algorithms/table.c; a comm takes more through its options. */
struct plait_alg {
    const char *name; /* "torus" */
    enum plait_coll coll;
    const char *params; /* syntax of the text after the name, e.g. ":XxY[xZ]"; "": none allowed */
    const char *text;   /* one line */
    const char *source; /* paper or code it comes from */
    /*
     * Every block of every rank is reduced in the canonical order E(n) = E(m) + E(n-m), m the largest power of two
     * below n, over ranks 0 .. n-1 (checked, not trusted).
     */
    bool canonical;
    /* Only single contributions and final results travel, never partial sums (checked). */
    bool no_partials;
    /*
     * The functions below get the algorithm itself, so that one function serves a family; preset tells the members
     * apart.
     */
    const void *preset;
    /* Fill shape->param from the text after the first ':' ("" when there is none). NULL: no parameters. */
    bool (*parse)(const struct plait_alg *self, const char *text, struct plait_shape *shape);
    /* Can it run on this shape at all? */
    bool (*applies)(const struct plait_alg *self, const struct plait_shape *shape);
    /* One rank's steps. Pure: no globals, clock, environment, allocation. */
    void (*emit)(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape, uint32_t rank);
    struct plait_claim (*claim)(const struct plait_alg *self, const struct plait_shape *shape);
    /* The condition of `applies`, to follow "does not fit 6 ranks; "; NULL: unknown. */
    const char *remedy;
};

/* The library's. NULL-ended, in the order in which tools list them. */
PLAIT_API extern const struct plait_alg *const plait_algs[];

/* ---- Writing a plan: moves in program order ---------------------------------------------------- */

static inline struct plait_span plait_in(uint32_t slot)
{
    struct plait_span s = { PLAIT_IN, slot & 0x3fffffffu };
    return s;
}
static inline struct plait_span plait_out(uint32_t slot)
{
    struct plait_span s = { PLAIT_OUT, slot & 0x3fffffffu };
    return s;
}
static inline struct plait_span plait_tmp(uint32_t slot)
{
    struct plait_span s = { PLAIT_TMP, slot & 0x3fffffffu };
    return s;
}

/**
 * Cut the vector into `nblk` blocks and reserve `ntmp` TMP slots. Called once, before any move. At most
 * PLAIT_MOST_SLOTS: more fails the plan, by name and number, before memory is allocated.
 */
PLAIT_API void plait_blocks(struct plait_builder *b, uint32_t nblk, uint32_t ntmp);

/**
 * Reserve `n` more TMP slots in a row, at most PLAIT_MOST_SLOTS in all; returns the first. For emitters made of parts
 * with their own slots.
 */
PLAIT_API uint32_t plait_slots(struct plait_builder *b, uint32_t n);

/**
 * Send, receive, copy or reduce the `nblk` logical blocks from `blk` on, or with PLAIT_AS_LIES (not `reduce`) move the
 * contents of `nblk` TMP slots. `reduce` is dst <- x op y, in this order.
 */
PLAIT_API void plait_emit_send(struct plait_builder *b, uint32_t peer, struct plait_span from, uint32_t blk,
                               uint32_t nblk);
PLAIT_API void plait_emit_recv(struct plait_builder *b, uint32_t peer, struct plait_span to, uint32_t blk,
                               uint32_t nblk);
PLAIT_API void plait_emit_copy(struct plait_builder *b, struct plait_span to, struct plait_span from, uint32_t blk,
                               uint32_t nblk);
PLAIT_API void plait_emit_reduce(struct plait_builder *b, struct plait_span to, struct plait_span x,
                                 struct plait_span y, uint32_t blk, uint32_t nblk);

/** The moves that follow use this lane (0 at the start). Matching counts per peer and lane. */
PLAIT_API void plait_lane(struct plait_builder *b, uint32_t lane);

/* ---- Plans ------------------------------------------------------------------------------------- */

/**
 * Find an algorithm by its spec, e.g. "ring" or "torus:4x8", and set the shape's parameters.
 *
 * algs   NULL-ended array to search, e.g. plait_algs
 * shape  coll, nrank, root, inplace, node and level are set by the caller; nparam and param are written
 * Errors: PLAIT_ERR_CONFIG: no such name (the nearest is named), bad parameters, or it does not
 *         apply to this shape; or the collective has no such root or no form in place.
 */
PLAIT_API enum plait_status plait_alg_find(const struct plait_alg *const *algs, const char *spec,
                                           struct plait_shape *shape, const struct plait_alg **out);

/**
 * Emit one rank's plan.
 *
 * out    the plan; free it with plait_plan_destroy()
 * Errors: PLAIT_ERR_ARG (rank out of range), PLAIT_ERR_NOMEM, PLAIT_ERR_PLAN (the emitter broke a
 *         rule of the builder; plait_last_error() names algorithm, rank and step).
 */
PLAIT_API enum plait_status plait_plan_emit(const struct plait_alg *alg, const struct plait_shape *shape, uint32_t rank,
                                            struct plait_plan **out);
PLAIT_API void plait_plan_destroy(struct plait_plan *plan);

/** The dependency array of a plan: plan->ndep numbers of steps. */
PLAIT_API const uint32_t *plait_plan_deps(const struct plait_plan *plan);

/**
 * Can long operations run this plan slice by slice over every block? With PART and PAIR a slice of several blocks is
 * contiguous in TMP, but not in IN and OUT. So steps that touch IN or OUT must move one block each.
 */
PLAIT_API bool plait_plan_sliceable(const struct plait_plan *plan);

/** First element of block `blk` when `count` elements are cut into `nblk` blocks; blk == nblk gives count. */
static inline size_t plait_block_start(size_t count, uint32_t nblk, uint32_t blk)
{
    const size_t q = count / nblk, r = count % nblk;
    return blk * q + (blk < r ? blk : r);
}

/* ---- Checking ---------------------------------------------------------------------------------- */

/* symbol, name, what it proves */
#define PLAIT_CHECK_LIST(X)                                                                                       \
    X(PLAIT_CHECK_SHAPE, "shape", "fields are in range; dependencies are earlier steps")                          \
    X(PLAIT_CHECK_MATCHING, "matching", "every SEND has its RECV, with the same blocks")                          \
    X(PLAIT_CHECK_DEADLOCK, "deadlock", "no cycle when every send waits for its receive")                         \
    X(PLAIT_CHECK_RACE, "race", "conflicting accesses are ordered by the rank's dependencies")                    \
    X(PLAIT_CHECK_MEANING, "meaning", "every block ends with each contribution once, or as it was at its source") \
    X(PLAIT_CHECK_SAME_BITS, "same bits", "all ranks evaluate the same expression")                               \
    X(PLAIT_CHECK_CLAIM, "claim", "the plan's figures equal the algorithm's claim")

enum plait_check {
#define PLAIT_X(symbol, name, text) symbol,
    PLAIT_CHECK_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NCHECK
};

/** The name in this list; "?" for an unknown value. */
PLAIT_API const char *plait_check_name(enum plait_check check);

struct plait_report {
    enum plait_check failed; /* valid after PLAIT_ERR_PLAN */
    char text[512];          /* "ring, 7 ranks: rank 3 step 12 reads out[4], which was never written" */
    struct plait_claim seen; /* the plan's own figures */
    bool canonical;          /* every block is reduced, and in the canonical order */
    bool no_partials;        /* blocks are reduced, but no partial result travels */
    bool uneven;             /* a step has partial sums beside other values: it can neither round once nor average */
    bool sliceable;          /* plait_plan_sliceable(), of all ranks' plans */
    bool probabilistic;      /* contributor sets were random-weight sums (more than 1,024 ranks) */
};

/**
 * Prove the plans of all ranks of a comm, or say what is wrong and where.
 *
 * name   for the messages
 * plans  [shape->nrank], plans[r] is rank r's
 * claim  compared with the plans' figures; NULL: not compared
 * report filled in either case; may be NULL
 * Errors: PLAIT_ERR_PLAN (see report), PLAIT_ERR_NOMEM.
 * Cost:   nearly linear in steps and dependencies, times P/64 for the contributor sets.
 */
PLAIT_API enum plait_status plait_plan_check(const char *name, const struct plait_shape *shape,
                                             const struct plait_plan *const *plans, const struct plait_claim *claim,
                                             struct plait_report *report);

/**
 * Emit all ranks' plans of an algorithm; check them against its claim and its `canonical` and `no_partials`. Errors: as
 * plait_plan_emit() and plait_plan_check().
 */
PLAIT_API enum plait_status plait_alg_check(const struct plait_alg *alg, const struct plait_shape *shape,
                                            struct plait_report *report);

/* ---- Text -------------------------------------------------------------------------------------- */

/**
 * One plan as text, one line per step: "r2 #5 reduce out[3] = in[3], tmp[0]   after 4".
 *
 * out    a string to free() with the C library
 * Errors: PLAIT_ERR_NOMEM
 */
PLAIT_API enum plait_status plait_plan_print(const struct plait_plan *plan, char **out);

/**
 * Read the text of one plan. Nothing is checked but that each field is in the range of its type.
 *
 * name   for the messages; NULL: "plan"
 * out    the plan; free it with plait_plan_destroy()
 * Errors: PLAIT_ERR_PLAN ("NAME:LINE: what is expected"), PLAIT_ERR_NOMEM
 */
PLAIT_API enum plait_status plait_plan_parse(const char *name, const char *text, struct plait_plan **out);

/* ---- Algorithms from files --------------------------------------------------------------------- */

struct plait_alg_set;

/**
 * Make algorithms of plan files (docs/plans.md). The plans are out of place, and are proved as plait_plan_check() does.
 * The claim is made of their figures.
 *
 * path  a file, or a folder: all its files *.plan. Plans of the same name of algorithm, of other numbers of ranks or
 *       other roots, make one algorithm
 * out   free it with plait_alg_set_destroy()
 * Errors: PLAIT_ERR_CONFIG (a name that the library has, two plans for the same ranks, no plans), PLAIT_ERR_PLAN
 *         (file, line and what is expected; or file, rank, step and reason), PLAIT_ERR_NOMEM, PLAIT_ERR_SYSTEM (no such
 *         file)
 */
PLAIT_API enum plait_status plait_alg_set_load(const char *path, struct plait_alg_set **out);

/** NULL-ended, for plait_comm_options.algorithms and plait_alg_find(). They live as long as the set. */
PLAIT_API const struct plait_alg *const *plait_alg_set_list(const struct plait_alg_set *set);

/** After the comms that use its algorithms are destroyed. NULL is allowed. */
PLAIT_API void plait_alg_set_destroy(struct plait_alg_set *set);

/**
 * The algorithms that every comm and prediction of this process has: those of the setting PLAIT_PLANS, then plait_algs.
 *
 * out     NULL-ended; valid until the process ends. A file is read once, even if it changes
 * Thread: any, while none changes the environment
 * Errors: as plait_alg_set_load(), with PLAIT_PLANS in the text; PLAIT_ERR_CONFIG (another setting, named)
 */
PLAIT_API enum plait_status plait_alg_list(const struct plait_alg *const **out);

#ifdef __cplusplus
}
#endif
#endif
