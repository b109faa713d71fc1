/* SPDX-License-Identifier: BSD-3-Clause */
/* The algorithms: the papers' figures, which ranks are inner nodes of trees, where each applies. */
#include "random.h"
#include "tier.h"
#include "unit.h"

#include <plait/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct plait_alg *find(const char *spec, struct plait_shape *shape)
{
    const struct plait_alg *alg = NULL;

    if (plait_alg_find(plait_algs, spec, shape, &alg) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
    return alg;
}

static void the_papers_rounds_come_out_at_1024_ranks(void **state)
{
    static const struct {
        const char *spec;
        uint64_t rounds;
        bool flat; /* no nodes are known */
    } known[] = {
        { "ring", 2046 },       { "torus:32x32", 124 },
        { "torus", 124, true }, { "torus", 156 }, /* 64 nodes of 16 */
        { "torus:8x128", 268 }, { "halving-doubling", 20 },
        { "binomial", 20 },     { "hierarchy:jia:ring", 186 },
    };
    uint32_t node[1024];

    for (uint32_t r = 0; r < 1024; r++)
        node[r] = r / 16;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 1024, .node = known[i].flat ? NULL : node };
        struct plait_report report;
        const struct plait_alg *alg = find(known[i].spec, &shape);
        assert_int_equal(alg->claim(alg, &shape).rounds, known[i].rounds);
        if (!full() && i % (light() ? 8 : 2) != 1)
            continue;
        if (plait_alg_check(alg, &shape, &report) != PLAIT_OK)
            fail_msg("%s: %s", known[i].spec, report.text);
        assert_int_equal(report.seen.rounds, known[i].rounds);
    }
}

static void jias_rounds_are_the_papers_formula_for_equal_nodes(void **state)
{
    uint32_t node[128];

    for (uint32_t k = 1; k <= 16; k++)
        for (uint32_t n = 2; n * k <= (light() ? 32 : full() ? 128 : 64); n++) {
            struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = n * k, .node = node };
            struct plait_report report;
            for (uint32_t r = 0; r < n * k; r++)
                node[r] = r / k;
            const struct plait_alg *alg = find("hierarchy:jia:ring", &shape);
            if (plait_alg_check(alg, &shape, &report) != PLAIT_OK)
                fail_msg("nodes %ux%u: %s", n, k, report.text);
            assert_int_equal(alg->claim(alg, &shape).rounds, 4 * (k - 1) + 2 * (n - 1));
            assert_int_equal(report.seen.rounds, 4 * (k - 1) + 2 * (n - 1));
        }
}

/* How many ranks receive something to combine in two colours; and the most children in one colour. */
static uint32_t inner_twice(const char *spec, uint32_t nrank, uint32_t *fan)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = nrank };
    const struct plait_alg *alg = find(spec, &shape);
    uint32_t twice = 0;

    *fan = 0;
    for (uint32_t r = 0; r < nrank; r++) {
        uint32_t children[64] = { 0 }, colours = 0;
        struct plait_plan *plan;
        assert_int_equal(plait_plan_emit(alg, &shape, r, &plan), PLAIT_OK);
        for (uint32_t i = 0; i < plan->nstep; i++)
            if (plan->step[i].verb == PLAIT_STEP_REDUCE) {
                const uint32_t n = ++children[plan->step[i].blk];
                colours += n == 1;
                *fan = n > *fan ? n : *fan;
            }
        assert_true(colours <= 2);
        twice += colours == 2;
        plait_plan_destroy(plan);
    }
    return twice;
}

static void as_few_ranks_as_possible_are_inner_in_two_colours(void **state)
{
    char spec[32];

    for (uint32_t n = 1; n <= (light() ? 40 : full() ? 128 : 64); n++)
        for (uint32_t k = 1; k <= 16; k++) {
            const uint32_t rest = n % k;
            uint32_t fan;
            snprintf(spec, sizeof spec, "trees:%u", k);
            assert_int_equal(inner_twice(spec, n, &fan), n < k || rest <= 1 ? 0 : k - rest);
            assert_true(fan <= k);
            snprintf(spec, sizeof spec, "trees:%u:wide", k);
            assert_int_equal(inner_twice(spec, n, &fan), 0);
            assert_true(fan <= (k > 1 ? 2 * k - 2 : 1) || n <= k || (k == 2 && fan <= 2));
        }
}

static void every_algorithm_applies_where_it_should(void **state)
{
    uint32_t node[64];

    for (uint32_t n = 1; n <= 64; n++) {
        node[n - 1] = (n - 1) % 3;
        for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
            struct plait_shape flat = { .coll = (*a)->coll, .nrank = n }, nodes = flat;
            const struct plait_alg *alg;
            const bool needs_nodes = strcmp((*a)->name, "hierarchy") == 0;
            nodes.node = node;
            assert_int_equal(plait_alg_find(plait_algs, (*a)->name, &flat, &alg) == PLAIT_OK, !needs_nodes);
            assert_int_equal(plait_alg_find(plait_algs, (*a)->name, &nodes, &alg) == PLAIT_OK, !needs_nodes || n >= 2);
        }
    }
}

/* So that reproducible results can be had from every collective that combines. */
static void every_combining_collective_has_a_canonical_algorithm(void **state)
{
    for (int c = 0; c < PLAIT_NCOLL; c++)
        for (uint32_t n = 1; n <= 64 && c != PLAIT_BARRIER; n++) {
            const struct plait_geometry g = plait_geometry_of((enum plait_coll)c, n, 0, 0, n);
            for (uint32_t root = 0; root < (g.rooted ? n : 1) && g.combines; root++) {
                const struct plait_shape shape = { .coll = (enum plait_coll)c, .nrank = n, .root = root };
                uint32_t found = 0;
                for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++)
                    found += (*a)->coll == shape.coll && (*a)->canonical && (*a)->applies(*a, &shape);
                assert_true(found > 0);
            }
        }
}

static void bruck_sends_logarithmically_many_messages(void **state)
{
    static const enum plait_coll colls[] = { PLAIT_ALLGATHER, PLAIT_ALLTOALL };

    for (size_t c = 0; c < 2; c++)
        for (uint32_t n = 1, steps = 0; n <= 64; n++) {
            struct plait_shape shape = { .coll = colls[c], .nrank = n };
            const struct plait_alg *alg = find("bruck", &shape);
            steps += n > 1 && 1u << steps < n; /* rounded up */
            for (uint32_t r = 0; r < n; r++) {
                struct plait_plan *plan;
                uint32_t sent = 0;
                assert_int_equal(plait_plan_emit(alg, &shape, r, &plan), PLAIT_OK);
                for (uint32_t i = 0; i < plan->nstep; i++)
                    sent += plan->step[i].verb == PLAIT_STEP_SEND;
                assert_int_equal(sent, steps);
                plait_plan_destroy(plan);
            }
        }
}

/* Whatever the root, the reduction is a tree: everyone else sends once, and nothing goes on from another rank. */
static void a_binomial_reduction_sends_one_message_per_rank(void **state)
{
    for (uint32_t n = 1; n <= 33; n++)
        for (uint32_t root = 0; root < n; root++) {
            struct plait_shape shape = { .coll = PLAIT_REDUCE, .nrank = n, .root = root };
            const struct plait_alg *alg = find("binomial", &shape);
            for (uint32_t r = 0; r < n; r++) {
                struct plait_plan *plan;
                uint32_t sent = 0;
                assert_int_equal(plait_plan_emit(alg, &shape, r, &plan), PLAIT_OK);
                for (uint32_t i = 0; i < plan->nstep; i++)
                    sent += plan->step[i].verb == PLAIT_STEP_SEND;
                assert_int_equal(sent, r != root);
                plait_plan_destroy(plan);
            }
        }
}

static void names_are_unique_and_every_field_is_set(void **state)
{
    for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
        assert_non_null((*a)->params);
        assert_non_null((*a)->text);
        assert_non_null((*a)->source);
        assert_non_null((*a)->applies);
        assert_non_null((*a)->emit);
        assert_non_null((*a)->claim);
        assert_int_equal((*a)->parse != NULL, (*a)->params[0] != '\0');
        for (const struct plait_alg *const *b = a + 1; *b != NULL; b++)
            assert_true((*a)->coll != (*b)->coll || strcmp((*a)->name, (*b)->name) != 0);
    }
}

static void wrong_shapes_are_refused_with_a_reason(void **state)
{
    static const struct {
        struct plait_shape shape;
        const char *spec, *message;
    } wrong[] = {
        { { .coll = PLAIT_BROADCAST, .nrank = 6, .root = 6 },
          "binomial",
          "broadcast: root is 6, but there are 6 ranks" },
        { { .coll = PLAIT_ALLTOALL, .nrank = 6, .inplace = true }, "direct", "alltoall has no form in place" },
        { { .coll = PLAIT_ALLGATHER, .nrank = 6 },
          "brook",
          "no algorithm 'brook' for allgather; did you mean 'bruck'?" },
        { { .coll = PLAIT_GATHER, .nrank = 6 }, "one-shot", "no algorithm 'one-shot' for gather" },
        { { .coll = PLAIT_NCOLL, .nrank = 6 }, "ring", "no enum plait_coll" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct plait_shape shape = wrong[i].shape;
        const struct plait_alg *alg;
        assert_int_not_equal(plait_alg_find(plait_algs, wrong[i].spec, &shape, &alg), PLAIT_OK);
        if (strstr(plait_last_error(), wrong[i].message) == NULL)
            fail_msg("'%s' does not contain '%s'", plait_last_error(), wrong[i].message);
    }
}

static void case_and_hyphens_of_names_have_no_meaning(void **state)
{
    static const char *const same[][2] = {
        { "Ring", "ring" },
        { "Halving_Doubling", "halving-doubling" },
        { "TORUS:2Dx3", "torus:2dx3" },
        { "Trees:2:Wide", "trees:2:wide" },
        { "oneshot", "one-shot" },
        { "Hierarchy:JIA:halvingDoubling", "hierarchy:jia:halving-doubling" },
    };
    static const uint32_t node[] = { 0, 0, 0, 1, 1, 1 };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct plait_shape a = { .coll = PLAIT_ALLREDUCE, .nrank = 6, .node = node }, b = a;
        const struct plait_alg *found, *expected;
        assert_int_equal(plait_alg_find(plait_algs, same[i][1], &b, &expected), PLAIT_OK);
        if (plait_alg_find(plait_algs, same[i][0], &a, &found) != PLAIT_OK)
            fail_msg("%s: %s", same[i][0], plait_last_error());
        assert_ptr_equal(found, expected);
        assert_memory_equal(a.param, b.param, sizeof a.param);
    }
}

static void wrong_specs_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *spec, *message;
    } wrong[] = {
        { "rong", "no algorithm 'rong' for allreduce; did you mean 'ring'?" },
        { "TREE", "no algorithm 'TREE' for allreduce; did you mean 'trees'?" },
        { "ring:2", "algorithm 'ring:2': parameters '2' are not of the form ring" },
        { "torus:", NULL },
        { "torus:x", "algorithm 'torus:x': parameters 'x'" },
        { "torus:3x", "parameters '3x'" },
        { "torus:0x6", "parameters '0x6'" },
        { "torus:-1x6", "parameters '-1x6'" },
        { "torus:1x1x1x1x1x1x1x1x6", "parameters" },
        { "torus:4294967296x6", "parameters" },
        { "torus:18446744073709551617x6", "parameters" },
        { "torus:7x1", "does not fit 6 ranks; the product of its factors must be" },
        { "torus:3x1", "does not fit 6 ranks" },
        { "torus:65536x65536", "does not fit 6 ranks" },
        { "trees:0", "parameters '0'" },
        { "trees:2:narrow", "parameters '2:narrow'" },
        { "hierarchy", "does not fit 6 ranks; the ranks must lie on two nodes" },
        { "hierarchy:jia:rong", "parameters 'jia:rong'" },
        { "hierarchy:hierarchy", "parameters 'hierarchy'" },
        { "hierarchy:tree:ring:3", "parameters 'tree:ring:3'" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 6 };
        const struct plait_alg *alg;
        const enum plait_status status = plait_alg_find(plait_algs, wrong[i].spec, &shape, &alg);
        if (wrong[i].message == NULL)
            assert_int_equal(status, PLAIT_OK);
        else if (status != PLAIT_ERR_CONFIG || strstr(plait_last_error(), wrong[i].message) == NULL)
            fail_msg("%s: '%s'", wrong[i].spec, plait_last_error());
    }
}

/* One step, in any rank order: a shuffled map of the nodes 3 + 1 + 2. */
static void nodes_may_be_numbered_in_any_way(void **state)
{
    static const uint32_t maps[][6] = {
        { 2, 0, 1, 2, 1, 2 }, { 0, 1, 2, 3, 4, 5 }, { 1, 0, 1, 0, 1, 0 }, { 9, 9, 9, 9, 9, 4 }
    };
    static const char *const specs[] = { "hierarchy", "hierarchy:jia:trees:2", "hierarchy:direct:torus",
                                         "hierarchy:jia:halving-doubling" };

    for (size_t m = 0; m < sizeof maps / sizeof *maps; m++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 6, .node = maps[m] };
            struct plait_report report;
            if (plait_alg_check(find(specs[i], &shape), &shape, &report) != PLAIT_OK)
                fail_msg("map %zu, %s: %s", m, specs[i], report.text);
        }
}

/*
 * Three levels of uneven groups: every rank draws a leaf, a leaf lies in a group by its number, that in another. Levels
 * may divide nothing, and ranks come in any order.
 */
static void draw_levels(uint64_t *random, uint32_t nrank, uint32_t *level)
{
    const uint32_t leaves = 2 + random_below(random, nrank), wide = 1 + random_below(random, 3);

    for (uint32_t r = 0; r < nrank; r++) {
        level[r] = random_below(random, leaves);
        level[nrank + r] = level[r] / wide;
        level[2 * nrank + r] = level[nrank + r] * level[nrank + r] % 7 / 2; /* unevenly many groups in one */
    }
}

static void hierarchies_take_three_levels_of_uneven_groups(void **state)
{
    static const char *const specs[] = { "hierarchy:tree:ring",       "hierarchy:direct:two-shot",
                                         "hierarchy:direct:ring",     "hierarchy:jia:ring",
                                         "hierarchy:tree:torus",      "hierarchy:tree:trees:2",
                                         "hierarchy:direct:binomial", "hierarchy:jia:halving-doubling" };
    uint64_t random = 43;
    uint32_t level[3 * 40], checked = 0, uneven = 0;

    for (uint32_t i = 0; i < (light() ? 60 : full() ? 3000 : 400); i++) {
        const uint32_t nrank = 3 + random_below(&random, 38);
        struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = nrank, .nlevel = 3, .level = level };
        const struct plait_alg *alg;
        struct plait_report report;
        draw_levels(&random, nrank, level);
        const char *spec = specs[random_below(&random, sizeof specs / sizeof *specs)];
        if (plait_alg_find(plait_algs, spec, &shape, &alg) != PLAIT_OK) /* all in one group */
            continue;
        checked++;
        if (plait_alg_check(alg, &shape, &report) != PLAIT_OK)
            fail_msg("plan %u, %s of %u ranks: %s", i, spec, nrank, report.text);
        uneven += report.seen.depth > 2;
    }
    assert_true(checked > 30 && uneven > 20);
}

/* Packages of 2 and 1 on one host, 3 on the other: by two levels each vector crosses a border once, each way. */
static void each_border_is_crossed_once_each_way(void **state)
{
    static const uint32_t level[] = { 0, 1, 0, 2, 2, 2, /* hosts */ 5, 5, 5, 6, 6, 6 };
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 6, .nlevel = 2, .level = level };
    const struct plait_alg *alg = find("hierarchy:direct:one-shot", &shape);
    uint32_t between[2] = { 0 }; /* packages of a host, hosts */

    for (uint32_t r = 0; r < 6; r++) {
        struct plait_plan *plan;
        assert_int_equal(plait_plan_emit(alg, &shape, r, &plan), PLAIT_OK);
        for (uint32_t i = 0; i < plan->nstep; i++)
            if (plan->step[i].verb == PLAIT_STEP_SEND) {
                const uint32_t to = (uint32_t)plan->step[i].peer;
                if (level[6 + r] != level[6 + to])
                    between[1]++;
                else
                    between[0] += level[r] != level[to];
            }
        plait_plan_destroy(plan);
    }
    assert_int_equal(between[0], 2);
    assert_int_equal(between[1], 2);
    /* A group that reaches over two hosts is refused, and so is one group of all. */
    shape.level = (const uint32_t[]){ 0, 1, 0, 2, 2, 0, 5, 5, 5, 6, 6, 6 };
    assert_int_equal(plait_alg_find(plait_algs, "hierarchy", &shape, &alg), PLAIT_ERR_CONFIG);
    shape.level = (const uint32_t[]){ 0, 1, 0, 2, 2, 2, 5, 5, 5, 5, 5, 5 };
    assert_int_equal(plait_alg_find(plait_algs, "hierarchy", &shape, &alg), PLAIT_ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_every_field_is_set),
        cmocka_unit_test(the_papers_rounds_come_out_at_1024_ranks),
        cmocka_unit_test(jias_rounds_are_the_papers_formula_for_equal_nodes),
        cmocka_unit_test(as_few_ranks_as_possible_are_inner_in_two_colours),
        cmocka_unit_test(every_algorithm_applies_where_it_should),
        cmocka_unit_test(every_combining_collective_has_a_canonical_algorithm),
        cmocka_unit_test(bruck_sends_logarithmically_many_messages),
        cmocka_unit_test(a_binomial_reduction_sends_one_message_per_rank),
        cmocka_unit_test(wrong_shapes_are_refused_with_a_reason),
        cmocka_unit_test(case_and_hyphens_of_names_have_no_meaning),
        cmocka_unit_test(wrong_specs_are_refused_with_a_reason),
        cmocka_unit_test(nodes_may_be_numbered_in_any_way),
        cmocka_unit_test(hierarchies_take_three_levels_of_uneven_groups),
        cmocka_unit_test(each_border_is_crossed_once_each_way),
    };
    return cmocka_run_group_tests_name("algorithms", tests, NULL, NULL);
}
