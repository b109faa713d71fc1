/* SPDX-License-Identifier: BSD-3-Clause */
#include "prove.h"

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan_check.h"
#include "plan/scratch.h"
#include "select.h"
#include "waits.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE 8 /* ranks whose plans are hashed above PLAIT_MOST_PROVED ranks */

/* others: NULL, or others[r] is a plan that rank r may run instead of plans[r], or NULL */
static enum plait_status prove(struct plait_plan *const *plans, struct plait_plan *const *others, const char *spec,
                               uint32_t nrank, enum plait_fusing fusing, bool *out)
{
    struct plait_scratch arrays = { 0 };
    uint32_t **nodes = plait_scratch(&arrays, nrank, sizeof *nodes);
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; nodes != NULL && r < nrank; r++)
        nodes[r] = plait_scratch(
            &arrays, plans[r]->nstep + (others != NULL && others[r] != NULL ? others[r]->nstep : 0), sizeof *nodes[r]);
    if (arrays.failed)
        status = plait_fail_memory("out of memory to bind a plan");
    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++) {
        const struct plait_plan *other = others != NULL ? others[r] : NULL;
        status = plait_fuse(plans[r], fusing, nodes[r]);
        if (status == PLAIT_OK && other != NULL)
            status = plait_fuse(other, fusing, nodes[r] + plans[r]->nstep);
    }
    if (status == PLAIT_OK)
        status = plait_prove_waits(plans, others, nodes, spec, nrank, out);
    plait_scratch_free(&arrays);
    return status;
}

/* Find the most fusing that cannot deadlock. *proved false: even PLAIT_FUSE_NONE can. */
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

/* (*others)[r]: the in-place plan of a rank r that alone knows whether it works in place; it has the same messages. */
static enum plait_status emit_others(const struct plait_alg *alg, const struct plait_shape *common,
                                     struct plait_plan ***others)
{
    struct plait_shape inplace = *common;
    enum plait_status status = PLAIT_OK;

    *others = calloc((size_t)common->nrank + 1, sizeof **others);
    if (*others == NULL)
        return plait_fail_memory("out of memory to bind a plan");
    inplace.inplace = true;
    if (!plait_is_of_library(alg) || plait_geometry_of(common->coll, 1, 0, 0, 1).kind == PLAIT_KIND_PAIR ||
        !alg->applies(alg, &inplace))
        return PLAIT_OK;
    for (uint32_t r = 0; r < common->nrank && status == PLAIT_OK; r++)
        if (!is_rooted(common) || r == common->root)
            status = plait_plan_emit(alg, &inplace, r, &(*others)[r]);
    return status;
}

/* Prove all ranks' plans together; for at most PLAIT_MOST_PROVED ranks. */
static enum plait_status prove_all(const struct plait_alg *alg, const char *spec, const struct plait_shape *common,
                                   const struct plait_plan *own, bool hop, struct plait_plan **plans,
                                   struct plait_plan ***others, struct plait_proof *out)
{
    enum plait_status status = emit_others(alg, common, others);
    bool proved = true;

    if (status == PLAIT_OK)
        status =
            check_pure(spec, own, own->inplace == plans[own->rank]->inplace ? plans[own->rank] : (*others)[own->rank]);
    for (uint32_t r = 0; r < common->nrank && status == PLAIT_OK; r++)
        out->sliceable &= (*others)[r] == NULL || plait_plan_sliceable((*others)[r]);
    if (status == PLAIT_OK)
        status = choose_fusing(plans, *others, spec, common->nrank, hop, &out->fusing, &proved);
    if (status != PLAIT_OK || proved)
        return status;
    return plait_fail(PLAIT_ERR_PLAN,
                      "algorithm '%s' can deadlock with %u ranks: a message overtakes %d earlier ones of the same pair "
                      "of ranks, a whole window; receive lanes in the order in which they are sent",
                      spec, common->nrank, PLAIT_WINDOW);
}

enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out)
{
    const bool few = shape->nrank <= PLAIT_MOST_PROVED;
    const struct plait_shape common = plait_common_shape(alg, shape);
    struct plait_plan **plans = NULL, **others = NULL;
    enum plait_status status = few || kinds != NULL ? plait_plans_emit(alg, &common, &plans) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = hash_plans(alg, &common, plans, out);
    out->fusing = PLAIT_FUSE_LOCAL;
    if (status == PLAIT_OK && few)
        status = prove_all(alg, spec, &common, own, hop, plans, &others, out);
    if (status == PLAIT_OK && kinds != NULL && common.inplace != shape->inplace) {
        plait_plans_destroy(plans, shape->nrank);
        plans = NULL;
        status = plait_plans_emit(alg, shape, &plans);
    }
    if (status == PLAIT_OK && kinds != NULL)
        status = find_kinds(plans, spec, shape, own->rank, kinds);
    plait_plans_destroy(plans, shape->nrank);
    plait_plans_destroy(others, shape->nrank);
    return status;
}
