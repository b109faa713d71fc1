/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates on one machine, and the predictions that were made so far. */
#include "forecast.h"
#include "machine.h"

#include "base/status.h"
#include "plan/plan_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 64

struct known {
    uint32_t candidate;
    enum plait_dtype type;
    size_t count;
    struct plait_prediction prediction;
};

struct plait_forecast {
    struct plait_machine machine;
    struct plait_shape shape;
    uint32_t *place, *node; /* [shape.nrank] or NULL */
    uint32_t *level;        /* [shape.nlevel * shape.nrank] or NULL */
    uint32_t *found;        /* nodes and levels, if the caller gave none */
    const struct plait_alg *const *algorithms;
    char (*spec)[PLAIT_MAX_SPEC];
    uint32_t ncandidate;
    struct known *known;
    size_t nknown, room;
};

/* ---- Creation ------------------------------------------------------------------------------------------- */

static uint32_t *copy_of(const uint32_t *from, size_t n, bool *ok)
{
    uint32_t *to = from != NULL ? malloc(n * sizeof *to) : NULL;

    if (to != NULL)
        memcpy(to, from, n * sizeof *to);
    *ok &= to != NULL || from == NULL;
    return to;
}

/* Nodes and levels as plait_simulate() finds them: without them no hierarchical algorithm fits. */
static enum plait_status find_nodes(struct plait_forecast *f)
{
    struct plait_hardware h;
    enum plait_status status = plait_hardware_create(&h, &f->machine, f->shape.nrank, f->place);

    if (status == PLAIT_OK)
        status = plait_hardware_shape(&h, &f->shape, &f->found);
    plait_hardware_destroy(&h);
    return status;
}

/* Add a candidate that the caller named, or one of all, which need not fit. */
static enum plait_status add(struct plait_forecast *f, const char *spec, bool named)
{
    struct plait_shape s = f->shape;
    const struct plait_alg *alg;
    const enum plait_status status = plait_alg_find(f->algorithms, spec, &s, &alg);

    if (status != PLAIT_OK)
        return named ? status : PLAIT_OK;
    if (f->ncandidate == MOST_CANDIDATES)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_create: more than %d algorithms", MOST_CANDIDATES);
    snprintf(f->spec[f->ncandidate++], sizeof *f->spec, "%s", spec);
    return PLAIT_OK;
}

static enum plait_status add_all(struct plait_forecast *f, const char *const *names)
{
    enum plait_status status = plait_alg_list(&f->algorithms);

    for (; names != NULL && *names != NULL && status == PLAIT_OK; names++)
        status = add(f, *names, true);
    for (const struct plait_alg *const *a = f->algorithms; names == NULL && status == PLAIT_OK && *a != NULL; a++)
        if ((*a)->coll == f->shape.coll)
            status = add(f, (*a)->name, false);
    if (status == PLAIT_OK && f->ncandidate == 0)
        status = plait_fail(PLAIT_ERR_CONFIG, "plait_forecast_create: no algorithm for %s of %" PRIu32 " ranks",
                            plait_coll_name(f->shape.coll), f->shape.nrank);
    return status;
}

static enum plait_status no_memory(const struct plait_forecast *f)
{
    return plait_fail_memory("out of memory for a forecast of %" PRIu32 " ranks", f->shape.nrank);
}

static enum plait_status fill(struct plait_forecast *f, const struct plait_forecast_options *o)
{
    bool ok = true;

    f->machine = *o->machine;
    f->shape = o->shape;
    f->place = copy_of(o->place, o->shape.nrank, &ok);
    f->shape.node = f->node = copy_of(o->shape.node, o->shape.nrank, &ok);
    f->shape.level = f->level =
        copy_of(o->shape.nlevel > 0 ? o->shape.level : NULL, (size_t)o->shape.nlevel * o->shape.nrank, &ok);
    f->spec = calloc(MOST_CANDIDATES, sizeof *f->spec);
    if (!ok || f->spec == NULL)
        return no_memory(f);
    const enum plait_status status = find_nodes(f);
    return status == PLAIT_OK ? add_all(f, o->algorithms) : status;
}

enum plait_status plait_forecast_create(const struct plait_forecast_options *options, struct plait_forecast **out)
{
    enum plait_status status;

    if (options == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_create: %s is NULL", out == NULL ? "out" : "options");
    status = plait_machine_check(options->machine);
    if (status == PLAIT_OK)
        status = plait_shape_check("plait_forecast_create", &options->shape);
    if (status != PLAIT_OK)
        return status;
    struct plait_forecast *f = calloc(1, sizeof *f);
    status = f != NULL ? fill(f, options) : plait_fail_memory("out of memory for a forecast");
    if (status == PLAIT_OK)
        *out = f;
    else
        plait_forecast_destroy(f);
    return status;
}

void plait_forecast_destroy(struct plait_forecast *f)
{
    if (f == NULL)
        return;
    free(f->place);
    free(f->node);
    free(f->level);
    free(f->found);
    free(f->spec);
    free(f->known);
    free(f);
}

const char *plait_forecast_algorithm(const struct plait_forecast *f, uint32_t k)
{
    return f != NULL && k < f->ncandidate ? f->spec[k] : NULL;
}

/* ---- Predictions ---------------------------------------------------------------------------------------- */

static const struct known *find(const struct plait_forecast *f, uint32_t k, enum plait_dtype type, size_t count)
{
    for (size_t i = f->nknown; i-- > 0;)
        if (f->known[i].candidate == k && f->known[i].type == type && f->known[i].count == count)
            return &f->known[i];
    return NULL;
}

static bool keep(struct plait_forecast *f, const struct known *k)
{
    if (f->nknown == f->room) {
        const size_t room = f->room > 0 ? 2 * f->room : 64;
        struct known *grown = realloc(f->known, room * sizeof *grown);
        if (grown == NULL)
            return false;
        f->known = grown;
        f->room = room;
    }
    f->known[f->nknown++] = *k;
    return true;
}

enum plait_status plait_forecast_time(struct plait_forecast *f, uint32_t k, enum plait_dtype type, size_t count,
                                      struct plait_prediction *out)
{
    if (f == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_time: %s is NULL", f == NULL ? "forecast" : "out");
    if (k >= f->ncandidate)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_time: there is no candidate %" PRIu32 "; there are %" PRIu32,
                          k, f->ncandidate);
    const struct known *known = find(f, k, type, count);
    if (known != NULL) {
        *out = known->prediction;
        return PLAIT_OK;
    }
    struct known now = { .candidate = k, .type = type, .count = count };
    const struct plait_sim_options o = { .place = f->place };
    const enum plait_status status =
        plait_simulate(&f->machine, f->spec[k], &f->shape, type, count, &o, &now.prediction);
    if (status != PLAIT_OK)
        return status;
    *out = now.prediction;
    return keep(f, &now) ? PLAIT_OK : no_memory(f);
}

enum plait_status plait_forecast_fastest(struct plait_forecast *f, enum plait_dtype type, size_t count,
                                         const char **algorithm, struct plait_prediction *out)
{
    struct plait_prediction p, best = { 0 };
    enum plait_status status = PLAIT_OK;
    bool found = false;

    if (f == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_fastest: %s is NULL", f == NULL ? "forecast" : "out");
    for (uint32_t k = 0; k < f->ncandidate; k++) {
        status = plait_forecast_time(f, k, type, count, &p);
        if (status != PLAIT_OK && status != PLAIT_ERR_UNSUPPORTED)
            return status;
        if (status != PLAIT_OK || (found && p.time >= best.time))
            continue;
        found = true;
        best = p;
        if (algorithm != NULL)
            *algorithm = f->spec[k];
    }
    if (!found)
        return status;
    *out = best;
    return PLAIT_OK;
}

uint32_t plait_forecast_slowest(const struct plait_forecast *f)
{
    const struct plait_machine *m = &f->machine;
    uint32_t percent = 100;

    for (uint32_t i = 0; i < m->nslow; i++)
        for (uint32_t r = 0; m->slow[i].rank && r < f->shape.nrank; r++)
            if ((f->place != NULL ? f->place[r] : r) == m->slow[i].child && m->slow[i].percent < percent)
                percent = m->slow[i].percent;
    return percent;
}
