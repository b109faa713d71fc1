/* SPDX-License-Identifier: BSD-3-Clause */
#include "prove.h"

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan_check.h"
#include "select.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE 8 /* ranks whose plans are hashed when there are more than PLAIT_MOST_PROVED */

static enum plait_status emit_all(const struct plait_alg *alg, const struct plait_shape *shape,
                                  struct plait_plan ***out)
{
    struct plait_plan **plans = calloc((size_t)shape->nrank + 1, sizeof *plans);
    enum plait_status status = plans != NULL ? PLAIT_OK : plait_fail_memory("out of memory to bind a plan");

    for (uint32_t r = 0; r < shape->nrank && status == PLAIT_OK; r++)
        status = plait_plan_emit(alg, shape, r, &plans[r]);
    *out = plans;
    return status;
}

static void destroy_all(struct plait_plan **plans, uint32_t n)
{
    for (uint32_t r = 0; plans != NULL && r < n; r++)
        plait_plan_destroy(plans[r]);
    free(plans);
}

/* The messages of each lane follow those of the lane before, per peer and direction. */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number)
{
    for (unsigned lane = 0; lane < plan->nlane; lane++)
        for (uint32_t i = 0; i < plan->nstep; i++) {
            const struct plait_step *s = &plan->step[i];
            if (s->lane == lane && s->peer >= 0)
                number[i] = (s->verb == PLAIT_STEP_SEND ? nsend : nrecv)[s->peer]++;
        }
}

/* The steps that are messages: SENDs, then RECVs, of each by peer and then by number; *n of them. NULL: no memory. */
static uint32_t *list_messages(const struct plait_plan *plan, uint32_t *n)
{
    uint32_t *list = malloc((plan->nstep + 1) * sizeof *list), *number = malloc((plan->nstep + 1) * sizeof *number);
    uint32_t *first = calloc(2 * (size_t)plan->nrank, sizeof *first), at = 0;

    if (list != NULL && number != NULL && first != NULL) {
        plait_number_messages(plan, first, first + plan->nrank, number);
        for (uint32_t k = 0; k < 2 * plan->nrank; k++) {
            const uint32_t count = first[k];
            first[k] = at;
            at += count;
        }
        for (uint32_t i = 0; i < plan->nstep; i++) {
            const struct plait_step *s = &plan->step[i];
            if (s->peer >= 0)
                list[first[s->verb == PLAIT_STEP_SEND ? (uint32_t)s->peer : plan->nrank + s->peer] + number[i]] = i;
        }
    } else {
        free(list);
        list = NULL;
    }
    free(number);
    free(first);
    *n = at;
    return list;
}

/* A copy of a plan in which a SEND also waits for the one whose place in the window it takes over. */
static struct plait_plan *with_window(const struct plait_plan *plan)
{
    const uint32_t *deps = plait_plan_deps(plan);
    struct plait_plan *p = malloc(plan->bytes + plan->nstep * sizeof *deps);
    uint32_t *before = malloc((plan->nstep + 1) * sizeof *before), n, *list = list_messages(plan, &n);

    if (p != NULL && before != NULL && list != NULL) {
        memset(before, 0xff, plan->nstep * sizeof *before); /* PLAIT_NONE */
        for (uint32_t k = PLAIT_WINDOW; k < n; k++) {
            const struct plait_step *late = &plan->step[list[k]], *early = &plan->step[list[k - PLAIT_WINDOW]];
            if (late->verb == PLAIT_STEP_SEND && late->peer == early->peer)
                before[list[k]] = list[k - PLAIT_WINDOW];
        }
        memcpy(p, plan, sizeof *p + plan->nstep * sizeof *p->step);
        uint32_t *to = (uint32_t *)(uintptr_t)plait_plan_deps(p);
        p->ndep = 0;
        for (uint32_t i = 0; i < p->nstep; i++) {
            struct plait_step *s = &p->step[i];
            memcpy(to + p->ndep, deps + s->dep0, s->ndep * sizeof *deps);
            s->dep0 = p->ndep;
            if (before[i] != PLAIT_NONE)
                to[s->dep0 + s->ndep++] = before[i];
            p->ndep += s->ndep;
        }
    } else {
        free(p);
        p = NULL;
    }
    free(before);
    free(list);
    return p;
}

/* Do two plans of a rank send and receive the same blocks? */
static enum plait_status compare_messages(const struct plait_plan *x, const struct plait_plan *y, bool *same)
{
    uint32_t nx, ny, *in_x = list_messages(x, &nx), *in_y = list_messages(y, &ny);
    const bool room = in_x != NULL && in_y != NULL;

    *same = nx == ny && x->nblk == y->nblk;
    for (uint32_t k = 0; room && *same && k < nx; k++) {
        const struct plait_step *a = &x->step[in_x[k]], *b = &y->step[in_y[k]];
        *same =
            a->verb == b->verb && a->peer == b->peer && a->lane == b->lane && a->blk == b->blk && a->nblk == b->nblk;
    }
    free(in_x);
    free(in_y);
    return room ? PLAIT_OK : plait_fail_memory("out of memory to bind a plan");
}

static uint32_t find(const uint32_t *node, uint32_t i)
{
    while (node[i] != i)
        i = node[i];
    return i;
}

/*
 * Two plans of a rank, with the same messages, as one that waits for whatever either of them waits for. A message is a
 * step of both, done once. So what runs to the end with this one does with either.
 *
 * node  [x->nstep] and then [y->nstep], as each plan is fused; as the merged one is
 */
static struct plait_plan *merge(const struct plait_plan *x, const struct plait_plan *y, uint32_t *node)
{
    const uint32_t nstep = x->nstep + y->nstep, ndep = x->ndep + y->ndep;
    struct plait_plan *p = malloc(sizeof *p + nstep * sizeof *p->step + ndep * sizeof(uint32_t));
    uint32_t nx, ny, *in_x = list_messages(x, &nx), *in_y = list_messages(y, &ny);

    if (p != NULL && in_x != NULL && in_y != NULL) {
        memcpy(p, x, sizeof *p + x->nstep * sizeof *p->step);
        memcpy(p->step + x->nstep, y->step, y->nstep * sizeof *p->step);
        p->nstep = nstep;
        p->ndep = ndep;
        uint32_t *deps = (uint32_t *)(uintptr_t)plait_plan_deps(p);
        memcpy(deps, plait_plan_deps(x), x->ndep * sizeof *deps);
        for (uint32_t i = 0; i < y->ndep; i++)
            deps[x->ndep + i] = plait_plan_deps(y)[i] + x->nstep;
        for (uint32_t i = x->nstep; i < nstep; i++) {
            p->step[i].dep0 += x->ndep;
            node[i] += x->nstep;
            if (p->step[i].peer >= 0) {
                p->step[i].verb = PLAIT_STEP_COPY;
                p->step[i].peer = -1;
            }
        }
        for (uint32_t k = 0; k < nx; k++)
            node[find(node, in_y[k] + x->nstep)] = find(node, in_x[k]);
        for (uint32_t i = 0; i < nstep; i++)
            node[i] = find(node, i);
    } else {
        free(p);
        p = NULL;
    }
    free(in_x);
    free(in_y);
    return p;
}

/* What a rank waits for; `other` as in prove(). */
static struct plait_plan *waits_of(const struct plait_plan *plan, const struct plait_plan *other, uint32_t *node)
{
    struct plait_plan *own = with_window(plan), *second = other != NULL ? with_window(other) : NULL, *both = NULL;

    if (other == NULL)
        return own;
    if (own != NULL && second != NULL)
        both = merge(own, second, node);
    plait_plan_destroy(own);
    plait_plan_destroy(second);
    return both;
}

static enum plait_status prove_waits(struct plait_plan *const *plans, struct plait_plan *const *others,
                                     uint32_t *const *nodes, const char *spec, uint32_t nrank, bool *out)
{
    struct plait_plan **waits = calloc((size_t)nrank + 1, sizeof *waits);
    enum plait_status status = waits != NULL ? PLAIT_OK : PLAIT_ERR_NOMEM;

    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++)
        if ((waits[r] = waits_of(plans[r], others != NULL ? others[r] : NULL, nodes[r])) == NULL)
            status = PLAIT_ERR_NOMEM;
    if (status == PLAIT_OK)
        status = plait_check_deadlock(spec, (const struct plait_plan *const *)waits, nrank,
                                      (const uint32_t *const *)nodes, NULL);
    else
        plait_fail_memory("out of memory to bind a plan");
    destroy_all(waits, nrank);
    *out = status == PLAIT_OK;
    return status == PLAIT_ERR_PLAN ? PLAIT_OK : status;
}

enum plait_status plait_prove_waits(struct plait_plan *const *plans, uint32_t *const *nodes, const char *spec,
                                    uint32_t nrank, bool *out)
{
    return prove_waits(plans, NULL, nodes, spec, nrank, out);
}

/* others: NULL, or others[r] is a plan that rank r may run in the place of plans[r], or NULL */
static enum plait_status prove(struct plait_plan *const *plans, struct plait_plan *const *others, const char *spec,
                               uint32_t nrank, enum plait_fusing fusing, bool *out)
{
    uint32_t **nodes = calloc((size_t)nrank + 1, sizeof *nodes);
    enum plait_status status = nodes != NULL ? PLAIT_OK : plait_fail_memory("out of memory to bind a plan");

    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++) {
        const struct plait_plan *other = others != NULL ? others[r] : NULL;
        nodes[r] = malloc((plans[r]->nstep + (other != NULL ? other->nstep : 0) + 1) * sizeof *nodes[r]);
        status = nodes[r] != NULL ? plait_fuse(plans[r], fusing, nodes[r])
                                  : plait_fail_memory("out of memory to bind a plan");
        if (status == PLAIT_OK && other != NULL)
            status = plait_fuse(other, fusing, nodes[r] + plans[r]->nstep);
    }
    if (status == PLAIT_OK)
        status = prove_waits(plans, others, nodes, spec, nrank, out);
    for (uint32_t r = 0; nodes != NULL && r < nrank; r++)
        free(nodes[r]);
    free(nodes);
    return status;
}

enum plait_status plait_prog_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                   enum plait_fusing fusing, bool *out)
{
    struct plait_plan **plans;
    enum plait_status status = emit_all(alg, shape, &plans);

    if (status == PLAIT_OK)
        status = prove(plans, NULL, spec, shape->nrank, fusing, out);
    destroy_all(plans, shape->nrank);
    return status;
}

/* Fuse as much as cannot deadlock; *proved: something is. */
static enum plait_status choose_fusing(struct plait_plan *const *plans, struct plait_plan *const *others,
                                       const char *spec, uint32_t nrank, bool hop, enum plait_fusing *out, bool *proved)
{
    enum plait_status status = PLAIT_OK;

    *proved = false;
    for (int fusing = hop ? PLAIT_FUSE_LOCAL : PLAIT_FUSE_PROVED;
         fusing >= PLAIT_FUSE_NONE && !*proved && status == PLAIT_OK; fusing--) {
        *out = (enum plait_fusing)fusing;
        status = prove(plans, others, spec, nrank, *out, proved);
    }
    return status;
}

/*
 * Partial sums may be wider than other values, and only results are divided, so that a step cannot have both in one span.
 * Every rank looks at the steps of all: it is refused on all or on none.
 */
static enum plait_status find_kinds(struct plait_plan **plans, const char *spec, const struct plait_shape *shape,
                                    uint32_t rank, unsigned char *kinds)
{
    struct plait_step_of uneven;
    enum plait_status status =
        plait_check_values(spec, shape, (const struct plait_plan *const *)plans, rank, kinds, &uneven);

    if (status == PLAIT_OK && uneven.rank != PLAIT_NONE)
        status = plait_fail(PLAIT_ERR_UNSUPPORTED,
                            "algorithm '%s' has partial sums and other values in one step (rank %u step %u), so it can "
                            "neither round once nor average; use PLAIT_ROUND_HOP and another operator",
                            spec, uneven.rank, uneven.step);
    return status;
}

/* plans: all; NULL: there are many, and those of ranks at equal distances are emitted */
static enum plait_status hash_plans(const struct plait_alg *alg, const struct plait_shape *shape,
                                    struct plait_plan *const *plans, struct plait_proof *out)
{
    const uint32_t n = plans != NULL ? shape->nrank : SAMPLE;
    enum plait_status status = PLAIT_OK;

    out->hash = PLAIT_HASH_START;
    out->sliceable =
        plans != NULL || plait_block_count(shape->coll, shape->nrank) == 0; /* else not known of a sample */
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

static bool is_rooted(const struct plait_shape *shape)
{
    return plait_geometry_of(shape->coll, shape->nrank, shape->root, 0, 1).rooted;
}

struct plait_shape plait_common_shape(const struct plait_alg *alg, const struct plait_shape *shape)
{
    struct plait_shape common = *shape;

    if (is_rooted(shape) || plait_is_of_library(alg))
        common.inplace = false;
    return common;
}

/* own: emitted before; again: now. */
static enum plait_status check_pure(const char *spec, const struct plait_plan *own, const struct plait_plan *again)
{
    if (again->bytes == own->bytes && memcmp(again, own, own->bytes) == 0)
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_PLAN,
        "algorithm '%s' emits another plan for rank %u when it is asked again; emit may depend on shape and "
        "rank only",
        spec, own->rank);
}

/*
 * *others: the plans that work in place, of the ranks of which only they themselves know that, as far as these have the
 * messages of those in plans[]. Any other can never be right.
 */
static enum plait_status emit_others(const struct plait_alg *alg, const struct plait_shape *common,
                                     struct plait_plan *const *plans, struct plait_plan ***others)
{
    struct plait_shape inplace = *common;
    enum plait_status status = PLAIT_OK;

    *others = calloc((size_t)common->nrank + 1, sizeof **others);
    if (*others == NULL)
        return plait_fail_memory("out of memory to bind a plan");
    inplace.inplace = true;
    if (common->inplace || plait_geometry_of(common->coll, 1, 0, 0, 1).kind == PLAIT_KIND_PAIR ||
        !(is_rooted(common) || plait_is_of_library(alg)) || !alg->applies(alg, &inplace))
        return PLAIT_OK;
    for (uint32_t r = 0; r < common->nrank && status == PLAIT_OK; r++) {
        bool same = false;
        if (is_rooted(common) && r != common->root)
            continue;
        status = plait_plan_emit(alg, &inplace, r, &(*others)[r]);
        if (status == PLAIT_OK)
            status = compare_messages(plans[r], (*others)[r], &same);
        if (status == PLAIT_OK && !same) {
            plait_plan_destroy((*others)[r]);
            (*others)[r] = NULL;
        }
    }
    return status;
}

/* As much as is right whichever plan a rank runs; if nothing is, as what all ranks know, unless this rank asks for more. */
static enum plait_status settle_fusing(const struct plait_plan *own, struct plait_plan *const *plans,
                                       struct plait_plan *const *others, const char *spec, bool hop,
                                       enum plait_fusing *out)
{
    const uint32_t nrank = own->nrank;
    bool proved;
    enum plait_status status = choose_fusing(plans, others, spec, nrank, hop, out, &proved);

    if (status == PLAIT_OK && !proved && (others[own->rank] == NULL || own->inplace == plans[own->rank]->inplace))
        status = choose_fusing(plans, NULL, spec, nrank, hop, out, &proved);
    if (status == PLAIT_OK && !proved)
        status = plait_fail(
            PLAIT_ERR_PLAN,
            "algorithm '%s' can deadlock with %u ranks: a message overtakes %d others between the same ranks, "
            "and they wait for it; let lanes be taken in the order in which they are sent",
            spec, nrank, PLAIT_WINDOW);
    return status;
}

enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out)
{
    const uint32_t rank = own->rank;
    const bool few = shape->nrank <= PLAIT_MOST_PROVED;
    const struct plait_shape common = plait_common_shape(alg, shape);
    struct plait_plan **plans = NULL, **others = NULL;
    enum plait_status status = few || kinds != NULL ? emit_all(alg, &common, &plans) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = hash_plans(alg, &common, plans, out);
    out->fusing = PLAIT_FUSE_LOCAL;
    if (status == PLAIT_OK && few) {
        status = emit_others(alg, &common, plans, &others);
        const struct plait_plan *again = status != PLAIT_OK                 ? NULL
                                         : common.inplace == shape->inplace ? plans[rank]
                                                                            : others[rank];
        if (again != NULL)
            status = check_pure(spec, own, again);
        else if (status == PLAIT_OK && !(is_rooted(shape) && rank != shape->root))
            status = plait_fail(PLAIT_ERR_PLAN,
                                "algorithm '%s' has other messages in place than out of place, and the other ranks do "
                                "not know that rank %u works in place",
                                spec, rank);
        for (uint32_t r = 0; status == PLAIT_OK && r < shape->nrank; r++)
            out->sliceable &= others[r] == NULL || plait_plan_sliceable(others[r]);
        if (status == PLAIT_OK)
            status = settle_fusing(own, plans, others, spec, hop, &out->fusing);
    }
    if (status == PLAIT_OK && kinds != NULL && common.inplace != shape->inplace) {
        destroy_all(plans, shape->nrank);
        plans = NULL;
        status = emit_all(alg, shape, &plans);
    }
    if (status == PLAIT_OK && kinds != NULL)
        status = find_kinds(plans, spec, shape, rank, kinds);
    destroy_all(plans, shape->nrank);
    destroy_all(others, shape->nrank);
    return status;
}
