/* SPDX-License-Identifier: BSD-3-Clause */
#include "prove.h"

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan_check.h"
#include "plan/scratch.h"
#include "select.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE 8 /* ranks whose plans are hashed above PLAIT_MOST_PROVED ranks */

/* ---- Do all plans run to the end together? ------------------------------------------------------------------ */

/* Per peer and direction, the messages of a lane are numbered after those of the lane before. */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number)
{
    for (unsigned lane = 0; lane < plan->nlane; lane++)
        for (uint32_t i = 0; i < plan->nstep; i++) {
            const struct plait_step *s = &plan->step[i];
            if (s->lane == lane && s->peer >= 0)
                number[i] = (s->verb == PLAIT_STEP_SEND ? nsend : nrecv)[s->peer]++;
        }
}

/* The *n steps that are messages: SENDs, then RECVs; each sorted by peer, then number. NULL: out of memory. */
static uint32_t *list_messages(struct plait_scratch *arrays, const struct plait_plan *plan, uint32_t *n)
{
    uint32_t *list = plait_scratch(arrays, plan->nstep, sizeof *list);
    uint32_t *number = plait_scratch(arrays, plan->nstep, sizeof *number);
    uint32_t *first = plait_scratch(arrays, 2 * (size_t)plan->nrank, sizeof *first);

    *n = 0;
    if (arrays->failed)
        return NULL;
    plait_number_messages(plan, first, first + plan->nrank, number);
    for (uint32_t k = 0; k < 2 * plan->nrank; k++) {
        const uint32_t count = first[k];
        first[k] = *n;
        *n += count;
    }
    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct plait_step *s = &plan->step[i];
        if (s->peer >= 0)
            list[first[s->verb == PLAIT_STEP_SEND ? (uint32_t)s->peer : plan->nrank + s->peer] + number[i]] = i;
    }
    return list;
}

/*
 * Copy a plan so that each SEND also waits for the SEND PLAIT_WINDOW before it, whose window slot it reuses. NULL: out
 * of memory.
 */
static struct plait_plan *with_window(struct plait_scratch *arrays, const struct plait_plan *plan)
{
    const uint32_t *deps = plait_plan_deps(plan);
    struct plait_plan *p = plait_scratch(arrays, 1, plan->bytes + plan->nstep * sizeof *deps);
    uint32_t *before = plait_scratch(arrays, plan->nstep, sizeof *before), n;
    const uint32_t *list = list_messages(arrays, plan, &n);

    if (list == NULL)
        return NULL;
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
    return p;
}

enum plait_status plait_prove_waits(struct plait_plan *const *plans, uint32_t *const *nodes, const char *spec,
                                    uint32_t nrank, bool *out)
{
    struct plait_scratch arrays = { 0 };
    struct plait_plan **waits = plait_scratch(&arrays, nrank, sizeof *waits);
    enum plait_status status;

    for (uint32_t r = 0; !arrays.failed && r < nrank; r++)
        waits[r] = with_window(&arrays, plans[r]);
    if (arrays.failed)
        status = plait_fail_memory("out of memory to bind a plan");
    else
        status = plait_check_deadlock(spec, (const struct plait_plan *const *)waits, nrank,
                                      (const uint32_t *const *)nodes, NULL);
    plait_scratch_free(&arrays);
    *out = status == PLAIT_OK;
    return status == PLAIT_ERR_PLAN ? PLAIT_OK : status;
}

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
        status = plait_prove_waits(plans, nodes, spec, nrank, out);
    plait_scratch_free(&arrays);
    return status;
}

/* Find the most fusing that cannot deadlock. *proved false: even PLAIT_FUSE_NONE can. */
static enum plait_status choose_fusing(struct plait_plan *const *plans, const char *spec, uint32_t nrank, bool hop,
                                       enum plait_fusing *out, bool *proved)
{
    enum plait_status status = PLAIT_OK;

    *proved = false;
    for (int fusing = hop ? PLAIT_FUSE_LOCAL : PLAIT_FUSE_PROVED;
         fusing >= PLAIT_FUSE_NONE && !*proved && status == PLAIT_OK; fusing--) {
        *out = (enum plait_fusing)fusing;
        status = prove(plans, spec, nrank, *out, proved);
    }
    return status;
}

/* ---- Values, and the hash ------------------------------------------------------------------------------------ */

/*
 * Partial sums may be wider than other values, and only results are divided, so one span must not hold both. Every rank
 * checks the steps of all ranks, so all ranks refuse the algorithm or none does.
 */
static enum plait_status find_kinds(struct plait_plan **plans, const char *spec, const struct plait_shape *shape,
                                    uint32_t rank, unsigned char *kinds)
{
    unsigned char **of_rank = calloc(shape->nrank, sizeof *of_rank);
    struct plait_step_of uneven;

    if (of_rank == NULL)
        return plait_fail_memory("out of memory to bind a plan");
    of_rank[rank] = kinds;
    enum plait_status status =
        plait_check_values(spec, shape, (const struct plait_plan *const *)plans, of_rank, &uneven);
    free(of_rank);
    if (status == PLAIT_OK && uneven.rank != PLAIT_NONE)
        status = plait_fail(PLAIT_ERR_UNSUPPORTED,
                            "algorithm '%s' mixes partial sums with other values in one step (rank %u step %u), so it "
                            "can neither round once nor average; use PLAIT_ROUND_HOP and another operator",
                            spec, uneven.rank, uneven.step);
    return status;
}

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

struct plait_shape plait_common_shape(const struct plait_alg *alg, const struct plait_shape *shape)
{
    struct plait_shape common = *shape;

    if (plait_geometry_of(shape->coll, 1, 0, 0, 1).rooted || plait_is_of_library(alg))
        common.inplace = false;
    return common;
}

/* Did the algorithm emit the same plan twice? */
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

/* Prove all ranks' plans together; for at most PLAIT_MOST_PROVED ranks. */
static enum plait_status prove_all(const char *spec, const struct plait_plan *own, bool hop,
                                   struct plait_plan *const *plans, struct plait_proof *out)
{
    const struct plait_plan *again = plans[own->rank];
    enum plait_status status = own->inplace == again->inplace ? check_pure(spec, own, again) : PLAIT_OK;
    bool proved = true;

    if (status == PLAIT_OK)
        status = choose_fusing(plans, spec, own->nrank, hop, &out->fusing, &proved);
    if (status != PLAIT_OK || proved)
        return status;
    return plait_fail(PLAIT_ERR_PLAN,
                      "algorithm '%s' can deadlock with %u ranks: a message overtakes %d earlier ones of the same pair "
                      "of ranks, a whole window; receive lanes in the order in which they are sent",
                      spec, own->nrank, PLAIT_WINDOW);
}

enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out)
{
    const bool few = shape->nrank <= PLAIT_MOST_PROVED;
    const struct plait_shape common = plait_common_shape(alg, shape);
    struct plait_plan **plans = NULL;
    enum plait_status status = few || kinds != NULL ? plait_plans_emit(alg, &common, &plans) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = hash_plans(alg, &common, plans, out);
    out->fusing = PLAIT_FUSE_LOCAL;
    if (status == PLAIT_OK && few)
        status = prove_all(spec, own, hop, plans, out);
    if (status == PLAIT_OK && kinds != NULL && common.inplace != shape->inplace) {
        plait_plans_destroy(plans, shape->nrank);
        plans = NULL;
        status = plait_plans_emit(alg, shape, &plans);
    }
    if (status == PLAIT_OK && kinds != NULL)
        status = find_kinds(plans, spec, shape, own->rank, kinds);
    plait_plans_destroy(plans, shape->nrank);
    return status;
}
