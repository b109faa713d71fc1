/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "base/log.h"
#include "base/status.h"
#include "plan/plan_check.h"
#include "prog.h"
#include "select.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Messages of a slice that are simulated, of all the library's candidates and of each of the caller's. They take each
 * rank some ms, and ranks may share processors.
 */
#define MOST_SIMULATED (1u << 13)

#define CLOSE     9 /* times that differ by up to a ninth of the longer one are alike: an eighth of the shorter one */
#define PS_PER_NS 1000
#define PS_PER_S  1e12

struct candidate {
    const struct plait_alg *alg;
    bool own; /* the caller's, or a user's: always simulated */
    struct plait_claim claim;
    uint64_t time;  /* ps; UINT64_MAX: as it is bound, it may deadlock */
    bool estimated; /* by the claim, not simulated */
};

/*
 * By the claim: messages and bytes take what they take in the largest unit, whose ranks share processors. Of a chain
 * through all ranks one message at a time leaves a host; of others, those of all its ranks share its link. Through
 * memory, only receivers move data.
 */
static uint64_t estimated_time(const struct plait_machine *m, const struct plait_shape *shape,
                               const struct plait_claim *c, size_t bytes)
{
    const struct plait_level *top = &m->level[m->nlevel - 1], *host = &m->level[0];
    const bool vector = plait_geometry_of(shape->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    const bool shared = m->nlevel > 1 && c->depth + 1 < shape->nrank;
    const uint64_t blocks = top->links > 0 && c->sent > c->received ? c->sent : c->received;
    const double block = (double)(vector && c->nblk > 0 ? bytes / c->nblk : bytes);
    const double turns = host->processors > 0 ? (double)host->children / host->processors : 1,
                 moved = (double)blocks * block * (shared ? host->children : 1),
                 busy = 2 * (double)(c->rounds * top->overhead) * PS_PER_NS + moved / (double)top->bandwidth * PS_PER_S;

    return c->depth * top->latency * PS_PER_NS + (uint64_t)(turns * busy);
}

/* ---- Which may run ------------------------------------------------------------------------------------------- */

enum plait_status plait_moves_whole_blocks(const struct plait_alg *alg, const struct plait_shape *shape)
{
    const bool rooted = plait_geometry_of(shape->coll, 1, 0, 0, 1).rooted;
    const uint32_t n = plait_is_of_library(alg) && !rooted ? 1 : shape->nrank; /* else ranks' plans are alike */
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < n && status == PLAIT_OK; r++) {
        struct plait_plan *plan = NULL;
        status = plait_plan_emit(alg, shape, r, &plan);
        if (status == PLAIT_OK && !plait_moves_single_blocks(plan))
            status = plait_cannot_differ(alg->name);
        plait_plan_destroy(plan);
    }
    return status;
}

/*
 * The model does not know the type and the operator. So an algorithm that is not the library's must be right with any
 * of them; it is proved.
 */
static enum plait_status check_own(const struct plait_alg *alg, const struct plait_shape *shape)
{
    struct plait_report report;
    enum plait_status status =
        shape->nrank <= PLAIT_MOST_PROVED
            ? plait_alg_check(alg, shape, &report)
            : plait_fail(PLAIT_ERR_CONFIG, "it is proved for at most %d ranks", PLAIT_MOST_PROVED);

    if (status == PLAIT_OK && report.uneven)
        status = plait_fail(PLAIT_ERR_CONFIG, "a step has partial sums beside other values");
    if (status != PLAIT_OK && status != PLAIT_ERR_NOMEM)
        plait_log(PLAIT_LOG_INFO, "algorithm '%s' runs only where it is named: %s", alg->name, plait_last_error());
    return status;
}

enum plait_status plait_candidate_find(const struct plait_alg *const *algorithms, const char *spec,
                                       struct plait_shape *shape, bool canonical, const struct plait_alg **out)
{
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    enum plait_status status = plait_alg_find(algorithms, spec, shape, out);

    if (status == PLAIT_OK && canonical && combines && !(*out)->canonical)
        status = plait_fail(PLAIT_ERR_CONFIG, "algorithm '%s' does not combine in the canonical order", spec);
    if (status == PLAIT_OK && !plait_is_of_library(*out))
        status = check_own(*out, shape);
    return status == PLAIT_OK && shape->vform ? plait_moves_whole_blocks(*out, shape) : status;
}

static enum plait_status find_candidates(const struct plait_machine *m, const struct plait_sim_options *o,
                                         const struct plait_shape *shape, size_t bytes, bool canonical,
                                         struct candidate *out, uint32_t *n)
{
    *n = 0;
    for (const struct plait_alg *const *a = o->algorithms; *a != NULL; a++) {
        struct plait_shape s = *shape;
        const struct plait_alg *alg;
        if ((*a)->coll != shape->coll)
            continue;
        const enum plait_status status = plait_candidate_find(o->algorithms, (*a)->name, &s, canonical, &alg);
        if (status == PLAIT_ERR_NOMEM)
            return status;
        if (status != PLAIT_OK || alg != *a) /* one of the caller's has its name */
            continue;
        struct candidate *c = &out[(*n)++];
        *c = (struct candidate){
            .alg = alg, .own = !plait_is_of_library(alg), .claim = alg->claim(alg, &s), .estimated = true
        };
        c->time = estimated_time(m, shape, &c->claim, bytes);
    }
    return PLAIT_OK;
}

/* ---- How long each takes -------------------------------------------------------------------------------------- */

/*
 * Is x to be preferred to y, which takes about as long? Times that differ by less than an eighth decide nothing, as the
 * model is not so exact. Then the canonical order is preferred, since results do not depend on the size then, after
 * that few steps in a row, and few messages.
 */
static bool is_preferred(const struct candidate *x, const struct candidate *y)
{
    if (x->alg->canonical != y->alg->canonical)
        return x->alg->canonical;
    if (x->claim.depth != y->claim.depth)
        return x->claim.depth < y->claim.depth;
    if (x->claim.rounds != y->claim.rounds)
        return x->claim.rounds < y->claim.rounds;
    return x->time != y->time ? x->time < y->time : y->own && !x->own;
}

static uint64_t time_of(const struct candidate *c)
{
    return c->time;
}

static uint64_t rounds_of(const struct candidate *c)
{
    return c->claim.rounds;
}

static void sort(struct candidate *all, uint32_t n, uint64_t (*key)(const struct candidate *))
{
    for (uint32_t i = 1; i < n; i++) {
        const struct candidate c = all[i];
        uint32_t at = i;
        for (; at > 0 && key(&c) < key(&all[at - 1]); at--)
            all[at] = all[at - 1];
        all[at] = c;
    }
}

/* Put the best first: of those that take at most an eighth longer than the fastest. The others are in order. */
static void put_best_first(struct candidate *all, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n && all[i].time - all[i].time / CLOSE <= all[0].time; i++)
        best = is_preferred(&all[i], &all[best]) ? i : best;
    const struct candidate first = all[best];
    for (; best > 0; best--)
        all[best] = all[best - 1];
    all[0] = first;
}

/* Simulate the candidates, those of few messages first, while messages are left. */
static enum plait_status simulate_all(const struct plait_machine *m, const struct plait_sim_options *options,
                                      const struct plait_shape *shape, size_t bytes, struct candidate *all, uint32_t n)
{
    uint64_t left = MOST_SIMULATED;

    for (struct candidate *c = all; c < all + n; c++) {
        const uint64_t messages = c->claim.rounds * shape->nrank;
        struct plait_prediction p = { .time = UINT64_MAX };
        if (messages > (c->own ? MOST_SIMULATED : left))
            continue;
        left -= c->own ? 0 : messages;
        const enum plait_status status = plait_simulate(m, c->alg->name, shape, PLAIT_UINT8, bytes, options, &p);
        if (status == PLAIT_ERR_NOMEM)
            return status;
        c->estimated = status != PLAIT_OK && status != PLAIT_ERR_PLAN;
        c->time = c->estimated ? c->time : p.time;
    }
    return PLAIT_OK;
}

enum plait_status plait_candidates_time(const struct plait_machine *m, const struct plait_sim_options *options,
                                        const struct plait_shape *shape, bool canonical, struct plait_pick *out)
{
    struct candidate *all;
    uint32_t n = 0;

    while (options->algorithms[n] != NULL)
        n++;
    if ((all = malloc((n + 1) * sizeof *all)) == NULL)
        return plait_fail_memory("out of memory to choose an algorithm");
    enum plait_status status = find_candidates(m, options, shape, out->bytes, canonical, all, &n);
    if (status == PLAIT_OK && n == 0)
        status =
            plait_fail(PLAIT_ERR_CONFIG, "no algorithm for %s of %" PRIu32 " ranks%s", plait_coll_name(shape->coll),
                       shape->nrank, canonical ? " combines in the canonical order" : "");
    if (status == PLAIT_OK) {
        sort(all, n, rounds_of);
        status = simulate_all(m, options, shape, out->bytes, all, n);
    }
    if (status == PLAIT_OK) {
        sort(all, n, time_of);
        put_best_first(all, n);
    }
    for (uint32_t i = 0; status == PLAIT_OK && i < n && all[i].time < UINT64_MAX && out->n < PLAIT_MOST_CANDIDATES;
         i++) {
        struct plait_candidate *c = &out->candidates[out->n++];
        snprintf(c->algorithm, sizeof c->algorithm, "%s", all[i].alg->name);
        c->predicted = (double)all[i].time / PS_PER_S;
        c->estimated = all[i].estimated;
    }
    free(all);
    return status;
}
