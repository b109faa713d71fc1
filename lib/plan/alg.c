/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds an algorithm by its spec, such as "torus:4x8", and checks algorithms, claims and shapes. */
#include <plait/plan.h>

#include "base/ascii.h"
#include "base/status.h"
#include "plan_check.h"

#include <string.h>

const char *plait_alg_fault(const struct plait_alg *alg)
{
    if (alg->name == NULL || alg->name[0] == '\0' || strlen(alg->name) >= PLAIT_MAX_SPEC)
        return "has no name, or one longer than 63 characters";
    if (alg->params == NULL || alg->text == NULL || alg->source == NULL)
        return "has no params, text or source; \"\" says nothing";
    if (alg->applies == NULL || alg->emit == NULL || alg->claim == NULL)
        return "has no applies, emit or claim";
    return (unsigned)alg->coll >= PLAIT_NCOLL ? "is for a coll that is no enum plait_coll" : NULL;
}

_Static_assert(PLAIT_MAX_SPEC == 64, "as the text above says");

const char *plait_claim_fault(const struct plait_claim *claim)
{
    return claim->nblk == 0 || claim->nblk >= 1u << 30 ? "nblk is not from 1 to 2^30-1" : NULL;
}

bool plait_is_of_library(const struct plait_alg *alg)
{
    for (const struct plait_alg *const *own = plait_algs; *own != NULL; own++)
        if (*own == alg)
            return true;
    return false;
}

enum plait_status plait_shape_check(const char *function, const struct plait_shape *shape)
{
    if ((unsigned)shape->coll >= PLAIT_NCOLL)
        return plait_fail(PLAIT_ERR_ARG, "%s: coll is %d, which is no enum plait_coll", function, (int)shape->coll);
    const struct plait_geometry g = plait_geometry_of(shape->coll, shape->nrank, 0, 0, 1);
    if (shape->nrank == 0 || (g.rooted && shape->root >= shape->nrank))
        return plait_fail(PLAIT_ERR_ARG, "%s: root is %u, but the shape has %u ranks", function, shape->root,
                          shape->nrank);
    if (g.kind == PLAIT_KIND_PAIR && shape->inplace)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s has no form in place", function, plait_coll_name(shape->coll));
    return PLAIT_OK;
}

static const char *nearest_alg(const struct plait_alg *const *algs, enum plait_coll coll, const char *name)
{
    const char *best = NULL;
    unsigned least = UINT32_MAX;

    for (; *algs != NULL; algs++) {
        const unsigned d = plait_distance(name, (*algs)->name);
        if ((*algs)->coll == coll && d < least) {
            least = d;
            best = (*algs)->name;
        }
    }
    return best;
}

enum plait_status plait_alg_find(const struct plait_alg *const *algs, const char *spec, struct plait_shape *shape,
                                 const struct plait_alg **out)
{
    const char *colon;
    size_t length;
    char name[PLAIT_MAX_SPEC];

    if (algs == NULL || spec == NULL || shape == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_find: an argument is NULL");
    if ((unsigned)shape->coll >= PLAIT_NCOLL)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_find: coll is %d, which is no enum plait_coll", (int)shape->coll);
    const struct plait_geometry g = plait_geometry_of(shape->coll, shape->nrank, 0, 0, 0);
    if (g.rooted && shape->root >= shape->nrank)
        return plait_fail(PLAIT_ERR_CONFIG, "%s: root is %u, but there are %u ranks", plait_coll_name(shape->coll),
                          shape->root, shape->nrank);
    if (g.kind == PLAIT_KIND_PAIR && shape->inplace)
        return plait_fail(PLAIT_ERR_CONFIG, "%s has no form in place: every block of the input goes to another rank",
                          plait_coll_name(shape->coll));
    colon = strchr(spec, ':');
    length = colon != NULL ? (size_t)(colon - spec) : strlen(spec);

    if (strlen(spec) >= sizeof name)
        return plait_fail(PLAIT_ERR_CONFIG, "algorithm '%.70s...' is longer than %zu characters", spec,
                          sizeof name - 1);
    memcpy(name, spec, length);
    name[length] = '\0';
    shape->nparam = 0;
    memset(shape->param, 0, sizeof shape->param);
    for (const struct plait_alg *const *a = algs; *a != NULL; a++)
        if (plait_alg_fault(*a) != NULL)
            return plait_fail(PLAIT_ERR_ARG, "plait_alg_find: algs[%td] %s", a - algs, plait_alg_fault(*a));
    for (const struct plait_alg *const *a = algs; *a != NULL; a++) {
        const struct plait_alg *alg = *a;
        const char *params = colon != NULL ? colon + 1 : "";
        if (alg->coll != shape->coll || !plait_same_name(alg->name, name))
            continue;
        if (alg->parse != NULL ? !alg->parse(alg, params, shape) : colon != NULL)
            return plait_fail(PLAIT_ERR_CONFIG, "algorithm '%s': parameters '%s' are not of the form %s%s", spec,
                              params, alg->name, alg->params);
        if (!alg->applies(alg, shape))
            return plait_fail(PLAIT_ERR_CONFIG, "algorithm '%s' does not fit %u ranks%s%s", spec, shape->nrank,
                              alg->remedy != NULL ? "; " : "", alg->remedy != NULL ? alg->remedy : "");
        *out = alg;
        return PLAIT_OK;
    }
    const char *best = nearest_alg(algs, shape->coll, name);
    return plait_fail(PLAIT_ERR_CONFIG, "no algorithm '%s' for %s%s%s%s (plait-plan list shows all)", name,
                      plait_coll_name(shape->coll), best != NULL ? "; did you mean '" : "",
                      best != NULL ? best : ", which has none", best != NULL ? "'?" : "");
}
