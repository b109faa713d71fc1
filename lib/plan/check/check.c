/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker: proves a whole comm's plans before anything runs.
 *
 * Each check may rely on the checks before it. Shape makes every field safe to use. Matching pairs the messages. The
 * deadlock check yields an order in which all steps can run. The race check shows that every other order computes the
 * same. So one symbolic run in that order (meaning.c) proves the result for all orders. The checker does not trust the
 * builder: it reads the dependencies as given and derives the required ones again from the spans.
 */
#include "check.h"
#include "base/status.h"
#include "plan/plan_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *plait_check_name(enum plait_check check)
{
#define PLAIT_X(symbol, name, text) name,
    static const char *const names[] = { PLAIT_CHECK_LIST(PLAIT_X) };
#undef PLAIT_X
    return (unsigned)check < PLAIT_NCHECK ? names[check] : "?";
}

enum plait_status(plait_check_fail)(struct plait_checker *c, enum plait_check check, const char *format, ...)
{
    struct plait_report *r = c->report;
    const int n = snprintf(r->text, sizeof r->text, "%.80s, %u rank%s: ", c->name, c->nrank, c->nrank == 1 ? "" : "s");
    va_list args;

    va_start(args, format);
    vsnprintf(r->text + n, sizeof r->text - (size_t)n, format, args);
    va_end(args);
    r->failed = check;
    return plait_fail(PLAIT_ERR_PLAN, "%s", r->text);
}

enum plait_status(plait_check_nomem)(const struct plait_checker *c)
{
    return plait_fail_memory("out of memory while checking %s for %u ranks", c->name, c->nrank);
}

/* Run all checks, or only those that prove that the plans end. fused: see graph.c */
static enum plait_status run(struct plait_checker *c, bool all, const uint32_t *const *fused)
{
    memset(c->report, 0, sizeof *c->report);
    c->uneven = PLAIT_NONE;
    enum plait_status status = all ? plait_check_shape(c) : PLAIT_OK;
    if (status == PLAIT_OK)
        status = plait_graph_init(c);
    if (status == PLAIT_OK)
        status = plait_check_matching(c);
    if (status == PLAIT_OK)
        status = plait_check_order(c, fused);
    if (status == PLAIT_OK && all)
        status = plait_check_race(c);
    if (status == PLAIT_OK && all)
        status = plait_check_meaning(c);
    c->report->uneven = c->uneven != PLAIT_NONE;
    if (status == PLAIT_OK && all)
        status = plait_check_figures(c);
    if (status == PLAIT_OK && c->kinds != NULL && c->uneven != PLAIT_NONE)
        status = plait_fail(PLAIT_ERR_UNSUPPORTED,
                            "algorithm '%s' mixes partial sums with other values in one step (rank %u step %u), so it "
                            "can neither round once nor average; use PLAIT_ROUND_HOP and another operator",
                            c->name, c->graph.rank[c->uneven], plait_graph_index(&c->graph, c->uneven));
    plait_scratch_free(&c->graph.arrays);
    return status;
}

static enum plait_status compare_claim(struct plait_checker *c, const struct plait_claim *claim)
{
    const struct plait_claim *seen = &c->report->seen;
    const struct {
        const char *what;
        uint64_t seen, claimed;
        bool at_most;
    } figures[] = {
        { "the depth", seen->depth, claim->depth, false },
        { "the number of blocks", seen->nblk, claim->nblk, false },
        { "the most blocks that a rank sends", seen->sent, claim->sent, false },
        { "the most blocks that a rank receives", seen->received, claim->received, false },
        { "the number of rounds", seen->rounds, claim->rounds, !claim->rounds_exact },
    };

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (figures[i].at_most ? figures[i].seen > figures[i].claimed : figures[i].seen != figures[i].claimed)
            return plait_check_fail(c, PLAIT_CHECK_CLAIM, "%s is %" PRIu64 ", but the claim is %s%" PRIu64,
                                    figures[i].what, figures[i].seen, figures[i].at_most ? "at most " : "",
                                    figures[i].claimed);
    return PLAIT_OK;
}

static struct plait_checker checker_of(const char *name, const struct plait_shape *shape,
                                       const struct plait_plan *const *plans, struct plait_report *report)
{
    return (struct plait_checker){ .name = name,
                                   .plans = plans,
                                   .nrank = shape->nrank,
                                   .root = shape->root,
                                   .inplace = shape->inplace,
                                   .coll = shape->coll,
                                   .report = report };
}

enum plait_status plait_plan_check(const char *name, const struct plait_shape *shape,
                                   const struct plait_plan *const *plans, const struct plait_claim *claim,
                                   struct plait_report *report)
{
    struct plait_report own;

    if (shape == NULL || plans == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_check: %s is NULL", shape == NULL ? "shape" : "plans");
    for (uint32_t r = 0; r < shape->nrank; r++)
        if (plans[r] == NULL)
            return plait_fail(PLAIT_ERR_ARG, "plait_plan_check: plans[%u] is NULL", r);
    struct plait_checker c = checker_of(name != NULL ? name : "", shape, plans, report != NULL ? report : &own);

    const enum plait_status status = run(&c, true, NULL);
    return status != PLAIT_OK || claim == NULL ? status : compare_claim(&c, claim);
}

enum plait_status plait_check_values(const char *name, const struct plait_shape *shape,
                                     const struct plait_plan *const *plans, uint32_t rank, unsigned char *kinds)
{
    struct plait_report report;
    struct plait_checker c = checker_of(name, shape, plans, &report);

    c.kinds = kinds;
    c.kinds_of = rank;
    memset(kinds, 0, plans[rank]->nstep);
    return run(&c, true, NULL);
}

enum plait_status plait_check_deadlock(const char *name, const struct plait_plan *const *plans, uint32_t nrank,
                                       const uint32_t *const *node, uint32_t window)
{
    struct plait_report report;
    struct plait_checker c = { .name = name, .plans = plans, .nrank = nrank, .window = window, .report = &report };

    return run(&c, false, node);
}

/* Checks an algorithm's flags, on which selection relies. */
static enum plait_status compare_flags(const struct plait_alg *alg, const struct plait_shape *shape,
                                       struct plait_report *report)
{
    struct plait_checker c = { .name = alg->name, .nrank = shape->nrank, .report = report };

    if (alg->canonical && !report->canonical)
        return plait_check_fail(&c, PLAIT_CHECK_CLAIM, "claims the canonical order, but a block has another one");
    if (alg->no_partials && !report->no_partials)
        return plait_check_fail(&c, PLAIT_CHECK_CLAIM, "claims that no partial results travel, but one does");
    return PLAIT_OK;
}

enum plait_status plait_alg_prove(const struct plait_alg *alg, const struct plait_shape *shape,
                                  const struct plait_claim *claim, struct plait_report *report)
{
    struct plait_plan **plans;
    enum plait_status status = plait_plans_emit(alg, shape, &plans);

    memset(report, 0, sizeof *report);
    if (status == PLAIT_OK) {
        status = plait_plan_check(alg->name, shape, (const struct plait_plan *const *)plans, claim, report);
    } else { /* an error of the builder counts as one of shape */
        report->failed = PLAIT_CHECK_SHAPE;
        snprintf(report->text, sizeof report->text, "%.500s", plait_last_error());
    }
    if (status == PLAIT_OK)
        status = compare_flags(alg, shape, report);
    plait_plans_destroy(plans, shape->nrank);
    return status;
}

enum plait_status plait_alg_check(const struct plait_alg *alg, const struct plait_shape *shape,
                                  struct plait_report *report)
{
    if (alg == NULL || shape == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_check: %s is NULL", alg == NULL ? "alg" : "shape");
    if (plait_alg_fault(alg) != NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_check: alg %s", plait_alg_fault(alg));
    const enum plait_status status = plait_shape_check("plait_alg_check", shape);
    if (status != PLAIT_OK)
        return status;
    if (shape->coll != alg->coll)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_check: algorithm '%s' is for %s, but the shape is of %s", alg->name,
                          plait_coll_name(alg->coll), plait_coll_name(shape->coll));
    const struct plait_claim claim = alg->claim(alg, shape);
    struct plait_report own;

    return plait_alg_prove(alg, shape, &claim, report != NULL ? report : &own);
}
