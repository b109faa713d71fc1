/* SPDX-License-Identifier: BSD-3-Clause */
#include "prove.h"

#include "comm.h"
#include "hash.h"
#include "plan_check.h"
#include "status.h"

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

/* before[i]: the SEND that is PLAIT_WINDOW messages before SEND i on the way to the same peer, or NONE. */
static bool find_window(const struct plait_plan *plan, uint32_t *before)
{
    const uint32_t n = plan->nstep + 1;
    uint32_t *number = malloc(n * sizeof *number), *sends = malloc(n * sizeof *sends); /* by peer, then by number */
    uint32_t *nsend = calloc(2 * (size_t)plan->nrank, sizeof *nsend), *first = malloc(plan->nrank * sizeof *first);
    const bool room = number && sends && nsend && first;

    if (room) {
        plait_number_messages(plan, nsend, nsend + plan->nrank, number);
        for (uint32_t r = 0, at = 0; r < plan->nrank; at += nsend[r++])
            first[r] = at;
        for (uint32_t i = 0; i < plan->nstep; i++)
            if (plan->step[i].verb == PLAIT_STEP_SEND)
                sends[first[plan->step[i].peer] + number[i]] = i;
        for (uint32_t i = 0; i < plan->nstep; i++) {
            const bool late = plan->step[i].verb == PLAIT_STEP_SEND && number[i] >= PLAIT_WINDOW;
            before[i] = late ? sends[first[plan->step[i].peer] + number[i] - PLAIT_WINDOW] : PLAIT_NONE;
        }
    }
    free(number);
    free(sends);
    free(nsend);
    free(first);
    return room;
}

/* A copy of a plan in which a SEND also waits for the one whose place in the window it takes over. */
static struct plait_plan *with_window(const struct plait_plan *plan)
{
    const uint32_t *deps = plait_plan_deps(plan);
    struct plait_plan *p = malloc(plan->bytes + plan->nstep * sizeof *deps);
    uint32_t *before = malloc((plan->nstep + 1) * sizeof *before);

    if (p != NULL && before != NULL && find_window(plan, before)) {
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
    return p;
}

enum plait_status plait_prove_waits(struct plait_plan *const *plans, uint32_t *const *nodes, const char *spec,
                                    uint32_t nrank, bool *out)
{
    struct plait_plan **windows = calloc((size_t)nrank + 1, sizeof *windows);
    enum plait_status status = windows != NULL ? PLAIT_OK : PLAIT_ERR_NOMEM;

    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++)
        if ((windows[r] = with_window(plans[r])) == NULL)
            status = PLAIT_ERR_NOMEM;
    if (status == PLAIT_OK)
        status = plait_check_deadlock(spec, (const struct plait_plan *const *)windows, nrank,
                                      (const uint32_t *const *)nodes, NULL);
    else
        plait_fail_memory("out of memory to bind a plan");
    destroy_all(windows, nrank);
    *out = status == PLAIT_OK;
    return status == PLAIT_ERR_PLAN ? PLAIT_OK : status;
}

static enum plait_status prove(struct plait_plan **plans, const char *spec, uint32_t nrank, enum plait_fusing fusing,
                               bool *out)
{
    uint32_t **nodes = calloc((size_t)nrank + 1, sizeof *nodes);
    enum plait_status status = nodes != NULL ? PLAIT_OK : plait_fail_memory("out of memory to bind a plan");

    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++) {
        nodes[r] = malloc((plans[r]->nstep + 1) * sizeof *nodes[r]);
        status = nodes[r] != NULL ? plait_fuse(plans[r], fusing, nodes[r])
                                  : plait_fail_memory("out of memory to bind a plan");
    }
    if (status == PLAIT_OK)
        status = plait_prove_waits(plans, nodes, spec, nrank, out);
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
        status = prove(plans, spec, shape->nrank, fusing, out);
    destroy_all(plans, shape->nrank);
    return status;
}

/*
 * Fuse as much as cannot deadlock.
 *
 * other  the root's plan if it works in place, which only the root knows: it may run this one or that in plans[]; or NULL
 */
static enum plait_status choose_fusing(struct plait_plan **plans, struct plait_plan *other, const char *spec,
                                       const struct plait_shape *shape, bool hop, enum plait_fusing *out)
{
    struct plait_plan *const first = plans[shape->root];
    enum plait_status status = PLAIT_OK;
    bool proved = false;

    for (int fusing = hop ? PLAIT_FUSE_LOCAL : PLAIT_FUSE_PROVED; fusing >= PLAIT_FUSE_NONE && !proved; fusing--) {
        *out = (enum plait_fusing)fusing;
        status = prove(plans, spec, shape->nrank, *out, &proved);
        if (status == PLAIT_OK && proved && other != NULL) {
            plans[shape->root] = other;
            status = prove(plans, spec, shape->nrank, *out, &proved);
            plans[shape->root] = first;
        }
        if (status != PLAIT_OK)
            return status;
    }
    if (proved)
        return PLAIT_OK;
    if (other != NULL) /* never right in place, then: the root will be told so if it asks for that */
        return choose_fusing(plans, NULL, spec, shape, hop, out);
    return plait_fail(
        PLAIT_ERR_PLAN,
        "algorithm '%s' can deadlock with %u ranks: a message overtakes %d others between the same ranks, "
        "and they wait for it; let lanes be taken in the order in which they are sent",
        spec, shape->nrank, PLAIT_WINDOW);
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

/* All plans, or when there are many those of ranks at equal distances. */
static enum plait_status hash_plans(const struct plait_alg *alg, const struct plait_shape *shape,
                                    struct plait_proof *out)
{
    const uint32_t n = shape->nrank <= PLAIT_MOST_PROVED ? shape->nrank : SAMPLE;
    enum plait_status status = PLAIT_OK;

    out->hash = PLAIT_HASH_START;
    out->sliceable = true;
    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++) {
        struct plait_plan *plan = NULL;
        const uint32_t rank = n == shape->nrank ? i : (uint32_t)((uint64_t)i * (shape->nrank - 1) / (n - 1));
        status = plait_plan_emit(alg, shape, rank, &plan);
        if (status == PLAIT_OK) {
            out->hash = plait_hash(out->hash, plan, plan->bytes);
            out->sliceable &= plait_plan_sliceable(plan);
        }
        plait_plan_destroy(plan);
    }
    return status;
}

struct plait_shape plait_common_shape(const struct plait_shape *shape)
{
    struct plait_shape common = *shape;

    if (plait_geometry_of(shape->coll, shape->nrank, shape->root, 0, 1).rooted)
        common.inplace = false;
    return common;
}

/* own: emitted before; again: now, NULL where it was not. */
static enum plait_status check_pure(const char *spec, const struct plait_plan *own, const struct plait_plan *again)
{
    if (again == NULL || (again->bytes == own->bytes && memcmp(again, own, own->bytes) == 0))
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_PLAN,
        "algorithm '%s' emits another plan for rank %u when it is asked again; emit may depend on shape and "
        "rank only",
        spec, own->rank);
}

enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out)
{
    const uint32_t rank = own->rank;
    const bool few = shape->nrank <= PLAIT_MOST_PROVED;
    const struct plait_shape common = plait_common_shape(shape);
    struct plait_shape inplace = common;
    struct plait_plan **plans = NULL, *other = NULL;
    enum plait_status status = hash_plans(alg, &common, out);

    if (!few && plait_block_count(shape->coll, shape->nrank) > 0)
        out->sliceable = false; /* of a sample it would not be known */
    out->fusing = PLAIT_FUSE_LOCAL;
    if (status == PLAIT_OK && (few || kinds != NULL))
        status = emit_all(alg, &common, &plans);
    inplace.inplace = true;
    if (status == PLAIT_OK && few && plait_geometry_of(shape->coll, shape->nrank, 0, 0, 1).rooted &&
        alg->applies(alg, &inplace))
        status = plait_plan_emit(alg, &inplace, shape->root, &other);
    if (status == PLAIT_OK && few)
        status = check_pure(spec, own,
                            common.inplace == shape->inplace ? plans[rank]
                            : rank == shape->root            ? other
                                                             : NULL);
    if (status == PLAIT_OK && few)
        status = choose_fusing(plans, other, spec, shape, hop, &out->fusing);
    plait_plan_destroy(other);
    if (status == PLAIT_OK && kinds != NULL && common.inplace != shape->inplace) {
        destroy_all(plans, shape->nrank);
        plans = NULL;
        status = emit_all(alg, shape, &plans);
    }
    if (status == PLAIT_OK && kinds != NULL)
        status = find_kinds(plans, spec, shape, rank, kinds);
    destroy_all(plans, shape->nrank);
    return status;
}
