/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that work in place beside ranks that do not, of which no rank knows: the library's plans of both have the same
 * messages, and cannot deadlock in any mixture, fused as binding fuses them.
 */
#include "proved.h"
#include "tier.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* A plan's messages: the number of each among those of its peer, direction and lane. */
static uint32_t *number_messages(const struct plait_plan *plan)
{
    uint32_t *number = must_have(calloc(plan->nstep + 1, sizeof *number));

    for (uint32_t i = 0; i < plan->nstep; i++)
        for (uint32_t j = 0; j < i; j++)
            number[i] += plan->step[i].peer == plan->step[j].peer && plan->step[i].verb == plan->step[j].verb &&
                         plan->step[i].lane == plan->step[j].lane;
    return number;
}

/* The step of x that is the same message as step j of y. */
static uint32_t same_message(const struct plait_plan *x, const uint32_t *of_x, const struct plait_step *s,
                             uint32_t number)
{
    for (uint32_t i = 0; i < x->nstep; i++) {
        const struct plait_step *t = &x->step[i];
        if (t->peer == s->peer && t->verb == s->verb && of_x[i] == number && t->lane == s->lane && t->blk == s->blk &&
            t->nblk == s->nblk)
            return i;
    }
    return UINT32_MAX;
}

/*
 * A plan that waits for all that x or y wait for: a message is a step of both, done once. If it runs to the end, so does
 * each of the two. node: in: how each plan is fused, [x->nstep] and then [y->nstep]; out: how the merged plan is.
 */
static struct plait_plan *merge(const struct plait_plan *x, const struct plait_plan *y, uint32_t *node)
{
    const uint32_t nstep = x->nstep + y->nstep, ndep = x->ndep + y->ndep;
    const size_t bytes = sizeof *x + nstep * sizeof *x->step + ndep * sizeof(uint32_t);
    uint32_t *of_x = number_messages(x), *of_y = number_messages(y), left = 0;
    struct plait_plan *p = must_have(calloc(1, bytes));

    memcpy(p, x, sizeof *p + x->nstep * sizeof *p->step);
    memcpy(p->step + x->nstep, y->step, y->nstep * sizeof *p->step);
    p->nstep = nstep;
    p->ndep = ndep;
    p->bytes = (uint32_t)bytes;
    uint32_t *deps = (uint32_t *)(uintptr_t)plait_plan_deps(p);
    memcpy(deps, plait_plan_deps(x), x->ndep * sizeof *deps);
    for (uint32_t i = 0; i < y->ndep; i++)
        deps[x->ndep + i] = plait_plan_deps(y)[i] + x->nstep;
    for (uint32_t i = 0; i < x->nstep; i++)
        left += x->step[i].peer >= 0;
    for (uint32_t i = x->nstep; i < nstep; i++) {
        p->step[i].dep0 += x->ndep;
        node[i] += x->nstep;
    }
    for (uint32_t i = x->nstep; i < nstep; i++) {
        struct plait_step *s = &p->step[i];
        if (s->peer < 0)
            continue;
        const uint32_t same = same_message(x, of_x, s, of_y[i - x->nstep]);
        assert_int_not_equal(same, UINT32_MAX);
        node[plait_find_node(node, i)] = plait_find_node(node, same);
        s->verb = PLAIT_STEP_COPY;
        s->peer = -1;
        left--;
    }
    assert_int_equal(left, 0);
    for (uint32_t i = 0; i < nstep; i++)
        node[i] = plait_find_node(node, i);
    free(of_x);
    free(of_y);
    return p;
}

/* Of every rank that may work in place the merged plan, of the others the only one. */
static bool is_mixture_proved(const struct plans *p, struct plait_plan *const *others, const char *spec,
                              enum plait_fusing fusing)
{
    uint32_t **nodes = must_have(calloc(p->n, sizeof *nodes));
    struct plait_plan **merged = must_have(calloc(p->n, sizeof *merged));

    for (uint32_t r = 0; r < p->n; r++) {
        const struct plait_plan *x = p->plan[r], *y = others[r];
        nodes[r] = must_have(calloc(x->nstep + (y != NULL ? y->nstep : 0) + 1, sizeof *nodes[r]));
        assert_int_equal(plait_fuse(x, fusing, nodes[r]), PLAIT_OK);
        if (y != NULL)
            assert_int_equal(plait_fuse(y, fusing, nodes[r] + x->nstep), PLAIT_OK);
        merged[r] = y != NULL ? merge(x, y, nodes[r]) : NULL;
    }
    struct plait_plan **all = must_have(calloc(p->n, sizeof *all));
    for (uint32_t r = 0; r < p->n; r++)
        all[r] = merged[r] != NULL ? merged[r] : p->plan[r];
    const enum plait_status status = plait_check_deadlock(spec, (const struct plait_plan *const *)all, p->n,
                                                          (const uint32_t *const *)nodes, PLAIT_WINDOW);
    assert_true(status == PLAIT_OK || status == PLAIT_ERR_PLAN);
    for (uint32_t r = 0; r < p->n; r++) {
        free(nodes[r]);
        free(merged[r]);
    }
    free(all);
    free(merged);
    free(nodes);
    return status == PLAIT_OK;
}

static bool all_sliceable(const struct plans *p)
{
    bool sliceable = true;

    for (uint32_t r = 0; r < p->n; r++)
        sliceable &= plait_plan_sliceable(p->plan[r]);
    return sliceable;
}

/* As binding does: the plans out of place say how far steps are fused, at most to `most`. */
static void prove_mixture(const struct spec *spec, int most)
{
    const struct plait_geometry g = plait_geometry_of(spec->shape.coll, spec->shape.nrank, spec->shape.root, 0, 1);
    struct plans p = plans_emit(spec->alg, &spec->shape);
    struct plait_plan **others = must_have(calloc(p.n, sizeof *others));
    struct plait_shape inplace = spec->shape;
    int fusing = most;

    inplace.inplace = true;
    for (uint32_t r = 0; r < p.n; r++)
        if (!g.rooted || r == spec->shape.root)
            assert_int_equal(plait_plan_emit(spec->alg, &inplace, r, &others[r]), PLAIT_OK);
    while (fusing > PLAIT_FUSE_NONE && !is_proved(spec->alg, spec->text, &spec->shape, (enum plait_fusing)fusing))
        fusing--;
    if (!is_mixture_proved(&p, others, spec->text, (enum plait_fusing)fusing))
        fail_msg("%s, %u ranks, root %u, fused %d: deadlock where some ranks work in place", spec->text, p.n,
                 spec->shape.root, fusing);
    for (uint32_t r = 0; r < p.n; r++) {
        if (others[r] != NULL && all_sliceable(&p) && !plait_plan_sliceable(others[r]))
            fail_msg("%s, %u ranks: rank %u is sliceable, but not in place", spec->text, p.n, r);
        plait_plan_destroy(others[r]);
    }
    free(others);
    plans_free(&p);
}

static void ranks_in_place_and_others_run_to_the_end(void **state)
{
    uint32_t proved = 0;

    for (uint32_t n = 2; n <= (full() ? 64 : light() ? 9 : 17); n += full() || n < 9 ? 1 : 4)
        for (int coll = 0; coll < PLAIT_NCOLL; coll++) {
            struct specs s;
            if (coll == PLAIT_ALLTOALL) /* it has no plan in place */
                continue;
            specs_init(&s, (enum plait_coll)coll, n, false);
            for (uint32_t i = 0; i < s.n; i++) {
                struct plait_shape inplace = s.spec[i].shape;
                inplace.inplace = true;
                if (!s.spec[i].alg->applies(s.spec[i].alg, &inplace))
                    continue;
                for (uint32_t k = 0, root; (root = specs_root((enum plait_coll)coll, n, 5, k)) != UINT32_MAX; k++) {
                    s.spec[i].shape.root = root;
                    prove_mixture(&s.spec[i], PLAIT_FUSE_PROVED);
                    prove_mixture(&s.spec[i], PLAIT_FUSE_LOCAL);
                    proved += 2;
                }
            }
            specs_finish(&s);
        }
    print_message("%u mixtures\n", proved);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranks_in_place_and_others_run_to_the_end) };

    return cmocka_run_group_tests_name("mixture", tests, NULL, NULL);
}
