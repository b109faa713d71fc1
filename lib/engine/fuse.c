/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusing: which steps of a plan run together; and the proof that the fused plans of all ranks do. See prog.h. */
#include "prog.h"

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "plan/scratch.h"
#include "select.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE 8 /* ranks whose plans are hashed above PLAIT_MOST_PROVED ranks */

/* The readers of a TMP value. Only a value that is read exactly once can be passed on without being stored. */
struct value {
    uint32_t nreader, reader;
};

struct fuser {
    const struct plait_plan *plan;
    const uint32_t *deps;
    struct plait_geometry geometry;
    struct value *values; /* [nstep] for steps that write TMP */
    uint32_t *operand[2]; /* [nstep] REDUCE: the step that wrote a or b into TMP, or NONE */
    uint32_t *guard;      /* [places] 1 + root of the last tree that needs the value in this place */
    uint32_t *node;
};

/* Note that `reader` reads TMP. Returns the step that wrote exactly this span, all of it still there, or NONE. */
static uint32_t note_read(struct fuser *f, const uint32_t *writer, struct plait_span span, uint32_t nblk,
                          uint32_t reader)
{
    const struct plait_step *s = f->plan->step;

    if (span.buf != PLAIT_TMP)
        return PLAIT_NONE;
    const uint32_t *w = &writer[span.slot];
    bool exact = w[0] != PLAIT_NONE && s[w[0]].dst.buf == span.buf && s[w[0]].dst.slot == span.slot &&
                 s[w[0]].nblk == nblk && s[w[0]].blk == s[reader].blk;
    for (uint32_t i = 0; i < nblk; i++) {
        exact &= w[i] == w[0];
        if (w[i] == PLAIT_NONE)
            continue;
        f->values[w[i]].nreader += i == 0 || w[i] != w[i - 1];
        f->values[w[i]].reader = reader;
    }
    return exact ? w[0] : PLAIT_NONE;
}

/* writer: [ntmp] room */
static void find_values(struct fuser *f, uint32_t *writer)
{
    const struct plait_plan *p = f->plan;

    memset(writer, 0xff, p->ntmp * sizeof *writer); /* PLAIT_NONE */
    for (uint32_t i = 0; i < p->nstep; i++) {
        const struct plait_step *s = &p->step[i];
        f->operand[0][i] = f->operand[1][i] = PLAIT_NONE;
        if (s->verb != PLAIT_STEP_RECV)
            f->operand[0][i] = note_read(f, writer, s->a, s->nblk, i);
        if (s->verb == PLAIT_STEP_REDUCE)
            f->operand[1][i] = note_read(f, writer, s->b, s->nblk, i);
        for (uint32_t k = 0; s->verb != PLAIT_STEP_SEND && s->dst.buf == PLAIT_TMP && k < s->nblk; k++)
            writer[s->dst.slot + k] = i;
    }
}

/* May `step`'s TMP value be handed to its only reader, the REDUCE `reader`, without being stored? */
static bool passed_to(const struct fuser *f, uint32_t step, uint32_t reader)
{
    return step != PLAIT_NONE && f->values[step].nreader == 1 && f->values[step].reader == reader;
}

static bool is_verb(const struct fuser *f, uint32_t step, enum plait_verb verb)
{
    return step != PLAIT_NONE && f->plan->step[step].verb == verb;
}

/* Is `ancestor` reached from `step` along dependencies? False, too, when the search runs out of budget. */
static bool reaches(const struct fuser *f, uint32_t step, uint32_t ancestor, unsigned *budget)
{
    if (step == ancestor)
        return true;
    if (step < ancestor || *budget == 0)
        return false;
    --*budget;
    const struct plait_step *s = &f->plan->step[step];
    for (uint32_t i = s->ndep; i-- > 0;)
        if (reaches(f, f->deps[s->dep0 + i], ancestor, budget))
            return true;
    return false;
}

/* Does the REDUCE wait only for the RECV and for steps that the RECV waits for, too? */
static bool adds_no_wait(const struct fuser *f, uint32_t reduce, uint32_t recv)
{
    const struct plait_step *s = &f->plan->step[reduce];

    for (uint32_t i = 0; i < s->ndep; i++) {
        const uint32_t dep = f->deps[s->dep0 + i];
        unsigned budget = 256;
        if (dep != recv && !reaches(f, recv, dep, &budget))
            return false;
    }
    return true;
}

/* Is operand `x` of `step` an inner node of its tree: a REDUCE whose value is passed on? */
static bool is_inner(const struct fuser *f, uint32_t x, uint32_t step)
{
    return is_verb(f, x, PLAIT_STEP_REDUCE) && passed_to(f, x, step);
}

/*
 * Leaves of the tree below `step`; 0: it does not reduce them in the canonical order. That is E(n) = E(m) + E(n - m), m
 * the largest power of two below n.
 */
static uint32_t canonical_leaves(const struct fuser *f, uint32_t step)
{
    uint32_t n[2];

    for (unsigned k = 0; k < 2; k++) {
        const uint32_t x = f->operand[k][step];
        n[k] = is_inner(f, x, step) ? canonical_leaves(f, x) : 1;
    }
    const bool canonical = n[0] > 0 && (n[0] & (n[0] - 1)) == 0 && n[1] > 0 && n[1] <= n[0];
    return canonical ? n[0] + n[1] : 0;
}

/*
 * Set the node of the tree below `step`, and of the RECVs at its leaves, to `root`; with `own`, undo this: each step is
 * its own node.
 * Returns the tree's first REDUCE in program order.
 */
static uint32_t mark_tree(struct fuser *f, uint32_t step, bool own, uint32_t root)
{
    uint32_t first = step;

    f->node[step] = own ? step : root;
    for (unsigned k = 0; k < 2; k++) {
        const uint32_t x = f->operand[k][step];
        if (is_inner(f, x, step)) {
            const uint32_t below = mark_tree(f, x, own, root);
            first = below < first ? below : first;
        } else if (is_verb(f, x, PLAIT_STEP_RECV) && passed_to(f, x, step)) {
            f->node[x] = own ? x : root;
        }
    }
    return first;
}

static void guard(struct fuser *f, struct plait_span span, uint32_t nblk, uint32_t root)
{
    for (uint32_t k = 0; k < nblk; k++)
        f->guard[plait_place(&f->geometry, f->plan->inplace, span, k)] = root + 1;
}

static bool is_guarded(const struct fuser *f, struct plait_span span, uint32_t nblk, uint32_t root)
{
    for (uint32_t k = 0; k < nblk; k++)
        if (f->guard[plait_place(&f->geometry, f->plan->inplace, span, k)] == root + 1)
            return true;
    return false;
}

/*
 * May all REDUCEs of the tree run together at the root's place in the program? They read until then, and the result is
 * written element by element while operands are read. So no step before the root may overwrite an operand or value of
 * an earlier REDUCE of the tree. And the result must coincide with an operand exactly or not overlap it.
 */
static bool may_run_at_root(struct fuser *f, uint32_t first, uint32_t root)
{
    const struct plait_step *s = f->plan->step;

    for (uint32_t i = first; i <= root; i++) {
        const bool inside = f->node[i] == root && s[i].verb == PLAIT_STEP_REDUCE;
        if (!inside && s[i].verb != PLAIT_STEP_SEND && is_guarded(f, s[i].dst, s[i].nblk, root))
            return false;
        for (unsigned k = 0; inside && k < 2; k++) {
            const struct plait_span operand = k == 0 ? s[i].a : s[i].b;
            const uint32_t from = f->operand[k][i];
            const bool read = from == PLAIT_NONE || f->node[from] != root;
            guard(f, operand, s[i].nblk, root);
            if (read && plait_overlaps(f->plan, &f->geometry, s[root].dst, operand, s[i].nblk, true))
                return false;
        }
        if (inside && i < root)
            guard(f, s[i].dst, s[i].nblk, root);
    }
    return true;
}

static void fuse_local(struct fuser *f, uint32_t reduce)
{
    for (unsigned k = 0; k < 2; k++) {
        const uint32_t x = f->operand[k][reduce];
        if (is_verb(f, x, PLAIT_STEP_RECV) && passed_to(f, x, reduce) && adds_no_wait(f, reduce, x)) {
            f->node[x] = reduce;
            return; /* one operand only: the other must not wait for this one */
        }
    }
}

/* Fuse the whole tree below `root`. False: nothing is fused. */
static bool fuse_tree(struct fuser *f, uint32_t root)
{
    const uint32_t leaves = canonical_leaves(f, root);

    if (leaves == 0 || leaves > PLAIT_MOST_SOURCES)
        return false;
    if (may_run_at_root(f, mark_tree(f, root, false, root), root))
        return true;
    mark_tree(f, root, true, root);
    return false;
}

enum plait_status plait_fuse(const struct plait_plan *plan, enum plait_fusing fusing, uint32_t *node)
{
    struct plait_scratch arrays = { 0 };
    struct fuser f = {
        .plan = plan, .deps = plait_plan_deps(plan), .geometry = plait_plan_geometry(plan), .node = node
    };
    enum plait_status status = PLAIT_OK;

    for (uint32_t i = 0; i < plan->nstep; i++)
        node[i] = i;
    if (fusing == PLAIT_FUSE_NONE)
        return PLAIT_OK;
    f.values = plait_scratch(&arrays, plan->nstep, sizeof *f.values);
    f.operand[0] = plait_scratch(&arrays, plan->nstep, sizeof *f.operand[0]);
    f.operand[1] = plait_scratch(&arrays, plan->nstep, sizeof *f.operand[1]);
    f.guard = plait_scratch(&arrays, plait_nplace(plan), sizeof *f.guard);
    uint32_t *writer = plait_scratch(&arrays, plan->ntmp, sizeof *writer);
    if (arrays.failed)
        status = plait_fail_memory("out of memory to bind a plan");
    else
        find_values(&f, writer);
    for (uint32_t i = plan->nstep; status == PLAIT_OK && i-- > 0;) {
        if (plan->step[i].verb == PLAIT_STEP_REDUCE && node[i] == i &&
            (fusing != PLAIT_FUSE_PROVED || !fuse_tree(&f, i)))
            fuse_local(&f, i);
    }
    plait_scratch_free(&arrays);
    return status;
}

/* ---- Do all plans run to the end together? ------------------------------------------------------------------ */

static enum plait_status prove(struct plait_plan *const *plans, const char *spec, uint32_t nrank,
                               enum plait_fusing fusing, bool *out)
{
    struct plait_scratch arrays = { 0 };
    uint32_t **nodes = plait_scratch(&arrays, nrank, sizeof *nodes);
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; nodes != NULL && r < nrank; r++)
        nodes[r] = plait_scratch(&arrays, plans[r]->nstep, sizeof *nodes[r]);
    if (arrays.failed)
        status = plait_fail_memory("out of memory to bind a plan");
    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++)
        status = plait_fuse(plans[r], fusing, nodes[r]);
    if (status == PLAIT_OK)
        status = plait_check_deadlock(spec, (const struct plait_plan *const *)plans, nrank,
                                      (const uint32_t *const *)nodes, PLAIT_WINDOW);
    *out = status == PLAIT_OK;
    plait_scratch_free(&arrays);
    return status == PLAIT_ERR_PLAN ? PLAIT_OK : status;
}

/* ---- The hash ------------------------------------------------------------------------------------ */

/* plans: of all ranks. NULL: too many ranks; SAMPLE plans of ranks at equal distances are emitted and hashed. */
static enum plait_status hash_plans(const struct plait_alg *alg, const struct plait_shape *shape,
                                    struct plait_plan *const *plans, struct plait_proof *out)
{
    const uint32_t n = plans != NULL ? shape->nrank : SAMPLE;
    enum plait_status status = PLAIT_OK;

    out->hash = PLAIT_HASH_START;
    out->sliceable =
        plans != NULL || plait_block_count(shape->coll, shape->nrank) == 0; /* else a sample does not tell */
    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++) {
        const uint32_t rank = plans != NULL ? i : (uint32_t)((uint64_t)i * (shape->nrank - 1) / (n - 1));
        struct plait_plan *plan = NULL;
        status = plans != NULL ? PLAIT_OK : plait_plan_emit(alg, shape, rank, &plan);
        const struct plait_plan *one = plans != NULL ? plans[i] : plan;
        if (status == PLAIT_OK) {
            out->hash = plait_hash(out->hash, one, one->bytes);
            out->sliceable &= plait_plan_sliceable(one);
        }
        plait_plan_destroy(plan);
    }
    return status;
}

/* ---- The proof ------------------------------------------------------------------------------------------------ */

/* Prove all ranks' plans together, with the most fusing that cannot deadlock; for at most PLAIT_MOST_PROVED ranks. */
static enum plait_status prove_all(const char *spec, uint32_t nrank, bool hop, struct plait_plan *const *plans,
                                   struct plait_proof *out)
{
    enum plait_status status = PLAIT_OK;
    bool proved = false;

    for (int f = hop ? PLAIT_FUSE_LOCAL : PLAIT_FUSE_PROVED; f >= PLAIT_FUSE_NONE && !proved && status == PLAIT_OK;
         f--) {
        out->fusing = (enum plait_fusing)f;
        status = prove(plans, spec, nrank, out->fusing, &proved);
    }
    if (status != PLAIT_OK || proved)
        return status;
    return plait_fail(PLAIT_ERR_PLAN,
                      "algorithm '%s' can deadlock with %u ranks: a message overtakes %d earlier ones of the same pair "
                      "of ranks, a whole window; receive lanes in the order in which they are sent",
                      spec, nrank, PLAIT_WINDOW);
}

enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out)
{
    const bool few = shape->nrank <= PLAIT_MOST_PROVED;
    const struct plait_shape common = plait_common_shape(shape);
    struct plait_plan **plans = NULL;
    enum plait_status status = few || kinds != NULL ? plait_plans_emit(alg, &common, &plans) : PLAIT_OK;

    if (status == PLAIT_OK && plans != NULL && plans[own->rank]->inplace == own->inplace) { /* prove what will run */
        plait_plan_destroy(plans[own->rank]);
        plans[own->rank] = NULL;
        status = plait_plan_assemble(own, own->step, plait_plan_deps(own), &plans[own->rank]);
    }
    if (status == PLAIT_OK)
        status = hash_plans(alg, &common, plans, out);
    out->fusing = PLAIT_FUSE_LOCAL;
    if (status == PLAIT_OK && few)
        status = prove_all(spec, shape->nrank, hop, plans, out);
    if (status == PLAIT_OK && kinds != NULL && common.inplace != shape->inplace) {
        plait_plans_destroy(plans, shape->nrank);
        plans = NULL;
        status = plait_plans_emit(alg, shape, &plans);
    }
    /*
     * Partial sums may be wider than other values, and only results are divided, so one span must not hold both. Every
     * rank checks the steps of all ranks, so all ranks refuse the algorithm or none does.
     */
    if (status == PLAIT_OK && kinds != NULL)
        status = plait_check_values(spec, shape, (const struct plait_plan *const *)plans, own->rank, kinds);
    plait_plans_destroy(plans, shape->nrank);
    return status;
}
