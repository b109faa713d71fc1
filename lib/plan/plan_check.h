/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room plan: plans as data. <plait/plan.h> is the manual; this header is what binding needs beside it.
 *
 * A plan is one rank's steps (SEND, RECV, COPY, REDUCE) over blocks of IN, OUT and TMP. An algorithm emits it with
 * the builder (plan.c), which derives the dependencies. geometry.c lists the blocks of IN and OUT for each collective,
 * and the names. plan_text.c prints and reads plans, plan_file.c makes algorithms of files. check/ proves them:
 * matching messages, no deadlock, no race, the right result, the same bits on all ranks.
 *
 * The room promises: emitting is a pure function of shape and rank. Nothing here is random, reads a clock or
 * communicates. plan_known.c alone opens files.
 *
 * Plans know no addresses, bytes, types, tags or transports, so the same plan is proved, printed, simulated and run.
 */
#ifndef PLAIT_LIB_PLAN_PLAN_CHECK_H
#define PLAIT_LIB_PLAN_PLAN_CHECK_H

#include <plait/plan.h>

#include <stdlib.h>

#define PLAIT_NONE UINT32_MAX /* no step, no rank, no slot */

struct plait_holders { /* ranks first .. first + n - 1, which have a block in this slot */
    uint32_t first, n, slot;
};
struct plait_block {
    struct plait_holders from; /* with it in IN: its result combines their contributions, or is the only one */
    struct plait_holders to;   /* with its result in OUT */
};

/* The ranks that give block blk and get its result; of plait_block_count() blocks, or the parts of a vector. */
struct plait_block plait_block_of(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk);

static inline struct plait_geometry plait_plan_geometry(const struct plait_plan *p)
{
    return plait_geometry_of((enum plait_coll)p->coll, p->nrank, p->root, p->rank, p->nblk);
}

/*
 * Number the memory: slots of OUT, then of IN, then of TMP. Returns the number (place) of the span's k-th slot. In
 * place, slots of IN and OUT with the same block have one number.
 */
static inline uint32_t plait_place(const struct plait_geometry *g, bool inplace, struct plait_span span, uint32_t k)
{
    if (span.buf == PLAIT_TMP)
        return g->out.nslot + g->in.nslot + span.slot + k;
    if (span.buf == PLAIT_OUT)
        return span.slot + k;
    const uint32_t blk = g->in.blk + (span.slot + k) * g->in.stride;
    const uint32_t out = inplace ? plait_side_slot(&g->out, blk) : PLAIT_NONE;
    return out != PLAIT_NONE ? out : g->out.nslot + span.slot + k;
}

/* Places of a plan's memory. */
static inline size_t plait_nplace(const struct plait_plan *p)
{
    const struct plait_geometry g = plait_plan_geometry(p);

    return (size_t)g.out.nslot + g.in.nslot + p->ntmp;
}

/*
 * Does a step that writes n slots of `to` (OUT or TMP) overwrite what it reads from `from`? may_coincide: a REDUCE may
 * write each slot over its own operand.
 */
bool plait_overlaps(const struct plait_plan *plan, const struct plait_geometry *g, struct plait_span to,
                    struct plait_span from, uint32_t n, bool may_coincide);

/* Make room for n elements in an array. False: out of memory. */
static inline bool plait_grow(void **array, size_t n, size_t *capacity, size_t size)
{
    if (n <= *capacity)
        return true;
    const size_t least = *capacity > 0 ? 2 * *capacity : 64, grown = n > least ? n : least;
    void *p = realloc(*array, grown * size);
    if (p == NULL)
        return false;
    *array = p;
    *capacity = grown;
    return true;
}

/* Union-find: the step that stands for the set of step n. */
static inline uint32_t plait_find_node(uint32_t *node, uint32_t n)
{
    while (node[n] != n)
        n = node[n] = node[node[n]];
    return n;
}

/* Sort dependencies and drop duplicates. Returns how many are left. */
uint32_t plait_tidy_deps(uint32_t *deps, uint32_t n);

/* A plan with this head, whose `bytes` are not read, and its steps and dependencies. Errors: PLAIT_ERR_NOMEM. */
enum plait_status plait_plan_assemble(const struct plait_plan *head, const struct plait_step *steps,
                                      const uint32_t *deps, struct plait_plan **out);

/* Emit a copy of this plan. Its shape and rank must be the builder's. */
void plait_emit_plan(struct plait_builder *b, const struct plait_plan *plan);

/* The plans of all ranks. *out is to be destroyed after an error, too. */
enum plait_status plait_plans_emit(const struct plait_alg *alg, const struct plait_shape *shape,
                                   struct plait_plan ***out);
void plait_plans_destroy(struct plait_plan **plans, uint32_t nrank); /* NULL is allowed, for each and for all */

/* Describes the error in an algorithm's struct, such as "has no emit"; NULL: none. Calls none of its functions. */
const char *plait_alg_fault(const struct plait_alg *alg);

/* Is the shape valid? shape: not NULL. Errors: PLAIT_ERR_ARG, with `function` at the start of the text. */
enum plait_status plait_shape_check(const char *function, const struct plait_shape *shape);

/* Is it in the library's table? Else it is the caller's own, or from a file. */
bool plait_is_of_library(const struct plait_alg *alg);

/* A hash of the plans of an algorithm from a file; 0: it is none. */
uint64_t plait_alg_contents(const struct plait_alg *alg);

/* Describes the error in a claim; NULL: none. */
const char *plait_claim_fault(const struct plait_claim *claim);

/* plait_alg_check() without checks of the arguments. claim NULL: costs are not compared */
enum plait_status plait_alg_prove(const struct plait_alg *alg, const struct plait_shape *shape,
                                  const struct plait_claim *claim, struct plait_report *report);

/*
 * Can the plans of all ranks of a comm complete when steps of a rank are fused and every send is synchronous?
 *
 * node    node[r][i]: steps of rank r with the same number are fused into one; numbers are below plans[r]->nstep.
 *         NULL: nothing is fused.
 * window  most messages in flight from one rank to another: each waits for the one `window` before it; 0: any number
 * A SEND and its RECV also count as one step. Plans must have passed the shape and matching checks.
 * Errors: PLAIT_ERR_PLAN (the text names a step that waits for itself), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_check_deadlock(const char *name, const struct plait_plan *const *plans, uint32_t nrank,
                                       const uint32_t *const *node, uint32_t window);

/* Kinds of values: the contribution of one rank, of several, of all. */
enum { PLAIT_VALUE_SINGLE = 1, PLAIT_VALUE_PARTIAL = 2, PLAIT_VALUE_FINAL = 4 };

/*
 * The kinds of values (PLAIT_VALUE_...) that each step of a rank moves or computes, from the contributor sets.
 *
 * kinds   [plans[rank]->nstep] the union over the blocks of a step
 * Errors: PLAIT_ERR_PLAN (the plans are wrong; plait_last_error() says where), PLAIT_ERR_UNSUPPORTED (a step of any
 *         rank has partial sums beside other values in one span), PLAIT_ERR_NOMEM. Cost: as plait_plan_check, without
 *         figures.
 */
enum plait_status plait_check_values(const char *name, const struct plait_shape *shape,
                                     const struct plait_plan *const *plans, uint32_t rank, unsigned char *kinds);

#endif
