/* SPDX-License-Identifier: BSD-3-Clause */
#include "prog.h"

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan_check.h"
#include "plan/scratch.h"
#include "select.h"

#include <string.h>

#define SAMPLE 8 /* ranks whose plans are hashed above PLAIT_MOST_PROVED ranks */

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
                                      (const uint32_t *const *)nodes, PLAIT_WINDOW, NULL);
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

/* Prove all ranks' plans together, with the most fusing that cannot deadlock; for at most PLAIT_MOST_PROVED ranks. */
static enum plait_status prove_all(const char *spec, const struct plait_plan *own, bool hop,
                                   struct plait_plan *const *plans, struct plait_proof *out)
{
    const struct plait_plan *again = plans[own->rank];
    enum plait_status status = own->inplace == again->inplace ? check_pure(spec, own, again) : PLAIT_OK;
    bool proved = false;

    for (int f = hop ? PLAIT_FUSE_LOCAL : PLAIT_FUSE_PROVED; f >= PLAIT_FUSE_NONE && !proved && status == PLAIT_OK;
         f--) {
        out->fusing = (enum plait_fusing)f;
        status = prove(plans, spec, own->nrank, out->fusing, &proved);
    }
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
    /*
     * Partial sums may be wider than other values, and only results are divided, so one span must not hold both. Every
     * rank checks the steps of all ranks, so all ranks refuse the algorithm or none does.
     */
    if (status == PLAIT_OK && kinds != NULL)
        status = plait_check_values(spec, shape, (const struct plait_plan *const *)plans, own->rank, kinds);
    plait_plans_destroy(plans, shape->nrank);
    return status;
}
