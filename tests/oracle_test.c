/* SPDX-License-Identifier: BSD-3-Clause */
/* The oracle: every algorithm gives what its collective promises, in any order of ready steps, for awkward counts. */
#include "../transports/local.h"
#include "plans.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static void check_results(const struct spec *spec, size_t count, uint64_t seed)
{
    struct plans p = plans_emit(spec->alg, &spec->shape);

    if (!plans_right(&p, count, seed) || !plans_same_bits(&p, count, seed))
        fail_msg("%s:%s, %u ranks, root %u%s, %zu elements, seed %llu: wrong; %s", plait_coll_name(spec->alg->coll),
                 spec->text, p.n, spec->shape.root, spec->shape.inplace ? " in place" : "", count,
                 (unsigned long long)seed, plait_last_error());
    plans_free(&p);
}

static void check_coll(enum plait_coll coll, uint32_t n, bool inplace)
{
    const size_t counts[] = { 0, 1, n - 1, n, 13, 61, 127 };
    struct specs s;
    uint32_t root;

    specs_init(&s, coll, n, inplace);
    assert_true(s.n > 0 || coll == PLAIT_BARRIER || (coll == PLAIT_ALLTOALL && inplace));
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t k = 0; (root = specs_root(coll, n, 8, k)) != UINT32_MAX; k++) {
            s.spec[i].shape.root = root;
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_results(&s.spec[i], counts[c], n + c);
        }
    specs_finish(&s);
}

static void every_algorithm_gives_the_result_for_any_count_and_root(void **state)
{
    for (int c = 0; c < PLAIT_NCOLL; c++)
        for (uint32_t n = 1; n <= 17; n += light() && n > 4 ? 6 : !full() && n > 9 ? 3 : 1)
            for (int inplace = 0; inplace < 2; inplace++)
                check_coll((enum plait_coll)c, n, inplace);
}

static void many_orders_give_the_same_result(void **state)
{
    struct specs s;

    for (int c = 0; c < PLAIT_NCOLL; c++) {
        specs_init(&s, (enum plait_coll)c, 6, c != PLAIT_ALLTOALL);
        for (uint32_t i = 0; i < s.n; i++)
            for (uint64_t seed = 0; seed < (light() ? 10 : 50); seed++) {
                s.spec[i].shape.root = (uint32_t)seed % 6;
                check_results(&s.spec[i], 23, seed);
            }
        specs_finish(&s);
    }
}

/* Ranks of 8 caches on 4 memory nodes in 2 packages, in any order: the groups of a level differ in size. */
static void hierarchies_of_three_levels_give_the_same_result(void **state)
{
    enum { N = 10, LEVELS = 3 };
    static const uint32_t core[N] = { 0, 14, 1, 3, 12, 4, 6, 8, 9, 11 };
    static const char *const specs[] = { "hierarchy", "hierarchy:tree:ring", "hierarchy:jia:ring",
                                         "hierarchy:direct:halving-doubling", "hierarchy:jia:two-shot" };
    uint32_t level[LEVELS * N];

    for (uint32_t r = 0; r < N; r++)
        for (uint32_t l = 0; l < LEVELS; l++)
            level[l * N + r] = core[r] >> (l + 1);
    for (int inplace = 0; inplace < 2; inplace++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            struct spec spec = {
                .shape = { .coll = PLAIT_ALLREDUCE, .nrank = N, .inplace = inplace, .nlevel = LEVELS, .level = level }
            };
            snprintf(spec.text, sizeof spec.text, "%s of three levels", specs[i]);
            assert_int_equal(plait_alg_find(plait_algs, specs[i], &spec.shape, &spec.alg), PLAIT_OK);
            for (uint64_t seed = 0; seed < (light() ? 5 : 20); seed++)
                check_results(&spec, 13 * seed, seed);
        }
}

static void assert_refused(const char *const *texts, uint32_t n, const char *message)
{
    struct plans p = plans_read(texts, n, false);

    assert_false(plans_right(&p, 10, 1));
    if (strstr(plait_last_error(), message) == NULL)
        fail_msg("'%s' does not contain '%s'", plait_last_error(), message);
    plans_free(&p);
}

static void a_deadlock_is_reported(void **state)
{
    assert_refused((const char *const[]){ "1 1 1\nrecv tmp[0] from r1\nsend in[0] to r1   after 0\n",
                                          "1 1 1\nrecv tmp[0] from r0\nsend in[0] to r0   after 0\n" },
                   2, "no step is ready, but only 0 of 4 are done");
}

static void other_blocks_at_the_two_ends_are_reported(void **state)
{
    assert_refused((const char *const[]){ "2 1 1\nsend in[0] to r1\n", "2 1 1\nrecv tmp[0] from r0 block 1\n" }, 2,
                   "rank 0 step 0 sends block 0, but rank 1 step 0 receives block 1");
}

static void a_span_outside_its_buffer_is_reported(void **state)
{
    assert_refused((const char *const[]){ "2 1 1\ncopy out[0..1] = in[0..1]\ncopy tmp[0..1] = in[0..1]\n" }, 1,
                   "rank 0 step 1 has a field out of range");
    assert_refused((const char *const[]){ "3 1 1\ncopy out[2] = in[2] block 0\n" }, 1,
                   "rank 0 step 0 has a field out of range");
}

/* Without the dependency some order reads TMP too early. */
static void a_missing_dependency_shows_in_some_order(void **state)
{
    const char *const texts[] = {
        "1 1 1\nsend in[0] to r1\nrecv tmp[0] from r1\nreduce out[0] = in[0], tmp[0]\n",
        "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\nreduce out[0] = tmp[0], in[0]   after 1\n",
    };
    struct plans p = plans_read(texts, 2, false);
    int wrong = 0;

    for (uint64_t seed = 0; seed < 40; seed++)
        wrong += !plans_right(&p, 5, seed);
    assert_in_range(wrong, 1, 39);
    plans_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_gives_the_result_for_any_count_and_root),
        cmocka_unit_test(many_orders_give_the_same_result),
        cmocka_unit_test(hierarchies_of_three_levels_give_the_same_result),
        cmocka_unit_test(a_deadlock_is_reported),
        cmocka_unit_test(other_blocks_at_the_two_ends_are_reported),
        cmocka_unit_test(a_span_outside_its_buffer_is_reported),
        cmocka_unit_test(a_missing_dependency_shows_in_some_order),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
